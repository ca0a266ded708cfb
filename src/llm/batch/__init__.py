"""Batch APIs: many questions at once, answered within a day, at half the price."""
