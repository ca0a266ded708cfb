"""Growth of the cost of reading a text with its length, for all readers of texts.

    python -m tests.attacks.linear_texts

prints one JSON line: for each reader its costliest text of 4,096 characters, the milliseconds of
CPU time, and the power of the length with which the cost grows up to 100,000 characters (1 is
linear, 2 quadratic). The exit status is 1 when a reader takes more than 20 ms or its power exceeds
LIMIT. Milliseconds depend on the machine, the power hardly does; the test checks only the power.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial

from langchain_core.messages import AIMessageChunk, HumanMessage

from src.base.owners import Caller, Owner, Preferences
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import add_time_label, read_time_label, strip_time_label
from src.llm.quoting import quoted
from src.llm.reply import ModelReply, read_arguments, sanitize
from src.llm.reply_text import ReplyText, without_thoughts
from src.llm.text_calls import read_text_calls
from src.llm.tokens import TokenCounter
from src.memory import line_kinds, prompts, retriever
from src.memory.forget_matching import read_request, spans
from src.memory.queries import entity_terms, read_overview
from src.memory.tools import ASKS_THE_BOT, find_source_message
from src.memory.turn_context import repeats_private
from src.offline import model, replies, tasks
from src.pg.client import storable
from src.reading import facts, plain_facts, requests, sentences
from src.reading import gate as imitations
from src.reading import sentences as passages
from src.reading import words as content
from src.reading import words as kin
from src.reading.contradictions import affirms
from src.reading.facts import Fact, asked_relations, content_hash, is_same
from src.reading.gate import Voice, holds_secret, refusal_reason
from src.reading.relative_dates import resolve_dates, when_valid
from src.reading.reminder_moments import read_new_time
from src.reading.reminder_phrases import read_reminder
from src.reading.time_expressions import read_time
from src.reading.words import content_words
from src.reminders.day import read_date
from src.reminders.day_repo import Told
from src.reminders.follow_ups import asks_no_more, stake_of
from src.reminders.rules import read_change, read_words
from src.reminders.screens import read_order, read_times
from src.talk.commands import parse_command
from src.talk.notes import read_correction
from src.talk.orders import reads_as_yes
from src.talk.search_screens import subject_of_text
from src.telegram.messages import without_address
from src.telegram.rendering import convert
from src.telegram.updates import AllowList, BotIdentity, classify
from src.telegram.words import gather_words
from src.texts import clear_language, detect_language, plain_text
from src.texts.morphology import terms
from src.texts.plain_text import shortened
from tests.attacks.frame import run_attack
from tests.attacks.hostile_texts import Kind, kinds

NOW = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
CALLER = Caller(Owner(1), Preferences("en", "Europe/Kyiv"), NOW)
BOT = BotIdentity(42, "pomni_bot", "Помни")
MESSAGE = 4096  # characters; Telegram's limit
LONG = 100_000  # characters of a long paste or answer
BUDGET = 20.0  # milliseconds per message and reader
LIMIT = 1.5  # highest allowed power of the length
NOISE = 2.0  # milliseconds at LONG; lower costs are not significant
COUNTER = TokenCounter("openai:gpt-5-mini")

Reader = Callable[[str], object]


def received(text: str, kind: str = "group") -> object:
    """Classify an update as the receiver does."""
    sender = {"id": 1, "is_bot": False, "first_name": text[:60]}
    message = {"message_id": 1, "date": 0, "chat": {"id": 1, "type": kind}, "from": sender}
    return classify({"update_id": 1, "message": {**message, "text": text}}, BOT, AllowList())


def linked(text: str) -> dict[str, object]:
    """A message with a hundred links, and a rich message with the text in its blocks."""
    places = range(0, len(text), max(1, len(text) // 100))
    links = [{"type": "text_link", "offset": at, "length": 1, "url": "https://a"} for at in places]
    rich = {"blocks": [{"type": "paragraph", "text": [piece]} for piece in text.split(" ")]}
    return {"text": text, "entities": links, "reply_to_message": {"rich_message": rich}}


def gated(text: str) -> object:
    """Gate a fact whose fields are all the text, cut to their limits."""
    fact = Fact(
        text=text[:400], quote=text[:1000],
        subject=text[:100], relation=text[:60], object=text[:400],
    )  # fmt: skip
    return refusal_reason(fact, text)


def quoted_by_a_fact(text: str) -> object:
    """Gate a short fact quoted from a long message."""
    fact = Fact(
        text="Люблю чай", quote=text[:8], relation="likes", object="чай",
    )  # fmt: skip
    return refusal_reason(fact, text)


def streamed(text: str) -> object:
    """Read an answer streamed in pieces of eight characters."""
    reply = ModelReply()
    for start in range(0, len(text), 8):
        reply.feed(AIMessageChunk(content=text[start : start + 8]))
    reply.flush()
    return reply.message()


def summarised(text: str) -> object:
    return tasks.summary_of({"messages": [{"role": "user", "text": text}] * 3})


def extracted(text: str) -> object:
    records = [{"uid": "msg-1", "role": "user", "text": text}]
    return tasks.fill_form("ExtractedFacts", {"messages": records}, line_kinds.kind_of)


def repeated(text: str) -> object:
    """Check an answer that repeats a private message of the same length."""
    message = HistoryMessage(
        id=1, role="user", content=text, position=1, voice=Voice(is_private=True)
    )
    return repeats_private(text, [message])


def said(text: str) -> object:
    history = [{"id": 1, "role": "user", "content": text, "position": 1}]
    context = type("Context", (), {"message_id": 1, "text": text, "moment": NOW})
    context.time_zone = "Europe/Kyiv"  # type: ignore[attr-defined]
    context.speaker_id = None  # type: ignore[attr-defined]
    return find_source_message(history, Fact(text=text[:300]), context)  # type: ignore[arg-type]


READERS: dict[str, Reader] = {
    "updates.classify": received,
    "updates.classify private": partial(received, kind="private"),
    "words.gather_words": lambda text: gather_words(linked(text)),
    "messages.without_address": lambda text: without_address(text, BOT),
    "commands.parse_command": parse_command,
    "texts.detect_language": detect_language,
    "texts.clear_language": clear_language,
    "pg_client.storable": storable,
    "time_label.add": lambda text: add_time_label(text, NOW, "Europe/Kyiv"),
    "time_label.read": lambda text: read_time_label(text, "Europe/Kyiv"),
    "time_label.strip": strip_time_label,
    "imitations.disarm": imitations.disarm,
    "imitations.imitates": imitations.imitates,
    "quoting.quoted": lambda text: quoted({"text": text}),
    "text_calls.read": lambda text: read_text_calls(text, {"x": ()}, [text]),
    "text_calls.held": lambda text: ReplyText({"x": ()}).feed(text),
    "thoughts.without": without_thoughts,
    "reply.streamed": streamed,
    "reply.sanitize": sanitize,
    "reply.read_arguments": read_arguments,
    "tokens.count": lambda text: COUNTER.count(text + str(time.perf_counter_ns())),
    "prompts.number_references": lambda text: prompts.number_references(
        text, {"1": 1, "msg-1": 2}, said=[text]
    ),
    "entities.convert": convert,
    "terms": terms,
    "queries.entity_terms": entity_terms,
    "plain_text.plain": plain_text.plain,
    "plain_text.normalise": plain_text.normalise,
    "sameness.content_hash": content_hash,
    "sameness.is_same": lambda text: is_same(text, f"{text} x", similarity=1.0),
    "sensitive_text.holds_secret": holds_secret,
    "gate.refusal_reason": gated,
    "gate.refusal_reason of a long message": quoted_by_a_fact,
    "relations.canonical_subject": facts.canonical_subject,
    "relations.canonical_relation": facts.canonical_relation,
    "relation_questions": asked_relations,
    "retriever.TIME_WORD": retriever.TIME_WORD.search,
    "search_memory.ASKS_THE_BOT": ASKS_THE_BOT.search,
    "save_user_fact.find_said": said,
    "time_expressions.read_time": lambda text: read_time(text, NOW),
    "reminder_phrases.read_reminder": lambda text: read_reminder(
        f"напомни {text}"[:1000], NOW, "Europe/Kyiv"
    ),
    "rules.read_words": lambda text: read_words(text[:1000], NOW, "Europe/Kyiv"),
    "rules.read_change": lambda text: read_change(f"перенеси {text}"[:150]),
    "reminder_moments.read_new_time": lambda text: read_new_time(
        text[:1000], NOW, NOW, "Europe/Kyiv"
    ),
    "relative_dates.resolve_dates": lambda text: resolve_dates(text, NOW),
    "relative_dates.when_valid": lambda text: when_valid(text, NOW, is_event=True),
    "compaction.shortened": lambda text: shortened(text, 500),
    "forget_matching.read_request": read_request,
    "privacy.repeats_private": repeated,
    "contradictions.affirms": affirms,
    "forget_matching.spans": lambda text: spans(text, text[:200]),
    "overviews.read_overview": lambda text: read_overview(text, NOW),
    "confirmation.reads_as_yes": reads_as_yes,
    "words.content_words": lambda text: content_words(text),
    "sentences.is_question": sentences.is_question,
    "sentences.asks_only": sentences.asks_only,
    "sentences.sentences": lambda text: list(sentences.sentences(text)),
    "requests.forget_request": requests.forget_request,
    "requests.asks_to_keep_private": requests.asks_to_keep_private,
    "requests.overview_of": requests.overview_of,
    "requests.asks_what_was_said": requests.asks_what_was_said,
    "content.content": lambda text: content.content.__wrapped__(text),
    "kin.kin_of": lambda text: kin.kin_of(text),
    "plain_facts.plain_facts": plain_facts.plain_facts,
    "plain_facts.to_remember": plain_facts.to_remember,
    "passages.best_passage": lambda text: passages.best_passage(text, ["а", "a", "1"], 240),
    "line_kinds.kind_of": line_kinds.kind_of,
    "replies.is_note": replies.is_note,
    "replies.corrects": replies.corrects,
    "briefs.read_order": lambda text: read_order(f"brief {text}"[:80], CALLER),
    "briefs.read_times": lambda text: read_times(text[:1000], CALLER),
    "day.read_date": lambda text: read_date(Told("msg-1", "", text[:500], NOW), "Europe/Kyiv"),
    "follow_ups.stake_of": stake_of,
    "follow_ups.asks_no_more": asks_no_more,
    "wishes.read_correction": read_correction,
    "about.subject_of_text": subject_of_text,
    "model.answer": lambda text: model.answer([HumanMessage(text)], ["save_user_fact"]),
    "tasks summary": summarised,
    "tasks extraction": extracted,
}


# Slow readers of at most a fact's length. Their cost cannot grow, so the test omits them.
BOUNDED = frozenset({"gate.refusal_reason"})


@dataclass(frozen=True)
class Growth:
    """Costs of a reader.

    Attributes:
        text: Name of its costliest text at MESSAGE characters.
        milliseconds: CPU time for that text.
        power: Highest power of the length with which a cost grows up to LONG characters.
        grows: Name of the text with that power.
    """

    text: str
    milliseconds: float
    power: float
    grows: str


def cost(reader: Reader, text: str, *, tries: int = 1) -> float:
    """Return the minimum CPU time for reading the text, in milliseconds."""
    least = math.inf
    for _ in range(tries):
        start = time.thread_time()
        reader(text)
        least = min(least, 1000 * (time.thread_time() - start))
    return least


def measure(
    reader: Reader, ways: Mapping[str, Kind], *, long: int, suspects: int, length: int = MESSAGE
) -> Growth:
    """Find the costliest texts of a length, and measure their growth up to ``long``."""
    reader("разогрев, 5 мая")
    costs = sorted(
        ((cost(reader, fill(length)), name) for name, fill in ways.items()), reverse=True
    )
    growths = [
        (power(reader, ways[name](long // 4), ways[name](long)), name)
        for _, name in costs[:suspects]
    ]
    worst, grows = max(growths)
    costliest = costs[0][1]
    milliseconds = cost(reader, ways[costliest](length), tries=3)
    return Growth(costliest, round(milliseconds, 2), round(worst, 2), grows)


def power(reader: Reader, text: str, longer: str) -> float:
    """Return the power of the length with which the cost grows between two texts of a kind.

    A high figure is measured again, since a busy machine causes one, too.
    """
    figure = math.inf
    for tries in (1, 2, 4):
        after = cost(reader, longer, tries=tries)
        if after < NOISE:
            return 0.0
        before = cost(reader, text, tries=tries + 1)
        exponent = math.log(after / max(before, 0.01)) / math.log(len(longer) / len(text))
        figure = min(figure, exponent)
        if figure <= LIMIT:
            break
    return figure


def main(only: str, long: int, suspects: int) -> dict[str, object]:
    """Measure all readers whose names contain ``only``."""
    found = {
        name: measure(reader, kinds(), long=long, suspects=suspects)
        for name, reader in READERS.items()
        if only in name
    }
    slow = [name for name, one in found.items() if one.power > LIMIT or one.milliseconds > BUDGET]
    return {"readers": {name: asdict(one) for name, one in found.items()}, "violations": slow}


if __name__ == "__main__":
    options = {"--only": "", "--long": LONG, "--suspects": 12}
    run_attack(main, options, wrong=["violations"])
