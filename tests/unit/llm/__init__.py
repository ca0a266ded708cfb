"""Tests of ``src/llm`` that need no database."""
