"""Strict mode, solving: the answer from what was taught, with verified references."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.hit_rendering import context_records, reference_names
from src.llm.chat import ModelCaller
from src.llm.prompts.reasoning import UNKNOWN, answer_messages
from src.llm.prompts.time_label import strip_time_label
from src.memory.citations import number_references
from src.texts import say


async def generate_answer(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Answer from the context alone; without a reference that holds, say that it is not known.

    A cited id that was not in the context is dropped, the others become numbers. Nothing is shown
    before it is verified, and nothing is stored as knowledge.

    Reads: ``retrieved_context``.
    Updates: ``answer``, ``references``, ``sources``.
    Side effects: one model call when there is any context.
    """
    context = runtime.context
    hits = state["retrieved_context"]
    answer = ""
    cited: list[int] = []
    if hits:
        text = await caller.text(
            answer_messages(context.text, context_records(hits, context)),
            purpose="answer",
            on_usage=context.on_usage,
        )
        said = [context.text, *(hit.words for hit in hits)]
        answer, cited = number_references(strip_time_label(text), reference_names(hits), said=said)
    if not cited or answer.strip().startswith(UNKNOWN):
        answer, cited = say("strict_unknown", context.language), []
    sources = [hits[place] for place in cited]
    references = dict.fromkeys(hit.uid for hit in sources)
    return {"answer": answer.strip(), "references": list(references), "sources": sources}
