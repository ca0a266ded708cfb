"""Attacks on the bot: long runs as commands ``python -m tests.attacks.<name>``, short as tests."""
