"""Imports and loads what a bot needs at its start; the fork server of ``nursery`` imports it."""

import gc
from datetime import UTC, datetime

import anyio._backends._asyncio
import langchain_openai

import bot
import src.app
import src.console
import src.operate.doctor
import src.operate.evaluation
from src.base.config import Settings
from src.core import build_chat_model
from src.reading.reminder_phrases import read_reminder
from src.reading.time_expressions import read_time
from src.reading.words import content_words
from src.texts import LANGUAGES, say

IMPORTED = (anyio, langchain_openai, bot, src)

now = datetime.now(UTC)
read_time("5 марта", now)
read_reminder("напомни завтра в 9 полить цветы", now, "Europe/Kyiv")
content_words("слово")
build_chat_model(Settings(), "openai:any")
for language in LANGUAGES:
    say("start", language)
gc.collect()
gc.freeze()
