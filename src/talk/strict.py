"""The nodes of strict mode: teach, solve, forget, remind.

Teaching writes no word by a model: what is told or asked of facts are sentences of ours. Solving
uses facts and the user's own words, nothing that a model wrote.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from src.base.errors import AppError
from src.base.owners import Called
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import (
    last_answer,
    message_record,
    new_messages,
    own_words,
    strip_time_label,
)
from src.history.turn_repo import Asks, Changes
from src.llm.chat import ModelCaller
from src.memory import prompts
from src.memory.citations import context_records, hit_id, number_references, reference_names
from src.memory.memories import Memories
from src.memory.retrieval_repo import Hit
from src.memory.retriever import Query
from src.memory.search_index_repo import Kind
from src.memory.tools import describe_saved, find_said, told_of
from src.memory.turn_context import TurnContext, changes_of, recall, refusal
from src.memory.writer import Outcome
from src.reading.facts import Fact, content_hash
from src.reading.requests import asks_to_forget_all
from src.reminders.reminder_service import ReminderService, confirmation
from src.reminders.rules import names_reminder, read_change
from src.talk.turn_state import RESOLUTIONS, Conflict, ConversationState
from src.texts import Language, say
from src.texts.plain_text import shortened

logger = logging.getLogger(__name__)

MAX_TEXT = 500  # characters of a fact in a question


def confirmation_text(outcomes: Sequence[Outcome], language: Language) -> str:
    """What became of the facts of a message, a line each."""
    lines = dict.fromkeys(describe_saved(told_of(outcome), language) for outcome in outcomes)
    return "\n".join(lines) or say("taught_nothing", language)


def question_text(facts: Sequence[Fact], conflicts: Sequence[Conflict], language: Language) -> str:
    """Which of the facts holds: each pair in a line, then the question."""
    lines = [
        say(
            "conflict_pinned" if conflict.get("pinned") else "conflict_important",
            language,
            old=shortened(conflict["text"], MAX_TEXT),
            new=shortened(facts[conflict["new"]].text, MAX_TEXT),
        )
        for conflict in conflicts
    ]
    return "\n".join([*lines, say("conflict_ask", language)])


TAUGHT: tuple[Kind, ...] = ("memory", "message")
MIN_TEXT = 5  # characters; shorter ones say nothing


async def search_taught(
    memories: Memories,
    context: TurnContext,
    history: Sequence[HistoryMessage],
    text: str,
    *,
    limit: int,
    with_retired: bool = False,
) -> list[Hit]:
    """Facts and statements of the user that fit ``text``.

    Args:
        memories: The memory.
        context: The turn; its own message is left out.
        history: Ends with the message that is answered.
        text: What to look for.
        limit: How many at most.
        with_retired: Also what was replaced, if the text asks for what was before.
    """
    settings = await memories.settings()
    query = Query(
        context.owner,
        text,
        context.now,
        limit=2 * limit,
        threshold=settings.memory_retrieve_threshold,
        conversation_id=context.conversation_id,
        before_position=history[-1]["position"] if history else 0,
        kinds=TAUGHT,
        speaker_id=context.speaker_id,
    )
    hits = await recall(memories, context, query)
    taught = [hit for hit in hits if hit.is_own and _tells(hit)]
    return [hit for hit in taught if with_retired or not hit.retired][:limit]


def _tells(hit: Hit) -> bool:
    """A question tells nothing, neither does a word."""
    text = hit.text.strip()
    return len(text) >= MIN_TEXT and not text.endswith("?")


async def retrieve_context(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Search the taught facts for the message as it stands, before any model reads it.

    Reads: ``history``.
    Updates: ``retrieved_context``.
    Side effects: one search.
    """
    context = runtime.context
    limit = (await memories.settings()).strict_retrieve_limit
    hits = await search_taught(memories, context, state["history"], context.text, limit=limit)
    return {"retrieved_context": hits}


async def classify_intent(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Tell teaching, asking and forgetting apart; what comes of it is told by the same call.

    Reads: ``history``, ``retrieved_context``.
    Updates: ``intent``, ``extracted_facts``, ``search_query``, ``answer``.
    Side effects: one model call; none where a rule reads that a reminder is to change.
    """
    context = runtime.context
    is_own = bool(own_words(new_messages(state["history"])))
    if is_own and names_reminder(context.text):
        return {"intent": "remind", "extracted_facts": [], "search_query": "", "answer": ""}
    read = await _understand(state["history"], state["retrieved_context"], context, caller)
    intent = read.intent if is_own else "solve"  # what others say wishes nothing
    return {
        "intent": intent,
        "extracted_facts": [fact for fact in read.facts if fact.text],
        "search_query": _query_of(read),
        "answer": read.answer if intent == "solve" else "",
    }


RECENT = 4  # messages before the new ones, so that "he" can be understood
RECENT_TEXT = 500  # characters of each


async def _understand(
    history: Sequence[HistoryMessage],
    hits: list[Hit],
    context: TurnContext,
    caller: ModelCaller,
    *searched: Mapping[str, Any],
) -> prompts.Understanding:
    """What the new messages do, and the answer, if these quotes suffice for it."""
    new = new_messages(history)
    before = [entry for entry in history if entry not in new][-RECENT:]
    recent = [message_record(m, RECENT_TEXT) for m in before if m["role"] in ("user", "assistant")]
    said, quotes = [message_record(entry) for entry in new], context_records(hits, context)
    return await caller.structured(
        prompts.understanding_messages(said, recent, quotes, searched),
        prompts.Understanding,
        purpose="reason" if searched else "classify",
        on_usage=context.on_usage,
    )


def _query_of(read: prompts.Understanding) -> str:
    return read.query.strip()[:500]


MAX_FACTS = 20  # of one message


async def extract_facts(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Take over the facts that ``classify_intent`` found; ask for them when it found none.

    Reads: ``extracted_facts``, ``history``.
    Updates: ``extracted_facts``.
    Side effects: at most one model call.
    """
    facts = state.get("extracted_facts", [])
    if not facts:
        context = runtime.context
        said_at = {"said_at": context.moment.isoformat()}
        messages = [message_record(entry) | said_at for entry in new_messages(state["history"])]
        extracted = await caller.structured(
            prompts.extraction_messages(messages, {}),
            prompts.ExtractedFacts,
            purpose="extract",
            on_usage=context.on_usage,
        )
        facts = [fact for fact in extracted.facts if fact.text]
    return {"extracted_facts": facts[:MAX_FACTS]}


CANDIDATES = 5  # known facts that a new one is compared with


async def check_conflicts(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search known facts like the new ones; ask the model about all of them in one call.

    When nothing similar is known there is nothing to ask. A failed call finds no conflict: the
    facts are stored, and what a rule can decide is decided then.

    Reads: ``extracted_facts``.
    Updates: ``conflicts``.
    Side effects: one search per fact, at most one model call.
    """
    facts = state["extracted_facts"]
    context = runtime.context
    known = await _list_similar(facts, context, memories)
    if not known:
        return {"conflicts": []}
    try:
        verdict = await caller.structured(
            prompts.conflict_messages([fact.text for fact in facts], known),
            prompts.Conflicts,
            purpose="conflicts",
            on_usage=context.on_usage,
        )
    except AppError as error:
        logger.warning("conflicts could not be checked", exc_info=error)
        return {"conflicts": []}
    conflicts: list[Conflict] = [
        {"new": pair.new, "memory_id": pair.known, "text": known[pair.known]}
        for pair in verdict.conflicts
        if pair.known in known and 0 <= pair.new < len(facts) and pair.confidence >= 0.5
    ]
    return {"conflicts": conflicts}


async def _list_similar(
    facts: Sequence[Fact], context: TurnContext, memories: Memories
) -> dict[int, str]:
    """Texts of known facts that are close to a new one and not the same, by id."""
    threshold = (await memories.settings()).memory_dedup_threshold
    known: dict[int, str] = {}
    for fact in facts:
        query = Query(context.owner, fact.text, context.now, limit=CANDIDATES, kinds=("memory",))
        for hit in await recall(memories, context, query):
            is_same = content_hash(hit.text) == content_hash(fact.text)
            if hit.similarity >= threshold and not is_same:
                known[hit.source_id] = hit.text
    return known


async def auto_resolve(state: ConversationState) -> ConversationState:
    """Accept what the user teaches now, once per known fact: strict mode knows nothing better.

    The old fact is retired, not deleted, and one tap takes it back.

    Reads: ``conflicts``.
    Updates: ``accepted_conflicts``.
    Side effects: none.
    """
    by_memory = {conflict["memory_id"]: conflict for conflict in state["conflicts"]}
    return {"accepted_conflicts": list(by_memory.values())}


async def weigh_conflicts(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Set aside the new facts that would replace a pinned fact, or one of importance 8 or more.

    It asks the memory what storing them would retire, so that what only a rule finds counts like
    what the model found. The others go on as if those had not been said.

    Reads: ``extracted_facts``, ``conflicts``, ``history``.
    Updates: ``extracted_facts``, ``conflicts``, ``disputed_facts``, ``disputes``.
    Side effects: one transaction per fact, which writes nothing.
    """
    context = runtime.context
    new = new_messages(state["history"])
    plain: list[Fact] = []
    conflicts: list[Conflict] = []
    disputed: list[Fact] = []
    disputes: list[Conflict] = []
    for number, fact in enumerate(state["extracted_facts"]):
        its = _of(state["conflicts"], number)
        said = find_said(new, fact, context)
        rivals = await memories.writer.find_important_rivals(
            context.owner, fact, said, contradicts={c["memory_id"] for c in its}
        )
        if not rivals:
            conflicts += [{**conflict, "new": len(plain)} for conflict in its]
            plain.append(fact)
            continue
        disputes += [
            {
                "new": len(disputed), "memory_id": rival.id, "text": rival.text,
                "pinned": rival.pinned, "said_in": said.message_id,
            }
            for rival in rivals
        ]  # fmt: skip
        disputed.append(fact)
    return {
        "extracted_facts": plain,
        "conflicts": conflicts,
        "disputed_facts": disputed,
        "disputes": disputes,
    }


async def confirm_conflicts(
    state: ConversationState,  # noqa: ARG001  (LangGraph passes the state)
) -> ConversationState:
    """Wait for a decision: the run pauses here, and goes on in whatever process has the answer.

    When it goes on LangGraph runs the node once more from its beginning, so it does nothing else.

    Reads: nothing.
    Updates: ``resolution``.
    Side effects: the run is interrupted; its state goes into the checkpoint.
    """
    resolution = interrupt(RESOLUTIONS)
    return {"resolution": resolution if resolution in RESOLUTIONS else "old"}


async def store_knowledge(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Store each fact with its source, the episode ``teach_msg-<id>``.

    What is important is replaced only when the user said so: ``accepted_conflicts`` name it. Where
    they keep the known fact, nothing is stored; where they keep both, both are.

    Reads: ``extracted_facts``, ``conflicts``, ``accepted_conflicts``, ``resolution``, ``history``.
    Updates: ``outcomes``.
    Side effects: one transaction per fact, told to the turn's ``on_change``.
    """
    context = runtime.context
    outcomes: list[Outcome] = []
    new = new_messages(state["history"])
    resolution = state.get("resolution")
    for number, fact in enumerate(state["extracted_facts"]):
        said = find_said(new, fact, context)
        if (refused := refusal(context, fact, said)) is not None:
            outcomes.append(refused)
            continue
        denied = tuple(conflict["text"] for conflict in _of(state["conflicts"], number))
        if resolution == "old":
            outcomes.append(Outcome("kept", fact.text, f"msg-{said.message_id}", replaced=denied))
            continue
        accepted = {c["memory_id"] for c in _of(state.get("accepted_conflicts", ()), number)}
        outcome = await memories.writer.remember(
            context.owner, fact, said, origin="teach", contradicts=accepted,
            spares_important=True,
        )  # fmt: skip
        context.on_change(changes_of([outcome]))
        if resolution == "both" and outcome.kind in ("new", "same"):
            outcome = replace(outcome, kind="beside", replaced=denied)
        outcomes.append(outcome)
    return {"outcomes": outcomes}


def _of(conflicts: Sequence[Conflict], number: int) -> list[Conflict]:
    return [conflict for conflict in conflicts if conflict["new"] == number]


async def generate_confirmation(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Say what became of the facts; no model is asked, so the confirmation cannot be wrong.

    The same outcome is said once, such as one refusal of several facts.

    Reads: ``outcomes``.
    Updates: ``answer``, ``references``.
    Side effects: none.
    """
    outcomes = state["outcomes"]
    answer = confirmation_text(outcomes, runtime.context.language)
    stored = [outcome.uid for outcome in outcomes if outcome.kind in ("new", "update")]
    return {"answer": answer, "references": list(dict.fromkeys(stored))}


async def react_loop(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search what the model asks for and ask it again, as often as the settings say.

    Where its answer has a reference that holds already, there is nothing to do. The steps are not
    stored anywhere.

    Reads: ``history``, ``search_query``, ``retrieved_context``, ``answer``.
    Updates: ``retrieved_context``, ``answer``.
    Side effects: at most ``strict_max_iterations`` searches, and as many model calls.
    """
    context, history = runtime.context, state["history"]
    settings = await memories.settings()
    hits, answer = list(state["retrieved_context"]), state["answer"]
    searched, left = [context.text], settings.strict_max_iterations
    query = state["search_query"]
    while query and left and not _verified(answer, hits, context)[1]:
        left = 0 if query in searched else left - 1
        if query not in searched:
            searched.append(query)
            found = await search_taught(
                memories, context, history, query, limit=settings.strict_react_limit
            )
            known = {hit.uid for hit in hits}
            hits += [hit for hit in found if hit.uid not in known]
        if not hits:
            break  # neither the message nor what it means finds anything
        asked = {"queries": searched, "searches_left": left}
        read = await _understand(history, hits, context, caller, asked)
        query, answer = _query_of(read), read.answer
    return {"retrieved_context": hits, "answer": answer}


def _verified(text: str, hits: Sequence[Hit], context: TurnContext) -> tuple[str, list[int]]:
    """The answer with numbers as its references, and the places of the hits that they cite.

    A cited id that was not in the context is dropped.
    """
    said = [context.text, *(hit.words for hit in hits)]
    return number_references(strip_time_label(text), reference_names(hits), said=said)


async def generate_answer(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Say what the model answered; without a reference that holds, that it is not known.

    Nothing is shown before it is verified, and nothing is stored as knowledge.

    Reads: ``retrieved_context``, ``answer``.
    Updates: ``answer``, ``references``, ``sources``.
    Side effects: none.
    """
    context, hits = runtime.context, state["retrieved_context"]
    answer, cited = _verified(state["answer"], hits, context)
    sources = [hits[place] for place in cited]
    references = dict.fromkeys(hit.uid for hit in sources)
    said = answer.strip() if cited else say("strict_unknown", context.language)
    return {"answer": said, "references": list(references), "sources": sources}


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
        prompts.forgetting_messages(context.text, context_records(hits, context)),
        prompts.Forgetting,
        purpose="forget",
        on_usage=context.on_usage,
    )
    shown = {name: hit_id(hit) for hit in hits for name in (hit.uid, hit_id(hit))}
    ids = [shown[uid] for uid in dict.fromkeys(chosen.uids) if uid in shown]
    if not ids:
        return []
    forgotten = await memories.forget(
        context.owner, ids, about=query, request_id=context.message_id,
        speaker_id=context.speaker_id,
    )  # fmt: skip
    context.on_change(Changes(forgetting=forgotten.number))
    return list(forgotten.texts)


async def set_reminder(
    state: ConversationState, runtime: Runtime[TurnContext], *, reminders: ReminderService
) -> ConversationState:
    """Set, move or cancel what the message names, read by rule; ask for what cannot be read.

    Reads: ``history``.
    Updates: ``answer``, ``references``.
    Side effects: reminders are stored or changed.
    """
    context = runtime.context
    called = Called(
        context.owner, context.language, context.moment, context.time_zone,
        member=context.speaker_id,
    )  # fmt: skip
    wanted = read_change(context.text)
    if wanted is None:
        asked = await reminders.set_by_words(called, context.text, message_id=context.message_id)
    else:
        asked = await reminders.take(called, wanted, said_before=last_answer(state["history"]))
    if asked.reminder is not None and asked.done != "cancelled":
        context.on_change(Changes(reminders=(asked.reminder.id,)))
    return {"answer": confirmation(asked, called), "references": []}
