"""Attacks on the bot: long as commands, ``python -m tests.attacks.<name>``; short as tests."""
