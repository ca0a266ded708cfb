"""Strict mode, forgetting: what the user does not want known any more."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.hit_rendering import context_records, hit_id
from src.graph.strict_evidence import search_taught
from src.language.requests import asks_to_forget_all
from src.llm.chat import ModelCaller
from src.llm.prompts.forgetting import Forgetting, forgetting_messages
from src.memory.memories import Memories
from src.storage.turn_repo import Asks, Changes
from src.texts import say

LIMIT = 10  # quotes


async def forget_knowledge(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search what the user means, let the model choose among the quotes, forget these for good.

    The confirmation names what is gone, and no model writes it. A chosen uid that was not among
    the quotes is dropped.

    Reads: ``history``, ``search_query``.
    Updates: ``answer``, ``references``, ``asks``.
    Side effects: one search; one model call when it finds anything; what is chosen is forgotten,
    in one transaction.
    """
    context = runtime.context
    query = state.get("search_query", "")
    asks: Asks | None = None
    if query:
        texts = await _forget(state, context, query, memories=memories, caller=caller)
        lines = [say("forgot", context.language, text=text) for text in dict.fromkeys(texts)]
        answer = "\n".join(lines) or say("forgot_nothing", context.language)
    elif asks_to_forget_all(context.text) and context.owner.is_group:
        answer = say("forget_group", context.language)  # nobody erases what others told
    elif asks_to_forget_all(context.text):
        answer, asks = "", "erase_all"  # the service words the question
    else:
        answer = say("forget_what", context.language)
    return {"answer": answer, "references": [], "asks": asks}


async def _forget(
    state: ConversationState,
    context: TurnContext,
    query: str,
    *,
    memories: Memories,
    caller: ModelCaller,
) -> list[str]:
    """The texts of what is forgotten now."""
    hits = await search_taught(
        memories, context, state["history"], query, limit=LIMIT, with_retired=True
    )
    if not hits:
        return []
    chosen = await caller.structured(
        forgetting_messages(context.text, context_records(hits, context)),
        Forgetting,
        purpose="forget",
        on_usage=context.on_usage,
    )
    shown = {name: hit_id(hit) for hit in hits for name in (hit.uid, hit_id(hit))}
    ids = [shown[uid] for uid in dict.fromkeys(chosen.uids) if uid in shown]
    forgotten = await memories.forget(
        context.owner, ids, about=query, request_id=context.message_id,
        speaker_id=context.speaker_id,
    )  # fmt: skip
    context.on_change(Changes(forgetting=forgotten.number))
    return list(forgotten.texts)
