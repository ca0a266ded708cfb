"""Recognition of formats, by what a file holds and not by its name alone."""

import itertools
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ijson

from src.imports import assistants, chats, files, lists, notes, pomni
from src.imports.records import Broken, Opened, Reading, Records
from src.texts import LANGUAGES, say

Reader = Callable[[Opened], Records]
Signs = Mapping[str, Callable[[dict[str, Any]], Records]]
MAX_EVENTS = 3_000_000  # values of a JSON file that are looked at
NOTES = (".md", ".markdown")
PAGES = ("<!doctype html", "<html")

# What tells a JSON file apart: a field that only the values of its format have, and their reader.
SIGNS: Signs = {
    "chat_messages": assistants.read_claude,
    "conversations_memory": assistants.read_claude_memories,
    "project_memories": assistants.read_claude_memories,
    "prompt_template": assistants.read_claude_project,
    "docs": assistants.read_claude_project,
    "safeHtmlItem": assistants.read_gemini,
    "activityControls": assistants.read_gemini,
    "memory": lists.read_row,
    "content": lists.read_row,
}
# Prefixes of these values in a file.
PLACES = ("", "item", "conversations.item", "memories.item", "results.item", "items.item")
FEEDBACK = "item.content"  # of ChatGPT's ratings of answers
TELEGRAM = frozenset(
    {"chats.list", "left_chats.list", "messages.item.date_unixtime", "messages.item.from_id"}
)


def read_file(file: Opened, reading: Reading) -> Records:
    """Yield the records of a file, or of all entries of an archive that are recognised.

    A damaged entry loses only itself.

    Raises:
        UnreadableFileError: Nothing in it is recognised, or it cannot be opened.
    """
    is_recognised = has_pages = False
    memories = assistants.ChatGptMemories()
    signs = dict(SIGNS) | {"mapping": partial(assistants.read_chatgpt, memories)}
    for entry in files.list_entries(file, reading):
        try:
            reader = _recognise(entry, reading, signs, is_alone=entry.name == file.name)
            if reader is None:
                has_pages |= _is_page(files.read_head(entry))
                continue
            is_recognised = True
            yield from reader(entry)
        except files.DAMAGED:
            is_recognised = True
            yield Broken(entry.name, is_end=True)
    yield from memories.read()
    if not is_recognised:
        raise files.UnreadableFileError("import_html" if has_pages else "import_unknown")


def _is_page(head: str) -> bool:
    return head.lstrip("\ufeff \t\r\n").lower().startswith(PAGES)


def _recognise(entry: Opened, reading: Reading, signs: Signs, *, is_alone: bool) -> Reader | None:
    head = files.read_head(entry)
    start = head.lstrip("\ufeff \t\r\n")
    if start.rstrip() == "[]":
        return lambda _: iter(())
    if start.startswith(("{", "[{", "[\n", "[\r", "[ ")):
        found = _recognise_json(entry, reading, signs)
        if found is not None or not is_alone or entry.name.lower().endswith(".json"):
            return found
    titles = [f"# {say('export_title', language, day='')}" for language in LANGUAGES]
    if _is_page(head) or "\0" in head or start.startswith(tuple(titles)):
        return None  # our own export for people holds the bot's words, too
    if chats.looks_like_whatsapp(head):
        return partial(chats.read_whatsapp, reading=reading)
    is_note = entry.name.lower().endswith(NOTES)
    if is_note and (not is_alone or notes.looks_like_note(head, entry.name)):
        return partial(notes.read, reading=reading)
    is_told = not entry.name and len(re.split(r"\n|\. ", start.strip())) > 1
    if is_alone and (is_told or entry.name.lower().endswith(".txt") or lists.is_list(head)):
        return lists.read_text
    return partial(notes.read, reading=reading) if is_note else None


def _recognise_json(entry: Opened, reading: Reading, signs: Signs) -> Reader | None:
    with entry.open() as content:
        events = ijson.parse(files.MendedJson(content), multiple_values=True)
        try:
            for prefix, _, value in itertools.islice(events, MAX_EVENTS):
                place, _, field = prefix.rpartition(".")
                if field in signs and place in PLACES and prefix != FEEDBACK:
                    if not place and signs[field] is lists.read_row:
                        return lists.read_json_lines
                    return partial(files.read_each, prefix=place, read_one=signs[field])
                if prefix == "format" and value == "pomni-export":
                    return partial(pomni.read, reading=reading)
                if prefix in TELEGRAM:
                    return partial(chats.read_telegram, reading=reading)
        except (ijson.JSONError, OSError, EOFError):
            return None
    return None
