"""Tests of ``src/reading`` that need no database."""
