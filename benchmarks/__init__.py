"""Benchmarks: the bot against loopback fakes, side by side with a bare handler."""
