"""Tests of ``src/telegram`` that need no database."""
