"""Telegram interface: receiving updates, aiogram handlers and middlewares, delivery.

Importing this package imports aiogram with its models deferred; see ``lazy_models``.
"""

from src.telegram.lazy_models import import_aiogram

import_aiogram()
