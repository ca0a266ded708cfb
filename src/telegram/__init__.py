"""Telegram: receiving, the aiogram handlers and middlewares, delivery.

Importing this package imports aiogram, the lean way; see ``lazy_models``.
"""

from src.telegram.lazy_models import import_aiogram

import_aiogram()
