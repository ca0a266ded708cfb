"""Dialogues of the kinds that people have with a memory, as data."""
