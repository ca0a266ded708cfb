"""Reminders: repository, service, tools, screens, and rules that read requests without a model."""
