"""Pomni: a Telegram assistant that remembers."""
