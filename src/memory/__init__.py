"""Remembering and forgetting: facts, summaries, search, and what the background does for them."""
