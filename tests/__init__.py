"""The tests. aiogram is imported as the bot does it, which takes a fourth of the time."""

from src.telegram.lazy_models import import_aiogram

import_aiogram()
