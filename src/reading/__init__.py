"""Meaning of texts in three languages: words, relations, times, requests; no I/O."""
