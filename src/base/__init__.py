"""Without a room of their own: settings, errors, logs, metrics, zones, owners."""
