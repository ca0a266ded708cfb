"""How the settings page calls what may be changed while the bot runs, and in which order."""

from typing import NamedTuple

LIMIT = "0: no limit"


class SettingName(NamedTuple):
    """A setting in an operator's words.

    Attributes:
        label: What it is.
        unit: Of its number; empty: it has none.
    """

    label: str
    unit: str = ""


# What is changed daily; the page shows it first.
DAILY = {
    "daily_messages": SettingName("Messages a day, all users together", f"messages; {LIMIT}"),
    "daily_tokens": SettingName("Tokens a day, all users together", f"tokens; {LIMIT}"),
    "daily_messages_per_user": SettingName("Messages a day, each user", f"messages; {LIMIT}"),
    "daily_tokens_per_user": SettingName("Tokens a day, each user or group", f"tokens; {LIMIT}"),
    "messages_per_minute_per_user": SettingName(
        "Answers a minute, each user", f"answers; {LIMIT}"
    ),
    "answer_max_seconds": SettingName("Longest time for writing an answer", "seconds"),
    "answer_max_characters": SettingName("Longest answer", "characters"),
    "max_memories_per_user": SettingName("Facts kept of each user", "facts"),
    "message_retention_days": SettingName("Delete messages after", "days; 0: never"),
    "memory_extraction_enabled": SettingName("Read messages for facts in the background"),
}
# The rest, folded.
FOLDED = {
    "Reading messages for facts": {
        "memory_extraction_provider": SettingName("Read by"),
        "memory_extraction_model": SettingName("Model that reads"),
        "memory_extraction_interval_hours": SettingName("Time between batches", "hours"),
        "memory_extraction_window": SettingName("Messages in one reading", "messages"),
        "memory_extraction_silence_minutes": SettingName(
            "Silence after which fewer are read", "minutes"
        ),
        "memory_dedup_threshold": SettingName("Compare facts from a similarity of"),
        "memory_update_threshold": SettingName("Facts may be the same from a similarity of"),
        "background_calls_per_hour": SettingName(
            "Background calls an hour, each user or group", "calls"
        ),
    },
    "Finding memories": {
        "memory_retrieve_limit": SettingName("Memories in a prompt", "memories"),
        "memory_retrieve_threshold": SettingName("Least similarity of a memory"),
        "embedding_provider": SettingName("Embeddings by"),
        "embedding_model": SettingName("Embedding model"),
    },
    "Conversation window and summaries": {
        "history_messages": SettingName("Last messages in a prompt, at most", "messages"),
        "history_step": SettingName("Messages by which the window moves", "messages"),
        "summary_messages": SettingName("Messages in one summary", "messages"),
        "summaries_shown": SettingName("Summaries in a prompt", "summaries"),
        "summaries_kept": SettingName("Summaries kept before they are merged", "summaries"),
    },
    "Money": {"currency": SettingName("Currency of the prices")},
    "Long answers and strict mode": {
        "answer_max_parts": SettingName("Telegram messages of one answer", "messages"),
        "strict_retrieve_limit": SettingName("Strict mode: quotes of the first search", "quotes"),
        "strict_react_limit": SettingName("Strict mode: quotes of further searches", "quotes"),
        "strict_max_iterations": SettingName("Strict mode: further searches", "searches"),
    },
}
GROUPS = {"": DAILY, **FOLDED}
NAMES = {name: about for group in GROUPS.values() for name, about in group.items()}


def in_plain_words(text: str) -> str:
    """A sentence about settings with their labels for their names."""
    for name in sorted(NAMES, key=len, reverse=True):
        text = text.replace(name, f"“{NAMES[name].label}”")
    return text
