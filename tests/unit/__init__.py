"""Tests that need no database."""
