"""Benchmarks of the bot against loopback fakes, next to a bare handler."""
