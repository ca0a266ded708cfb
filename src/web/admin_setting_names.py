"""Labels, units and order of the settings on the settings page."""

LIMIT = "0: no limit"

# Label of each setting, and the unit of its number (empty: none). Frequently changed settings; the
# page shows them first.
DAILY = {
    "daily_messages": ("Messages a day, all users together", f"messages; {LIMIT}"),
    "daily_tokens": ("Tokens a day, all users together", f"tokens; {LIMIT}"),
    "daily_messages_per_user": ("Messages a day, each user", f"messages; {LIMIT}"),
    "daily_tokens_per_user": ("Tokens a day, each user or group", f"tokens; {LIMIT}"),
    "messages_per_minute_per_user": ("Answers a minute, each user", f"answers; {LIMIT}"),
    "answer_max_seconds": ("Longest time for writing an answer", "seconds"),
    "answer_max_characters": ("Longest answer", "characters"),
    "max_memories_per_user": ("Facts kept of each user", "facts"),
    "message_retention_days": ("Delete messages after", "days; 0: never"),
    "memory_extraction_enabled": ("Read messages for facts in the background", ""),
}
# Other settings, in collapsed groups.
FOLDED = {
    "Reading messages for facts": {
        "memory_extraction_provider": ("Read by", ""),
        "memory_extraction_model": ("Model that reads", ""),
        "memory_extraction_interval_hours": ("Time between batches", "hours"),
        "memory_extraction_window": ("Messages in one reading", "messages"),
        "memory_extraction_silence_minutes": ("Silence after which fewer are read", "minutes"),
        "memory_dedup_threshold": ("Compare facts from a similarity of", ""),
        "memory_update_threshold": ("Facts may be the same from a similarity of", ""),
        "background_calls_per_hour": ("Background calls an hour, each user or group", "calls"),
    },
    "Finding memories": {
        "memory_retrieve_limit": ("Memories in a prompt", "memories"),
        "memory_retrieve_threshold": ("Least similarity of a memory", ""),
        "embedding_provider": ("Embeddings by", ""),
        "embedding_model": ("Embedding model", ""),
    },
    "Conversation window and summaries": {
        "history_messages": ("Last messages in a prompt, at most", "messages"),
        "history_step": ("Messages by which the window moves", "messages"),
        "summary_messages": ("Messages in one summary", "messages"),
        "summaries_shown": ("Summaries in a prompt", "summaries"),
        "summaries_kept": ("Summaries kept before they are merged", "summaries"),
    },
    "Money": {"currency": ("Currency of the prices", "")},
    "Long answers and strict mode": {
        "answer_max_parts": ("Telegram messages of one answer", "messages"),
        "strict_retrieve_limit": ("Strict mode: quotes of the first search", "quotes"),
        "strict_react_limit": ("Strict mode: quotes of further searches", "quotes"),
        "strict_max_iterations": ("Strict mode: further searches", "searches"),
    },
}
GROUPS = {"": DAILY, **FOLDED}
NAMES = {name: about for group in GROUPS.values() for name, about in group.items()}


def in_plain_words(text: str) -> str:
    """Replace the names of settings in a sentence by their labels."""
    for name in sorted(NAMES, key=len, reverse=True):
        text = text.replace(name, f"“{NAMES[name][0]}”")
    return text
