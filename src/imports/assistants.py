"""Readers of the exports of ChatGPT, Claude and Gemini."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from src.imports.lists import read_memories
from src.imports.records import Record, Records, read_moment, title_of


def follow_parents(
    nodes: Mapping[Any, dict[str, Any]], last: Any, parent: str
) -> list[dict[str, Any]]:
    """Return the nodes from the first to ``last``, each named by the next one as its parent."""
    branch: dict[Any, dict[str, Any]] = {}
    while last in nodes and last not in branch:
        branch[last] = nodes[last]
        last = nodes[last].get(parent)
    return list(reversed(branch.values()))


# ChatGPT's ``conversations.json``, or its parts since 2026.

SHOWN = frozenset({"text", "multimodal_text"})
NEVER = datetime.min.replace(tzinfo=UTC)
FORGET = re.compile(r"\s*(?:forget|delete|remove|забудь|забути|удали|видали)\b", re.IGNORECASE)
HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")


class ChatGptMemories:
    """Memories of ChatGPT, over all conversations of an export."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._list: tuple[datetime, str] = (NEVER, "")
        self._added: list[tuple[datetime, str]] = []

    def take_list(self, text: str, shown_at: datetime | None) -> None:
        """Take a list of all memories, which replaces older lists."""
        if text.strip() and (shown_at or NEVER) >= self._list[0]:
            self._list = (shown_at or NEVER, text)

    def add(self, text: str, said_at: datetime | None) -> None:
        """Add what the model wrote into its memory; an order to forget is no memory."""
        if not FORGET.match(text):
            self._added.append((said_at or NEVER, text))

    def read(self) -> Records:
        """Yield the newest list, and what was added after it."""
        shown_at, _ = self._list
        for said_at, words in [self._list, *self._added]:
            if words and said_at >= shown_at:
                yield from read_memories(words, "chatgpt", said_at if said_at > NEVER else None)


def read_chatgpt(memories: ChatGptMemories, conversation: dict[str, Any]) -> Records:
    """Yield the user's messages of a conversation, and give ``memories`` what it remembers."""
    title = title_of(conversation.get("title"))
    branch = _find_branch(conversation["mapping"], conversation.get("current_node"))
    id_ = conversation.get("conversation_id") or conversation.get("id") or branch[0]["id"]
    started_at = read_moment(conversation.get("create_time"))
    said_at = started_at or read_moment(conversation.get("update_time"))
    for node in branch:
        message = node.get("message") or {}
        content = message.get("content")
        if not isinstance(content, dict):
            continue
        said_at = read_moment(message.get("create_time")) or said_at
        node_id = str(message.get("id") or node["id"])
        if message.get("recipient") == "bio":
            memories.add(_join_parts(content), said_at)
        elif isinstance(content.get("model_set_context"), str):
            memories.take_list(content["model_set_context"], said_at)
        else:
            author, metadata = message.get("author") or {}, message.get("metadata") or {}
            is_shown = content.get("content_type", "text") in SHOWN
            is_hidden = any(metadata.get(mark) for mark in HIDDEN)
            text = _join_parts(content)
            if author.get("role") == "user" and is_shown and not is_hidden and text:
                yield Record("chatgpt", str(id_), title, f"{id_}:{node_id}", text, said_at)


def _find_branch(mapping: dict[str, Any], current: Any) -> list[dict[str, Any]]:
    """Return the nodes from the first to the current one, else to the newest without children.

    Abandoned branches are left out. Nodes that name no parents are in the order of their times.
    """
    nodes = {id_: {**node, "id": id_} for id_, node in mapping.items() if isinstance(node, dict)}
    if not any(node.get("parent") in nodes for node in nodes.values()):
        return sorted(nodes.values(), key=_time_of)
    if current not in nodes:
        parents = {node.get("parent") for node in nodes.values()}
        leaves = [id_ for id_ in nodes if id_ not in parents]
        current = max(leaves, key=lambda id_: _time_of(nodes[id_]), default=None)
    return follow_parents(nodes, current, "parent")


def _time_of(node: dict[str, Any]) -> datetime:
    message = node.get("message") or {}
    return read_moment(message.get("create_time")) or NEVER


def _join_parts(content: dict[str, Any]) -> str:
    """Return the words of a message: its strings, and what was dictated."""
    parts = content.get("parts")
    if not isinstance(parts, list):
        parts = [content.get("text")]
    texts = []
    for part in parts:
        if isinstance(part, dict) and part.get("content_type") == "audio_transcription":
            part = part.get("text")
        if isinstance(part, str):
            texts.append(part.strip())
    return "\n".join(filter(None, texts))


# Claude's conversations, memories and projects.

# Names of attachments that are what the user pasted into the message.
PASTED = re.compile(r"(?:paste[ds]?\b.*|pasted[-_ ].*)?", re.IGNORECASE)


def read_claude(conversation: dict[str, Any]) -> Records:
    """Yield the user's messages of a conversation, and the texts attached to them."""
    id_, said_at = str(conversation["uuid"]), read_moment(conversation.get("created_at"))
    record = partial(Record, "claude", id_, title_of(conversation.get("name")))
    messages = conversation["chat_messages"]
    if messages and all(message.get("parent_message_uuid") for message in messages):
        by_id = {message.get("uuid"): message for message in messages}
        # Abandoned branches are left out.
        messages = follow_parents(by_id, messages[-1].get("uuid"), "parent_message_uuid")
    for number, message in enumerate(messages):
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


def read_claude_memories(found: dict[str, Any]) -> Records:
    """Yield what Claude remembers of the user and of each project."""
    projects = found.get("project_memories") or {}
    for text in (found.get("conversations_memory"), *projects.values()):
        if isinstance(text, str):
            yield from read_memories(text, "claude", read_moment(found.get("updated_at")))


def read_claude_project(project: dict[str, Any]) -> Records:
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


# Gemini's activity, as Google Takeout exports it.

PROMPTED = re.compile(r"Prompted(?: with:?)?\s+")


def read_gemini(act: dict[str, Any]) -> Records:
    """Yield a prompt; in other languages those that were answered tell it from other acts."""
    title, time = act["title"], act["time"]
    is_prompt = PROMPTED.match(title) is not None or "safeHtmlItem" in act
    text = PROMPTED.sub("", title, count=1).strip()
    if is_prompt and text and "Gemini" in act["header"]:
        yield Record("gemini", time[:10], "", time, text, read_moment(time))
