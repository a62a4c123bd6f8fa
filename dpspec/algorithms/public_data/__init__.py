"""Models whose direction comes from private reports and whose length from public unlabelled records."""
