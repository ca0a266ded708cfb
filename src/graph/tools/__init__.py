"""The tools that the model may call, one per file."""
