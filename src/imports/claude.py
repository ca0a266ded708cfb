"""Reader of Claude's export: conversations, memories and projects."""

import re
from functools import partial
from typing import Any

from src.imports.files import follow_parents
from src.imports.lists import read_memories
from src.imports.records import Record, Records, read_moment, title_of

# Names of attachments that are what the user pasted into the message.
PASTED = re.compile(r"(?:paste[ds]?\b.*|pasted[-_ ].*)?", re.IGNORECASE)


def read_conversation(conversation: dict[str, Any]) -> Records:
    """Yield the user's messages of a conversation, and the texts attached to them."""
    id_, said_at = str(conversation["uuid"]), read_moment(conversation.get("created_at"))
    record = partial(Record, "claude", id_, title_of(conversation.get("name")))
    for number, message in enumerate(_find_branch(conversation["chat_messages"])):
        said_at = read_moment(message.get("created_at")) or said_at
        if message.get("sender") != "human":
            continue
        message_id = f"{id_}:{message.get('uuid') or number}"
        texts = [_text_of(message)]
        for place, attached in enumerate(message.get("attachments") or ()):
            name, text = str(attached.get("file_name") or ""), attached.get("extracted_content")
            if not isinstance(text, str) or not text.strip():
                continue
            if PASTED.fullmatch(name):
                texts.append(text.strip())
                continue
            yield record(f"{message_id}:{place}", text.strip(), said_at, details=_of_file(name))
        text = "\n".join(filter(None, texts))
        if text:
            yield record(message_id, text, said_at)


def _find_branch(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last message and those that led to it; all, if they do not name their parents."""
    by_id = {message.get("uuid"): message for message in messages}
    if not all(message.get("parent_message_uuid") for message in messages):
        return messages
    last = messages[-1].get("uuid") if messages else None
    return follow_parents(by_id, last, "parent_message_uuid")


def _text_of(message: dict[str, Any]) -> str:
    """Return the text of a message; where it is empty, the blocks hold it."""
    text = message.get("text")
    if isinstance(text, str) and text.strip():
        return text.strip()
    blocks = [block for block in message.get("content") or () if isinstance(block, dict)]
    texts = [block.get("text") for block in blocks if block.get("type", "text") == "text"]
    return "\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


def _of_file(name: Any) -> dict[str, str]:
    """Return the details of the text of a file, which holds words of others."""
    return {"provenance": "file", "origin": title_of(name)}


def read_remembered(found: dict[str, Any]) -> Records:
    """Yield what Claude remembers of the user and of each project."""
    projects = found.get("project_memories") or {}
    for text in (found.get("conversations_memory"), *projects.values()):
        if isinstance(text, str):
            yield from read_memories(text, "claude", read_moment(found.get("updated_at")))


def read_project(project: dict[str, Any]) -> Records:
    """Yield the instructions and the files of a project that the user began.

    Instructions are words to the assistant, and are held like a file.
    """
    if project.get("is_starter_project"):
        return
    id_, title = str(project["uuid"]), title_of(project.get("name"))
    record, said_at = partial(Record, "claude", id_, title), read_moment(project.get("created_at"))
    for field in ("description", "prompt_template"):
        text = project.get(field)
        if isinstance(text, str) and text.strip():
            yield record(f"{id_}:{field}", text.strip(), said_at, details=_of_file(title))
    for number, doc in enumerate(project.get("docs") or ()):
        if isinstance(doc.get("content"), str) and doc["content"].strip():
            details, at = _of_file(doc.get("filename")), read_moment(doc.get("created_at"))
            source_id, text = f"{id_}:{doc.get('uuid') or number}", doc["content"].strip()
            yield record(source_id, text, at or said_at, details=details)
