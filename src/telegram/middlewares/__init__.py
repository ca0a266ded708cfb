"""Middlewares: of updates (language) and of requests to Telegram (throttle, metrics)."""
