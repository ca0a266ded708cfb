"""What a fact is, when two are the same, and which cannot hold together; pure functions."""
