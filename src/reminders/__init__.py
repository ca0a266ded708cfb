"""Reminders: set, listed, cancelled, snoozed, and when each comes next."""
