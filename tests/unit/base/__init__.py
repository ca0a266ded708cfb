"""Tests of ``src/base`` that need no database."""
