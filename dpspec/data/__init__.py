"""Records: where they come from, what is enforced on them, and how synthetic ones are drawn."""
