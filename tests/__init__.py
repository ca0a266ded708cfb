"""Tests of Pomni."""
