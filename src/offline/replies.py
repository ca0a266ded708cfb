"""What the notebook says to the results of its tools: quotes, newest first, and what was done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from src.offline.lines import NOTE, QUESTION, REQUEST, kind_of
from src.reading import lexicon
from src.reading.plain_facts import plain_facts
from src.reading.relations import asked_relations, relation_term
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.sentences import FOLD, best_passage, is_question
from src.reading.words import content, kin_of, shared
from src.texts import Language, say
from src.texts.morphology import parts_of_speech, stem_english, terms, words
from src.texts.plain_text import CUT

QUOTED = 3  # quotes of one answer
LISTED = 12  # lines of an overview
FILE_QUOTE = 240  # characters of what is quoted of a file
# How near a question must be what is quoted: its similarity in meaning, and WORDS for all of the
# question's words. ``python -m benchmarks.irrelevance`` counts what it lets pass.
NEAR, WORDS = 0.78, 0.1
SURE = 2  # words of a question that are enough, if they are all of its words
SHARED = 0.5  # of the words of a question, in what has no vector (yet)
SHORT = 2  # words that may be small talk
BESIDE = 3  # messages behind a note in which one that puts it right is looked for
CORRECTS = lexicon.Expression(r"\W*<lines.corrects>(?![\w'-])", re.IGNORECASE)
CONTINUES = lexicon.Expression(r"\W*<lines.continues>(?![\w'-])", re.IGNORECASE)
NAMED = lexicon.Expression(r"\W*<lines.named>\W*", re.IGNORECASE)
NAME = relation_term("name")
Record = dict[str, Any]


def corrects(text: str) -> bool:
    """Whether a note begins as one that puts right the one before it: "no, on Wednesday"."""
    return CORRECTS.match(text.translate(FOLD)) is not None


def is_note(text: str) -> bool:
    """Whether a stored message tells something: a note is rather quoted in vain than lost."""
    text = text.replace(CUT, " ").strip()
    if is_question(text) or forget_request(text) is not None or asks_to_keep_private(text):
        return False
    return len(words(text)) > SHORT or kind_of(text, None) in (NOTE, QUESTION, REQUEST)


def quote_found(found: Sequence[Record], question: str, language: Language) -> str | None:
    """What was said about a question, newest first; None when nothing is near.

    What does not hold any more stands below, marked.

    Args:
        found: The results of the searches.
        question: As it was asked.
        language: Of the words around the quotes.
    """
    records = [r for one in found for r in one.get("memories") or () if r.get("text")]
    kind = next((str(one["overview"]) for one in found if one.get("overview")), "")
    chosen = _listed(records, kind) if kind else near(records, question)
    ordered = sorted(chosen, key=lambda r: (r.get("holds", True), _order(r)), reverse=True)
    ordered = list({record["text"]: record for record in reversed(ordered)}.values())[::-1]
    if not ordered:
        return None
    title = say(f"offline_overview_{kind}" if kind else "offline_quote_one", language)
    return f"{title}\n\n" + "\n".join(_line(record, language) for record in ordered)


def near(records: Sequence[Record], question: str, *, least: float | None = None) -> list[Record]:
    """The notes that are nearest to a question, if they are near, with what puts them right.

    Args:
        records: What the search found.
        question: As it was asked.
        least: By default ``NEAR``.
    """
    least = NEAR if least is None else least
    told = [r for r in records if _tells(r) and (r.get("of_asker", True) or not _is_own(question))]
    told = [r for r in told if not _repeats(r, question)]
    scored = [(_nearness(r, question), n) for n, r in enumerate(told)]
    scored.sort(key=lambda one: -one[0])
    best = [n for nearness, n in scored if nearness >= least][:QUOTED]
    chosen = [_narrowed(told[n], question) for n in best]
    rest = [told[n] for _, n in scored if n not in best]
    belonging = [r for r in rest if _belongs(r, chosen)]
    later = [r for r in rest if r not in belonging and _is_later_about_same(r, chosen)]
    return [*chosen[: QUOTED - bool(later)], *belonging, *later[:1]]


def _repeats(record: Record, question: str) -> bool:
    """Whether it may be the same question, asked before."""
    asked = frozenset[str]().union(*content(question))
    text = str(record["text"])
    is_known = all(forms & asked for forms in content(text))
    return is_known and kind_of(text, None) == QUESTION


def _is_later_about_same(record: Record, chosen: Sequence[Record]) -> bool:
    """Whether it was said after the nearest that is chosen, and shares a word with it."""
    if not chosen or _order(record) <= _order(chosen[0]):
        return False
    return bool(shared(str(record["text"]), str(chosen[0]["text"])))


def _belongs(record: Record, chosen: Sequence[Record]) -> bool:
    """Whether a record puts right what is chosen, goes on with it, or took its place."""
    if record.get("id") in {one.get("replaced_by", "") for one in chosen}:
        return True
    place = _order(record)[1]
    behind = (place - _order(one)[1] for one in chosen)
    text = str(record["text"]).translate(FOLD)
    goes_on = corrects(text) or CONTINUES.match(text) is not None
    return goes_on and any(0 < step <= BESIDE for step in behind)


def describe_saved(results: Sequence[Record], language: Language) -> str:
    """What became of each fact, each outcome once."""
    return "\n".join(dict.fromkeys(line for one in results for line in _saved(one, language)))


def describe_forgotten(found: Record, language: Language) -> str:
    """What is forgotten; or which of several is meant; or what is nearest to what is not there."""
    if found.get("forgotten"):
        lines = [say("forgot", language, text=text) for text in dict.fromkeys(found["forgotten"])]
        return "\n".join([*lines, say("forgot_undo", language)])
    if found.get("ask"):
        return f"{say('forget_which', language)}\n{_quotes(found['ask'], language)}"
    nothing = say("forgot_nothing", language)
    if found.get("nearest"):
        nearest = _quotes(found["nearest"][:3], language)
        return f"{nothing} {say('forget_nearest', language)}\n{nearest}"
    return nothing


def _quotes(entries: Sequence[Record], language: Language) -> str:
    return "\n".join(f"• {say('quoted', language, text=entry['text'])}" for entry in entries)


def _saved(result: Record, language: Language) -> Iterator[str]:
    text = str(result.get("text", ""))
    if result.get("outcome") == "same":
        yield say("offline_known", language, text=text)
    elif result.get("replaced"):
        yield say("offline_replaced", language, text=text, old="; ".join(result["replaced"]))
    elif result.get("outcome") == "outdated":
        yield say("taught_outdated", language, text=text)
    elif result.get("saved"):
        yield say("offline_saved", language, text=text)
    else:
        key = f"refused_{result.get('reason')}"
        known = ("refused_secret", "refused_unclear_date", "refused_memory_off")
        yield say(key if key in known else "refused_other", language)


def _listed(records: Sequence[Record], kind: str) -> list[Record]:
    """What an overview lists: facts that hold, and notes that told no fact; of the family alone
    what speaks of kin.
    """
    told = [r for r in records if r.get("holds", True) and r.get("of_asker", True) and _tells(r)]
    facts = {r["uid"] for r in told if str(r.get("id", "")).startswith("fact-")}
    told = [
        r
        for r in told
        if str(r.get("id", "")).startswith("fact-")
        or (r["uid"] not in facts and kind_of(str(r["text"]), None) in (NOTE, QUESTION, REQUEST))
    ]
    if kind == "family":
        told = [r for r in told if any(map(kin_of, words(r["text"])))]
    return sorted(told, key=_order, reverse=True)[:LISTED]


def _tells(record: Record) -> bool:
    """A question or a request tells nothing; a summary is nobody's words."""
    id_ = str(record.get("id", record["uid"]))
    if id_.startswith("fact-") or record.get("from_file"):
        return True
    return not id_.startswith("summary") and is_note(str(record["text"]))


def _is_own(question: str) -> bool:
    """Whether the one who asks speaks of himself, for whom no other member of a group answers."""
    return not lexicon.words("lines.me").isdisjoint(words(question.translate(FOLD).lower()))


def _nearness(record: Record, question: str) -> float:
    """How near it is in meaning and words; without a vector, whether enough words are the same.

    What no search found, but stands in for what it found, has no score.
    """
    if not record.get("score", 1):
        return 0.0
    asked = content(question)
    same = shared(question, f"{record.get('from_file', '')} {record['text']}")
    share = len(same) / len(asked) if asked else 0.0
    if len(same) == len(asked) >= SURE or _tells_what_is_asked(str(record["text"]), question):
        return 1.0
    similarity = float(record.get("similarity", 0))
    if similarity and not record.get("from_file"):  # of a file the vector is of its beginning
        return similarity + WORDS * share
    return float(share >= SHARED)


def _tells_what_is_asked(text: str, question: str) -> bool:
    """Whether it tells beyond doubt what the one who asks wants to know: "where do I live?"."""
    asked = asked_relations(question)
    if NAME in asked and _names(text):
        return True
    asks_of_self = not lexicon.words("match.i").isdisjoint(words(question.lower()))
    return asks_of_self and any(
        relation_term(fact.relation) in asked for fact in plain_facts(text)
    )


def _names(text: str) -> bool:
    """Whether it is such as "im tom": no word of a dictionary, and no form of a verb."""
    named = NAMED.fullmatch(text.translate(FOLD))
    word = words(text)[-1].lower() if named is not None else ""
    known = parts_of_speech(word)
    return bool(word) and ("Name" in known if known else stem_english(word) == word)


def _narrowed(record: Record, question: str) -> Record:
    """Of a file the sentences that have to do with the question."""
    if not record.get("from_file"):
        return record
    text = best_passage(record["text"], frozenset(terms(question)), FILE_QUOTE)
    return {**record, "text": text}


def _line(record: Record, language: Language) -> str:
    told = str(record.get("quote") or record["text"])
    author = record.get("words_of") or record.get("from_file") or record.get("speaker")
    text = f"{author}: {told}" if author else told
    line = say("offline_quote", language, said_at=_day(record["said_at"]), text=text)
    if not record.get("holds", True):
        line = f"{say('offline_earlier', language)} {line[2:]}"
    dates = f" ({', '.join(record['dates'])})" if record.get("dates") else ""
    return f"{line}{dates} [{record['n']}]"


def _order(record: Record) -> tuple[str, int]:
    """By time, and within a minute by the number of the message."""
    number = str(record["uid"]).rpartition("-")[2]
    return str(record["said_at"]), int(number) if number.isdigit() else 0


def _day(said_at: str) -> str:
    """``2026-11-21 14:05`` as people write it."""
    try:
        return f"{datetime.fromisoformat(said_at):%d.%m.%Y %H:%M}"
    except ValueError:
        return said_at
