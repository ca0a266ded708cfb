"""Launcher of another author's bot from its checkout, against the servers in our environment.

    PYTHON_OF_THE_CHECKOUT benchmarks/other_bot.py /path/to/the/checkout

It supports n3d1117/chatgpt-telegram-bot and father-bot/chatgpt_telegram_bot, both based on
python-telegram-bot. Their code runs unchanged with default settings, except for the address of the
Bot API, the limit of messages a second (ours is lifted too), and father-bot's database: mongomock
in the bot's process replaces MongoDB, without its round trips, CPU and memory, and loses all data
when the bot is killed.
"""

import json
import os
import runpy
import sys
from pathlib import Path

import telegram.ext


class Builder(telegram.ext.ApplicationBuilder):
    """Application builder for the benchmark's Bot API."""

    def __init__(self) -> None:
        """Set the address of the Bot API."""
        super().__init__()
        self.base_url(os.environ["TELEGRAM_API_BASE"] + "/bot")


class Limiter(telegram.ext.AIORateLimiter):
    """Rate limiter with Pomni's own limit."""

    def __init__(self, **options: int) -> None:
        """Pass the library's options on."""
        super().__init__(overall_max_rate=float(os.environ["TELEGRAM_RATE_LIMIT"]), **options)


def n3d1117(checkout: Path) -> Path:
    """Return its program; defaults and the OpenAI SDK's variables are enough."""
    return checkout / "bot" / "main.py"


def father_bot(checkout: Path) -> Path:
    """Return its program, linked into the current folder next to its settings files."""
    import mongomock
    import pymongo
    import yaml

    pymongo.MongoClient = mongomock.MongoClient
    for name in ("bot", "static", "config/chat_modes.yml", "config/models.yml"):
        link = Path.cwd() / name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(checkout / name)
    settings = yaml.safe_load((checkout / "config" / "config.example.yml").read_text())
    settings |= {
        "telegram_token": os.environ["TELEGRAM_BOT_TOKEN"],
        "openai_api_key": os.environ["OPENAI_API_KEY"],
        "openai_api_base": os.environ["OPENAI_BASE_URL"],
    }
    Path("config/config.yml").write_text(json.dumps(settings))  # JSON is YAML too
    Path("config/config.env").write_text("MONGODB_PORT=27017\n")
    return Path.cwd() / "bot" / "bot.py"


def main() -> None:
    """Start the bot of the checkout given as the first argument."""
    checkout = Path(sys.argv[1]).resolve()
    telegram.ext.ApplicationBuilder, telegram.ext.AIORateLimiter = Builder, Limiter
    is_n3d1117 = (checkout / "bot" / "main.py").exists()
    program = n3d1117(checkout) if is_n3d1117 else father_bot(checkout)
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
