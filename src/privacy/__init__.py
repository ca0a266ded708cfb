"""Erasing and exporting everything of one owner."""
