"""Graph nodes of strict mode: teach, solve, forget, remind.

In teaching a model writes no word: confirmations and questions about facts are our sentences.
Solving uses facts and the user's own words, nothing that a model wrote.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime

from src.base import errors, owners
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import last_answer, new_messages, own_words, record, strip_time_label
from src.history.turn_repo import Asks, Changes
from src.llm.chat import ModelCaller
from src.memory import prompts, search_index_repo
from src.memory.memories import Memories
from src.memory.prompts import context_records, hit_id, number_references, reference_names
from src.memory.queries import Query
from src.memory.question_repo import Dispute
from src.memory.retrieval_repo import Hit, Shown
from src.memory.thresholds import UNSURE
from src.memory.tools import describe_saved, find_source_message, outcome_record
from src.memory.turn_context import TurnContext, changes_of, recall, refusal
from src.memory.writer import Outcome
from src.reading.facts import content_hash
from src.reading.requests import asks_for_questions, asks_to_forget_all
from src.reading.time_expressions import read_time
from src.reminders.reminder_service import ReminderService, format_result
from src.reminders.rules import changes_reminder, read_change
from src.reminders.tools import question_of
from src.talk.turn_state import Conflict, ConversationState
from src.texts import Language, say
from src.texts.plain_text import shortened

logger = logging.getLogger(__name__)

MAX_TEXT = 500  # characters of a fact in a question


def confirmation_text(outcomes: Sequence[Outcome], language: Language) -> str:
    """Return the outcomes of a message's facts, a line each."""
    lines = dict.fromkeys(
        describe_saved(outcome_record(outcome), language) for outcome in outcomes
    )
    return "\n".join(lines) or say("taught_nothing", language)


def question_text(disputes: Sequence[Dispute], language: Language) -> str:
    """Return the question which facts are right, with each pair in a line."""
    lines = [
        say(
            "conflict_pinned" if known.fact.pinned else "conflict_important",
            language,
            old=shortened(known.text, MAX_TEXT),
            new=shortened(dispute.fact.text, MAX_TEXT),
        )
        for dispute in disputes
        for known in dispute.denied
    ]
    return "\n".join([*lines, say("conflict_ask", language)])


TAUGHT_KINDS: tuple[search_index_repo.DocumentKind, ...] = ("memory", "message")
MIN_TEXT = 5  # characters; shorter texts state nothing


async def search_taught(
    memories: Memories,
    context: TurnContext,
    history: Sequence[HistoryMessage],
    text: str,
    *,
    limit: int,
    with_retired: bool = False,
) -> list[Hit]:
    """Search facts and statements of the user.

    Args:
        memories: The memory.
        context: The turn; its own message is left out.
        history: Messages up to the one that is answered.
        text: The text to search for.
        limit: The most hits to return.
        with_retired: True to include retired facts, as where the user asks for the past.
    """
    settings = await memories.settings()
    asks_past = read_time(f"{context.text} {text}", context.now).wants_history
    query = Query(
        context.owner,
        text,
        context.now,
        limit=2 * limit,
        threshold=settings.memory_retrieve_threshold,
        shown=Shown(context.conversation_id, history[-1]["position"] if history else 0),
        with_questions=asks_for_questions(context.text),
        kinds=TAUGHT_KINDS,
        speaker_id=context.speaker_id,
    )
    hits = await recall(memories, context, query)
    taught = [hit for hit in hits if hit.is_own and len(hit.text.strip()) >= MIN_TEXT]
    return [hit for hit in taught if with_retired or asks_past or not hit.retired][:limit]


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
    """Read the message's intent, and in the same call what the next node needs of it.

    Reads: ``history``, ``retrieved_context``.
    Updates: ``intent``, ``extracted_facts``, ``search_query``, ``answer``.
    Side effects: one model call; none if a rule reads that a reminder is to change.
    """
    context = runtime.context
    is_own = bool(own_words(new_messages(state["history"])))
    if is_own and changes_reminder(context.text):
        return {"intent": "remind", "extracted_facts": [], "search_query": "", "answer": ""}
    result = await _understand(state["history"], state["retrieved_context"], context, caller)
    intent = result.intent if is_own else "solve"  # words of others order nothing
    return {
        "intent": intent,
        "extracted_facts": [fact for fact in result.facts if fact.text],
        "search_query": result.query.strip()[:MAX_QUERY],
        "answer": result.answer if intent == "solve" else "",
    }


RECENT = 4  # messages before the new ones, which pronouns refer to
RECENT_TEXT = 500  # characters of each
MAX_QUERY = 500  # characters


async def _understand(
    history: Sequence[HistoryMessage],
    hits: list[Hit],
    context: TurnContext,
    caller: ModelCaller,
    *searched: Mapping[str, Any],
) -> prompts.Understanding:
    """Ask the model for the intent of the new messages, and an answer if the quotes suffice.

    ``searched`` is the state of the search, once there was one.
    """
    new = new_messages(history)
    before = [entry for entry in history if entry not in new][-RECENT:]
    recent = [record(m, RECENT_TEXT) for m in before if m["role"] in ("user", "assistant")]
    messages, quotes = [record(entry) for entry in new], context_records(hits, context)
    return await caller.structured(
        prompts.understanding_messages(messages, recent, quotes, searched),
        prompts.Understanding,
        purpose="reason" if searched else "classify",
        on_usage=context.on_usage,
    )


MAX_FACTS = 20  # facts of one message


async def extract_facts(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Take over the facts that ``classify_intent`` found; ask for them if it found none.

    Reads: ``extracted_facts``, ``history``.
    Updates: ``extracted_facts``.
    Side effects: at most one model call.
    """
    facts = state.get("extracted_facts", [])
    if not facts:
        context = runtime.context
        said_at = {"said_at": context.moment.isoformat()}
        messages = [record(entry) | said_at for entry in new_messages(state["history"])]
        extracted = await caller.structured(
            prompts.extraction_messages(messages, {}),
            prompts.ExtractedFacts,
            purpose="extract",
            on_usage=context.on_usage,
        )
        facts = [fact for fact in extracted.facts if fact.text]
    return {"extracted_facts": facts[:MAX_FACTS]}


CANDIDATES = 5  # known facts that are compared with a new one


async def check_conflicts(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search known facts like the new ones; ask the model about all of them in one call.

    Without similar facts the model is not asked. If the call fails there are no conflicts: the
    facts are stored, and what a rule can decide is decided then.

    Reads: ``extracted_facts``.
    Updates: ``conflicts``.
    Side effects: one search per fact, at most one model call.
    """
    facts, context = state["extracted_facts"], runtime.context
    threshold = (await memories.settings()).memory_dedup_threshold
    known: dict[int, str] = {}
    for fact in facts:
        query = Query(context.owner, fact.text, context.now, limit=CANDIDATES, kinds=("memory",))
        for hit in await recall(memories, context, query):
            is_same = content_hash(hit.text) == content_hash(fact.text)
            if hit.match.similarity >= threshold and not is_same:
                known[hit.source_id] = hit.text
    if not known:
        return {"conflicts": []}
    try:
        verdict = await caller.structured(
            prompts.conflict_messages([fact.text for fact in facts], known),
            prompts.Conflicts,
            purpose="conflicts",
            on_usage=context.on_usage,
        )
    except errors.AppError as error:
        logger.warning("conflicts could not be checked", exc_info=error)
        return {"conflicts": []}
    conflicts: list[Conflict] = [
        {"new": pair.new, "memory_id": pair.known, "text": known[pair.known]}
        for pair in verdict.conflicts
        if pair.known in known and 0 <= pair.new < len(facts) and pair.confidence >= UNSURE
    ]
    return {"conflicts": conflicts}


async def auto_resolve(state: ConversationState) -> ConversationState:
    """Accept the new facts, one conflict per known fact: strict mode trusts what the user teaches.

    The old fact is retired, not deleted, and one tap restores it.

    Reads: ``conflicts``.
    Updates: ``accepted_conflicts``.
    Side effects: none.
    """
    by_memory = {conflict["memory_id"]: conflict for conflict in state["conflicts"]}
    return {"accepted_conflicts": list(by_memory.values())}


async def store_knowledge(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Store each fact with its source, the episode ``teach_msg-<id>``.

    A new fact that would replace an important one is not stored but disputed: ``QuestionService``
    stores it once the user decides so.

    Reads: ``extracted_facts``, ``accepted_conflicts``, ``history``.
    Updates: ``outcomes``, ``disputes``.
    Side effects: one transaction per fact, reported to the turn's ``on_change``.
    """
    context = runtime.context
    outcomes: list[Outcome] = []
    disputes: list[Dispute] = []
    new = new_messages(state["history"])
    conflicts = state.get("accepted_conflicts", ())
    for number, fact in enumerate(state["extracted_facts"]):
        said = find_source_message(new, fact, context)
        outcome = refusal(context, fact, said)
        if outcome is None:
            accepted = {c["memory_id"] for c in conflicts if c["new"] == number}
            outcome = await memories.writer.remember(
                context.owner, fact, said, origin="teach", contradicts=accepted
            )
            context.on_change(changes_of([outcome]))
        if outcome.denied and outcome.kind == "asked":
            disputes.append(Dispute(fact, said, outcome.denied))
        else:
            outcomes.append(outcome)
    return {"outcomes": outcomes, "disputes": disputes}


async def generate_confirmation(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Confirm the outcomes; no model is asked, so the confirmation cannot be wrong.

    Equal outcomes are named once, such as one refusal of several facts. The service words the
    question about disputed ones.

    Reads: ``outcomes``, ``disputes``.
    Updates: ``answer``, ``references``.
    Side effects: none.
    """
    outcomes, answer = state["outcomes"], ""
    if outcomes or not state["disputes"]:
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
    """Search for what the model asks and ask it again, as often as the settings allow.

    An answer with a verified reference needs no search. The steps are not stored anywhere.

    Reads: ``history``, ``search_query``, ``retrieved_context``, ``answer``.
    Updates: ``retrieved_context``, ``answer``.
    Side effects: at most ``strict_max_iterations`` searches, and as many model calls.
    """
    context, history = runtime.context, state["history"]
    settings = await memories.settings()
    hits, answer = list(state["retrieved_context"]), state["answer"]
    searched, left = [context.text], settings.strict_max_iterations
    query = state["search_query"]
    while query and left and not _verify(answer, hits, context)[1]:
        left = 0 if query in searched else left - 1
        if query not in searched:
            searched.append(query)
            found = await search_taught(
                memories, context, history, query, limit=settings.strict_react_limit
            )
            uids = {hit.uid for hit in hits}
            hits += [hit for hit in found if hit.uid not in uids]
        if not hits:
            break  # neither the message nor the model's query finds anything
        progress = {"queries": searched, "searches_left": left}
        result = await _understand(history, hits, context, caller, progress)
        query, answer = result.query.strip()[:MAX_QUERY], result.answer
    return {"retrieved_context": hits, "answer": answer}


def _verify(text: str, hits: Sequence[Hit], context: TurnContext) -> tuple[str, list[int]]:
    """Number the answer's references; return it with the indexes of the cited hits.

    Cited ids that were not in the context are dropped.
    """
    quotable = [context.text, *(hit.words for hit in hits)]
    return number_references(strip_time_label(text), reference_names(hits), said=quotable)


async def generate_answer(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Give the model's answer if a reference of it is verified, else say that it is not known.

    Nothing is shown before it is verified, and nothing is stored as knowledge.

    Reads: ``retrieved_context``, ``answer``.
    Updates: ``answer``, ``references``, ``sources``.
    Side effects: none.
    """
    context, hits = runtime.context, state["retrieved_context"]
    answer, cited = _verify(state["answer"], hits, context)
    sources = [hits[index] for index in cited]
    references = dict.fromkeys(hit.uid for hit in sources)
    text = answer.strip() if cited else say("strict_unknown", context.language)
    return {"answer": text, "references": list(references), "sources": sources}


MAX_QUOTES = 10  # from which the model chooses what to forget


async def forget_knowledge(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search what the user means, let the model choose among the quotes, forget these for good.

    The confirmation names what was forgotten, and no model writes it. Chosen uids that were not
    among the quotes are dropped.

    Reads: ``history``, ``search_query``.
    Updates: ``answer``, ``references``, ``asks``.
    Side effects: one search; one model call if it finds anything; the choice is forgotten in one
    transaction.
    """
    context = runtime.context
    query = state.get("search_query", "")
    asks: Asks | None = None
    if query:
        texts = await _forget_matching(state, context, query, memories=memories, caller=caller)
        lines = [say("forgot", context.language, text=text) for text in dict.fromkeys(texts)]
        answer = "\n".join(lines) or say("forgot_nothing", context.language)
    elif asks_to_forget_all(context.text) and context.owner.is_group:
        answer = say("forget_group", context.language)  # it would erase what others told
    elif asks_to_forget_all(context.text):
        answer, asks = "", "erase_all"  # the service words the question
    else:
        answer = say("forget_what", context.language)
    return {"answer": answer, "references": [], "asks": asks}


async def _forget_matching(
    state: ConversationState,
    context: TurnContext,
    query: str,
    *,
    memories: Memories,
    caller: ModelCaller,
) -> list[str]:
    hits = await search_taught(
        memories, context, state["history"], query, limit=MAX_QUOTES, with_retired=True
    )
    if not hits:
        return []
    chosen = await caller.structured(
        prompts.forgetting_messages(context.text, context_records(hits, context)),
        prompts.Forgetting,
        purpose="forget",
        on_usage=context.on_usage,
    )
    ids_by_name = {name: hit_id(hit) for hit in hits for name in (hit.uid, hit_id(hit))}
    ids = [ids_by_name[uid] for uid in dict.fromkeys(chosen.uids) if uid in ids_by_name]
    if not ids:
        return []
    request, speaker = context.message_id, context.speaker_id
    forgotten = await memories.forget(
        context.owner, ids, about=query, request_id=request, speaker_id=speaker
    )
    context.on_change(Changes(forgetting=forgotten.number))
    return list(forgotten.texts)


async def set_reminder(
    state: ConversationState, runtime: Runtime[TurnContext], *, reminders: ReminderService
) -> ConversationState:
    """Set, move or cancel a reminder by rules; ask if the message cannot be read.

    Reads: ``history``.
    Updates: ``answer``, ``references``, ``asks``.
    Side effects: reminders are stored or changed.
    """
    context = runtime.context
    caller = owners.Caller(
        context.owner, context.preferences, context.moment, member=context.speaker_id
    )
    change = read_change(context.text)
    if change is None:
        outcome = await reminders.set_by_words(caller, context.text, message_id=context.message_id)
    else:
        outcome = await reminders.apply_order(
            caller, change, said_before=last_answer(state["history"])
        )
    if outcome.reminder is not None and outcome.done != "cancelled":
        context.on_change(Changes(reminders=(outcome.reminder.id,)))
    answer = format_result(outcome, caller)
    return {"answer": answer, "references": [], "asks": question_of(outcome)}
