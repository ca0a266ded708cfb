"""Starts another author's bot out of its checkout, against the servers that our variables name.

    PYTHON_OF_THE_CHECKOUT benchmarks/other_bot.py /path/to/the/checkout

It knows n3d1117/chatgpt-telegram-bot and father-bot/chatgpt_telegram_bot, both on
python-telegram-bot, whose code runs as it is, its settings at their defaults. What is changed: the
address of the Bot API, the limit of messages a second (ours is lifted too), and for father-bot's
the database: mongomock in the bot's own process stands in for MongoDB, without its round trips,
its processor and its memory, and forgets all when the bot is killed.
"""

import json
import os
import runpy
import sys
from pathlib import Path

import telegram.ext


class Builder(telegram.ext.ApplicationBuilder):
    """Talks to the Bot API of the benchmark."""

    def __init__(self) -> None:
        """Everything else is the library's."""
        super().__init__()
        self.base_url(os.environ["TELEGRAM_API_BASE"] + "/bot")


class Limiter(telegram.ext.AIORateLimiter):
    """Lets as much through as Pomni's own may."""

    def __init__(self, **options: int) -> None:
        """The options are the library's."""
        super().__init__(overall_max_rate=float(os.environ["TELEGRAM_RATE_LIMIT"]), **options)


def n3d1117(checkout: Path) -> Path:
    """Its program, whose defaults and the variables of the OpenAI SDK are enough."""
    return checkout / "bot" / "main.py"


def father_bot(checkout: Path) -> Path:
    """Its program, linked into the current folder beside the files that it reads settings from."""
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
    Path("config/config.yml").write_text(json.dumps(settings))  # which is YAML too
    Path("config/config.env").write_text("MONGODB_PORT=27017\n")
    return Path.cwd() / "bot" / "bot.py"


def main() -> None:
    """Start the bot of the checkout that the first argument names."""
    checkout = Path(sys.argv[1]).resolve()
    telegram.ext.ApplicationBuilder, telegram.ext.AIORateLimiter = Builder, Limiter
    is_n3d1117 = (checkout / "bot" / "main.py").exists()
    program = n3d1117(checkout) if is_n3d1117 else father_bot(checkout)
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
