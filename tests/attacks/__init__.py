"""Attacks: long versions of tests, each a command of its own."""
