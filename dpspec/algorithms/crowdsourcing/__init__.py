"""The truth of tasks from the answers of many workers."""
