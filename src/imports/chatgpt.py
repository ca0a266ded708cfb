"""Reader of ChatGPT's export: ``conversations.json``, or its parts since 2026."""

from typing import Any

from src.imports.files import read_items
from src.imports.lists import read_memories
from src.imports.records import MALFORMED, Broken, Opened, Record, Records, read_moment, title_of

SHOWN = frozenset({"text", "multimodal_text"})
HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")


def read(file: Opened, prefix: str) -> Records:
    """Yield the user's messages of each conversation, and what the model remembered of them.

    Args:
        file: The file.
        prefix: Where the conversations are.
    """
    for conversation in read_items(file, prefix):
        if isinstance(conversation, Broken):
            yield conversation
            continue
        try:
            yield from list(_read_conversation(conversation))
        except MALFORMED:
            title = conversation.get("title") if isinstance(conversation, dict) else ""
            yield Broken(title_of(title) or "?")


def _read_conversation(conversation: dict[str, Any]) -> Records:
    title = title_of(conversation.get("title"))
    branch = _find_branch(conversation["mapping"], conversation.get("current_node"))
    id_ = conversation.get("conversation_id") or conversation.get("id") or branch[0]["id"]
    started_at = read_moment(conversation.get("create_time"))
    said_at = started_at or read_moment(conversation.get("update_time"))
    for node in branch:
        message = node.get("message")
        if not isinstance(message, dict):
            continue
        said_at = read_moment(message.get("create_time")) or said_at
        node_id = str(message.get("id") or node["id"])
        content = message.get("content")
        if not isinstance(content, dict):
            continue
        if message.get("recipient") == "bio":
            yield from read_memories(_join_parts(content), "chatgpt", said_at)
        elif isinstance(content.get("model_set_context"), str):
            yield from read_memories(content["model_set_context"], "chatgpt", said_at)
        elif _is_users(message, content):
            text = _join_parts(content)
            if text:
                yield Record("chatgpt", str(id_), title, f"{id_}:{node_id}", text, said_at)


def _find_branch(mapping: dict[str, Any], current: Any) -> list[dict[str, Any]]:
    """Return the nodes from the first to the current one, else to the newest without children.

    Abandoned branches are left out.
    """
    nodes = {id_: {**node, "id": id_} for id_, node in mapping.items() if isinstance(node, dict)}
    if current not in nodes:
        parents = {node.get("parent") for node in nodes.values()}
        leaves = [id_ for id_ in nodes if id_ not in parents]
        current = max(leaves, key=lambda id_: _time_of(nodes[id_]), default=None)
    branch: dict[str, dict[str, Any]] = {}
    while current in nodes and current not in branch:
        branch[current] = nodes[current]
        current = nodes[current].get("parent")
    return list(reversed(branch.values()))


def _time_of(node: dict[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return float(time) if isinstance(time, int | float) else 0.0


def _is_users(message: dict[str, Any], content: dict[str, Any]) -> bool:
    author, metadata = message.get("author"), message.get("metadata")
    if not isinstance(author, dict) or author.get("role") != "user":
        return False
    if isinstance(metadata, dict) and any(metadata.get(mark) for mark in HIDDEN):
        return False
    return content.get("content_type", "text") in SHOWN


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
