"""Reminders: their rows, service, tools, screens, and the rules without a model."""
