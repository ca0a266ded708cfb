"""The nodes, one per file, each with one function of the file's name."""
