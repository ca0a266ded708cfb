"""Memory tools of the model: save, search, forget one thing or all, keep private."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from langchain_core.messages import ToolMessage
from pydantic import Field, model_validator

from src.base.zones import in_zone, local_time
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import read_time_label, text_of, voice_of
from src.history.turn_repo import NO_CHANGES, Asks, Changes
from src.llm.loose_json import as_list
from src.llm.quoting import Form, NoArguments, Runtime
from src.memory import turn_context
from src.memory.forgetter import Forgotten
from src.memory.memories import Memories
from src.memory.prompts import memory_record, words_and_dates
from src.memory.queries import Query
from src.memory.question_repo import Dispute
from src.memory.retrieval_repo import Shown
from src.memory.thresholds import DOUBTFUL, WEAK
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.memory.writer import Outcome, SourceText
from src.reading import facts, lexicon, requests
from src.reading.facts import Fact
from src.texts import Language, say

SAVE = """\
Save what the user tells about themselves, their people, animals and things, if it may matter \
later: one call with every fact of the message. How they want to be answered is a fact too, with \
the relation wish. Save no passwords, no guesses, and nothing that only you said."""
TELL_WHY = "It is not saved: tell the user why."
ASKED = "Not saved yet: below your answer the user is asked whether it replaces those facts."
MAX_FACTS = 20  # of one call
ToolResult = tuple[dict[str, Any], Finding]


class SaveOrder(Form):
    """Facts to save; the fields of one fact are accepted in their place."""

    untold: ClassVar = frozenset({"message"})  # the prompt shows no ids of messages

    facts: list[Fact] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        told = value
        for key in ("facts", "fact"):  # small models wrap each entry, as in XML
            if isinstance(told, dict):
                told = told.get(key, told)
        return {"facts": as_list(told)}


async def save_user_fact(memories: Memories, runtime: Runtime, order: SaveOrder) -> ToolResult:
    """Store facts and return the outcome; of several, the outcome of each."""
    results = [await _save(memories, runtime, fact) for fact in order.facts[:MAX_FACTS]]
    if len(results) == 1:
        return results[0]
    findings = [finding for _, finding in results]
    merged = Finding(
        shown_facts=frozenset[int]().union(*(finding.shown_facts for finding in findings)),
        changes=sum((finding.changes for finding in findings), NO_CHANGES),
        facts_changed=any(finding.facts_changed for finding in findings),
        disputes=tuple(one for finding in findings for one in finding.disputes),
    )
    return {"facts": [record for record, _ in results]}, merged


async def _save(memories: Memories, runtime: Runtime, fact: Fact) -> ToolResult:
    context: TurnContext = runtime.context
    said = find_source_message(runtime.state.get("history", ()), fact, context)
    outcome = turn_context.refusal(context, fact, said) or await memories.writer.remember(
        context.owner,
        fact,
        said,
        origin="tool",
        contradicts=fact.replaced_ids() & runtime.state.get("shown_facts", frozenset()),
    )
    is_saved = outcome.kind in ("new", "update", "same", "beside")
    result = {"saved": is_saved, "id": None, **outcome_record(outcome)}
    changes = turn_context.changes_of([outcome])
    if outcome.kind == "asked":
        disputes = (Dispute(fact, said, outcome.denied),)
        return {**result, "note": ASKED}, Finding(changes=changes, disputes=disputes)
    if not is_saved:
        result["note"] = TELL_WHY
    if outcome.memory_id is None:
        return result, Finding(changes=changes)
    result["id"] = facts.fact_uid(outcome.memory_id)
    shown = frozenset({outcome.memory_id})
    return result, Finding(shown_facts=shown, changes=changes, facts_changed=is_saved)


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a fact as a record for the model."""
    return {
        "outcome": outcome.kind,
        "text": outcome.text,
        "replaced": list(outcome.replaced),
        "reason": outcome.reason,
    }


# Reasons with a sentence of their own.
REFUSALS = frozenset({"secret", "others_words", "too_long", "question", "memory_off"})


def describe_saved(result: Mapping[str, Any], language: Language) -> str:
    """Return a sentence to the user about the outcome of each fact, without a model."""
    if "facts" in result:
        said = (describe_saved(one, language) for one in result["facts"])
        return "\n".join(dict.fromkeys(said))
    outcome = result.get("outcome", "refused")
    if outcome != "refused":
        old = "; ".join(result["replaced"])
        return say(f"taught_{outcome}", language, text=result["text"], old=old)
    reason = result.get("reason")
    if reason not in REFUSALS:
        return say("refused_other", language)
    return say(f"refused_{reason}", language)


def find_source_message(
    history: Sequence[HistoryMessage], fact: facts.Fact, context: TurnContext
) -> SourceText:
    """Return the message that tells a fact: the one that it names, or the newest with its quote.

    Only messages that their senders typed count, in a group first those of the asker. If none has
    the quote, it is the message that is answered.
    """
    quote = facts.normalise(fact.quote)
    typed = [m for m in reversed(history) if m["role"] == "user" and voice_of(m).is_own]
    holders = [m for m in typed if quote and quote in facts.normalise(text_of(m))]
    holders.sort(key=lambda m: m.get("sender_id") != context.speaker_id)
    named = [m for m in holders if f"msg-{m['id']}" == fact.message]
    answered = [m for m in history if m["id"] == context.message_id]
    entry = next(iter([*named, *holders, *answered]), None)
    if entry is None:
        return SourceText(context.message_id, context.text, context.now)
    moment = read_time_label(entry["content"], context.time_zone)
    if moment is None or entry["id"] == context.message_id:
        moment = context.moment  # the label has minutes only
    return SourceText(entry["id"], text_of(entry), local_time(moment, context.time_zone))


MAX_LIMIT = 20
# Questions about the bot's own messages; only these make it search them.
ASKS_THE_BOT = lexicon.AnyCase(r"\b<find.the_bot_said>")
SEARCH = """\
Search all that the user ever told, also before the messages that you see. Search before you say \
that you do not know. The query "what do you know about me?" lists what is known."""


class SearchOrder(Form):
    """Arguments of a search."""

    query: str = ""
    limit: int = 5
    since: str = ""
    until: str = ""
    kinds: list[str] = Field(default_factory=list)


async def search_memory(memories: Memories, runtime: Runtime, order: SearchOrder) -> ToolResult:
    """Search the memory, or list it; each record has the number by which it is cited."""
    context: TurnContext = runtime.context
    if not context.preferences.memory_on:
        return {"memories": [], "memory_is_off": True}, NOTHING
    history = runtime.state.get("history") or []
    query = Query(
        context.owner,
        order.query,
        context.now,
        limit=max(1, min(order.limit, MAX_LIMIT)),
        threshold=WEAK * (await memories.settings()).memory_retrieve_threshold,
        shown=Shown(context.conversation_id, history[-1]["position"] if history else 0),
        with_assistant=ASKS_THE_BOT.search(f"{context.text} {order.query}") is not None,
        with_questions=requests.asks_for_questions(context.text),
        types=order.kinds or None,
        period=(
            _parse_day(order.since, context.time_zone),
            _parse_day(order.until, context.time_zone),
        ),
        speaker_id=context.speaker_id,
    )
    hits = await turn_context.recall(memories, context, query)
    numbers, _ = turn_context.number_hits(runtime.state.get("sources") or (), hits)
    records = []
    for number, hit in zip(numbers, hits, strict=True):
        match = hit.match
        record = {
            **memory_record(number, hit, context.time_zone),
            "uid": hit.uid,
            **words_and_dates(hit, context.time_zone),
            "holds": not hit.retired,
            "of_asker": hit.is_by_asker(context.speaker_id),
            "score": round(match.score, 2),
            "similarity": round(match.similarity, 2),
            "lexical": round(match.bm25, 1),
        }
        if not match.bm25 and match.similarity < DOUBTFUL:
            record["doubtful"] = True
        records.append(record)
    result: dict[str, Any] = {"memories": records}
    overview = query.overview()
    if overview is not None:
        result["overview"] = overview.kind
    finding = Finding(hits=tuple(hits), shown_facts=turn_context.facts_among(hits))
    return result, finding


def renumber_records(result: ToolMessage, numbers: Sequence[int]) -> ToolMessage:
    """Return a result with new numbers; those of a second search of one reply are known late."""
    found = json.loads(str(result.text))
    records = zip(found["memories"], numbers, strict=True)
    found["memories"] = [{**record, "n": number} for record, number in records]
    content = json.dumps(found, ensure_ascii=False)
    return result if content == result.text else result.model_copy(update={"content": content})


def _parse_day(text: str, time_zone: str) -> datetime | None:
    """Return the start of a day such as 2026-11-21 in the user's zone; None for an empty text.

    Raises:
        ValueError: The text is no day.
    """
    if not text.strip():
        return None
    try:
        return in_zone(datetime.fromisoformat(text.strip()).replace(tzinfo=None), time_zone)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no day; write 2026-11-21") from None


MAX_IDS = 20

FORGET = """\
Forget something that the user told, when they ask for that. They can undo it for ten minutes."""
# Notes to the model on a request with which nothing is forgotten.
SEVERAL_FIT = "Several fit, none is forgotten: ask which."
NONE_FITS = "None fits, none is forgotten: name these."
FORGET_ALL = """\
Erase everything that is stored about the user, when they ask for it. They have to confirm."""
KEEP_PRIVATE = "Keep the user's message out of the memory, when they ask not to remember it."


class ForgetOrder(Form):
    """Arguments of a request to forget."""

    ids: list[str] = Field(default_factory=list)
    about: str = ""
    everything: bool = False


async def forget_fact(memories: Memories, runtime: Runtime, order: ForgetOrder) -> ToolResult:
    """Forget what is named or meant, or return the candidates if several fit."""
    context: TurnContext = runtime.context
    speaker = {"request_id": context.message_id, "speaker_id": context.speaker_id}
    found = await memories.forget(
        context.owner,
        order.ids[:MAX_IDS],
        about="" if order.ids else order.about,
        everything=order.everything,
        **speaker,
    )
    if not order.ids and found == Forgotten():  # a reason beside the order may name what is near
        about = requests.without_order(context.text)
        found = await memories.find_nearest(context.owner, about, **speaker)
    result: dict[str, Any] = {
        "forgotten": list(found.texts),
        "ask": [vars(fact) for fact in found.ask],
        "nearest": [vars(fact) for fact in found.nearest],
    }
    asks: Asks | None = None
    if found.ask or found.nearest:
        asks = "forget_which"
        result["note"] = SEVERAL_FIT if found.ask else NONE_FITS
    changes = Changes(forgetting=found.number)
    return result, Finding(changes=changes, facts_changed=bool(found.texts), asks=asks)


async def forget_everything(runtime: Runtime, _: NoArguments) -> ToolResult:
    """Have the user asked whether to erase everything; refused in groups."""
    context: TurnContext = runtime.context
    may_ask = not context.owner.is_group
    return {"confirm": may_ask}, Finding(asks="erase_all" if may_ask else None)


def describe_forgotten(found: Mapping[str, Any], language: Language) -> str:
    """Return sentences to the user about a request to forget, without a model.

    They name what was forgotten, or the candidates if several fit, or the nearest facts if none
    fits.
    """
    if "confirm" in found:
        return say("forget_everything_ask" if found["confirm"] else "forget_group", language)
    if found.get("forgotten"):
        texts = dict.fromkeys(found["forgotten"])
        return "\n".join(say("forgot", language, text=text) for text in texts)
    if found.get("ask"):
        head, listed = say("forget_which", language), found["ask"]
    else:
        head, listed = say("forgot_nothing", language), found.get("nearest", ())
        if listed:
            head += f" {say('forget_nearest', language)}"
    quotes = (f"• {say('quoted', language, text=fact['text'])}" for fact in listed)
    return "\n".join([head, *quotes])


async def keep_private(memories: Memories, runtime: Runtime, _: NoArguments) -> ToolResult:
    """Keep the message that is answered out of the memory."""
    context: TurnContext = runtime.context
    await memories.keep_private(context.owner, context.message_id)
    return {"private": True}, Finding(facts_changed=True)
