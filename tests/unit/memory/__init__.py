"""Tests of ``src/memory`` that need no database."""
