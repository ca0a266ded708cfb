"""Imports: what people told others, brought with /import, and taken back with /import undo."""
