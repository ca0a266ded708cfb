"""Prompts, each beside the schema of its reply."""
