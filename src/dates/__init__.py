"""Times in texts: the days and periods that expressions name, in three languages; pure."""
