"""Telegram: receiving, the aiogram handlers and middlewares, delivery."""
