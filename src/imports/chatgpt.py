"""Reader of ChatGPT's export: ``conversations.json``, or its parts since 2026."""

import re
from datetime import UTC, datetime
from typing import Any

from src.imports.files import follow_parents
from src.imports.lists import read_memories
from src.imports.records import Record, Records, read_moment, title_of

SHOWN = frozenset({"text", "multimodal_text"})
NEVER = datetime.min.replace(tzinfo=UTC)
FORGET = re.compile(r"\s*(?:forget|delete|remove|забудь|забути|удали|видали)\b", re.IGNORECASE)
HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")


class Memories:
    """Memories of the model, over all conversations of an export."""

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


def read_conversation(memories: Memories, conversation: dict[str, Any]) -> Records:
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
        elif _is_users(message, content):
            text = _join_parts(content)
            if text:
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


def _is_users(message: dict[str, Any], content: dict[str, Any]) -> bool:
    author, metadata = message.get("author") or {}, message.get("metadata") or {}
    is_shown = content.get("content_type", "text") in SHOWN
    is_hidden = any(metadata.get(mark) for mark in HIDDEN)
    return author.get("role") == "user" and is_shown and not is_hidden


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
