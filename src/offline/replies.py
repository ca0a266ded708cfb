"""What the notebook says to the results of its tools: quotes, newest first, and what was done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from src.offline.lines import NOTE, UNSURE, kind_of
from src.reading import lexicon
from src.reading.relations import asked_relations, relation_term
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.sentences import FOLD, best_passage, is_question
from src.reading.words import Lemmas, content, kin_of, shared
from src.reminders.rules import asks_for_reminder
from src.texts import Language, say
from src.texts.morphology import lemmas, parts_of_speech, stem_english, terms, words
from src.texts.plain_text import CUT

QUOTED = 3  # quotes of one answer
LISTED = 12  # lines of an overview
FILE_QUOTE = 240  # characters of what is quoted of a file
# How near a question must be what is quoted: its similarity in meaning, and WORDS for all of the
# question's words. ``python -m benchmarks.irrelevance`` counts what it lets pass.
NEAR, WORDS = 0.78, 0.1
ONE_WORD = 0.18  # for the only word of a question
LONG, WORDS_OF_LONG = 120, 0.2  # characters of a note whose meaning is of many things
GAP = 0.15  # below the nearest, from which on a note is left out
SURE = 2  # words of a question that are enough, if they are all of its words
SHARED = 0.5  # of the words of a question, in a file; more of them in what has no vector (yet)
BESIDE = 3  # messages behind a note in which one that puts it right is looked for
CORRECTS = lexicon.Expression(
    r"\W*(?:(?:<lines.laugh>|<lines.opener>)(?![\w'-])\W+){0,3}?"
    r"(?:<lines.corrects>|<lines.takes_back>)(?![\w'-])",
    re.I,
)
CONTINUES = lexicon.Expression(r"\W*<lines.continues>(?![\w'-])", re.I)
NAMED = lexicon.Expression(r"\W*<lines.named>\W*", re.I)
ASKS_WHO = lexicon.Expression(
    r"\W*(?:<lines.question_preposition> )?(?:who|кто|кого|кому|кем)", re.I
)
# What else a word may be that is also a name: "люба", "слава".
ME_ALONE = frozenset({"i", "i'm", "im", "я"})  # "we" may be both
NO_NAME = frozenset({"VERB", "ADJF", "ADJS", "ADVB", "INTJ", "PREP", "CONJ", "NPRO"})
Record = dict[str, Any]


def corrects(text: str) -> bool:
    """Whether a note begins as one that puts right the one before it: "no, on Wednesday"."""
    return CORRECTS.match(text.translate(FOLD)) is not None


def is_note(text: str, kind: str | None = None) -> bool:
    """Whether a stored message tells something.

    Args:
        text: The message.
        kind: What it is; by default, what its letters tell.
    """
    text = text.replace(CUT, " ").strip()
    if asks_to_keep_private(text) or (forget_request(text) is not None and not corrects(text)):
        return False
    kind = kind or kind_of(text, None)
    return kind == NOTE or (kind == UNSURE and not is_question(text))


def quote_found(found: Sequence[Record], question: str, language: Language) -> str | None:
    """What was said about a question, newest first; None when nothing is near.

    What does not hold any more stands below, marked.

    Args:
        found: The results of the searches.
        question: As it was asked.
        language: Of the words around the quotes.
    """
    every = [r for one in reversed(found) for r in one.get("memories") or () if r.get("text")]
    records = list({r["uid"] if not _is_fact(r) else r["id"]: r for r in every}.values())
    kind = str(found[0].get("overview") or "")
    chosen = _listed(records, kind) if kind else near(records, question)
    ordered = list({record["text"]: record for record in reversed(newest_first(chosen))}.values())[
        ::-1
    ]
    if not ordered:
        return None
    title = say(f"offline_overview_{kind}" if kind else "offline_quote_one", language)
    return f"{title}\n\n" + "\n".join(_line(record, language) for record in ordered)


def near(records: Sequence[Record], question: str, *, least: float = NEAR) -> list[Record]:
    """The notes that are nearest to a question, if they are near, with what puts them right.

    Args:
        records: What the search found.
        question: As it was asked.
        least: How near they must be.
    """
    told = [r for r in records if _tells(r) and (r.get("of_asker", True) or not _is_own(question))]
    told = [r for r in told if not _repeats(r, question)]
    scores = {id(r): _nearness(r, question) for r in told}
    told.sort(key=lambda r: -scores[id(r)])
    floor = max(least, max(scores.values(), default=0.0) - GAP)
    best = [r for r in told if scores[id(r)] >= floor][:QUOTED]
    rest = [r for r in told if r not in best and not asks_for_reminder(_text(r))]
    beside = [r for r in rest if _belongs(r, best, told) or _corrects_answer(r, best, records)]
    later = [r for r in rest if r not in beside and _is_later_about_same(r, best, question)]
    quoted = [_narrowed(r, question) for r in best]
    return [*quoted[: QUOTED - bool(later)], *beside, *later[:1]]


def _repeats(record: Record, question: str) -> bool:
    """Whether it may be the same question, asked before."""
    text = _text(record)
    if record.get("kind") != UNSURE and not is_question(text):
        return False
    asked = frozenset[str]().union(*content(question))
    return all(forms & asked for forms in content(text))


def _is_later_about_same(record: Record, best: Sequence[Record], question: str) -> bool:
    """Whether it was said after the nearest, and speaks of half of what that tells of it."""
    if not best or _order(record) <= _order(best[0]) or _is_of_another(_text(record), question):
        return False
    if _differ(_people(_text(record)), _people(_text(best[0]))):
        return False
    same = shared(question, _text(best[0]))
    both = [forms for forms in shared(question, _text(record)) if forms in same]
    return bool(both) and len(both) >= SHARED * len(same)


def _belongs(record: Record, best: Sequence[Record], told: Sequence[Record]) -> bool:
    """Whether a record puts right what is chosen, goes on with it, or took its place."""
    if record.get("id") in {one.get("replaced_by", "") for one in best}:
        return True
    text, place = _text(record), _order(record)[1]
    before = sorted((r for r in told if _order(r) < _order(record)), key=_order)
    beside = [r for r in before[-1:] if place - _order(r)[1] <= BESIDE]
    if corrects(text):
        same = [r for r in before if shared(text, _text(r))]
        return any(r in best for r in same[-1:] or beside)
    return CONTINUES.match(text.translate(FOLD)) is not None and any(r in best for r in beside)


def _corrects_answer(record: Record, best: Sequence[Record], records: Sequence[Record]) -> bool:
    """Whether it puts right what was answered right before: "how much is it?", "no, it's 7"."""
    place = _order(record)
    before = max((r for r in records if _order(r) < place), key=_order, default=record)
    is_after_question = is_question(_text(before)) and place[1] - _order(before)[1] <= BESIDE
    asked = content(_text(before)) if is_after_question and corrects(_text(record)) else ()
    told = frozenset[str]().union(*(forms for r in best for forms in content(_text(r))))
    return any(forms & told for forms in asked)


def describe_saved(results: Sequence[Record], language: Language) -> str:
    """What became of each fact, each outcome once."""
    return "\n".join(dict.fromkeys(_saved(one, language) for one in results))


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


def _saved(result: Record, language: Language) -> str:
    outcome, text = result.get("outcome"), str(result.get("text", ""))
    if outcome in ("new", "same", "update", "outdated"):
        key = f"taught_{outcome}"
        return say(key, language, text=text, old="; ".join(result.get("replaced", ())))
    key = f"refused_{result.get('reason')}"
    known = ("refused_secret", "refused_unclear_date", "refused_memory_off")
    return say(key if key in known else "refused_other", language)


def _listed(records: Sequence[Record], kind: str) -> list[Record]:
    """What an overview lists: facts that hold, and notes that told no fact; of the family alone
    what speaks of kin.
    """
    told = [r for r in records if r.get("holds", True) and r.get("of_asker", True) and _tells(r)]
    facts = {r["uid"] for r in told if _is_fact(r)}
    told = [r for r in told if _is_fact(r) or r["uid"] not in facts]
    if kind == "family":
        told = [r for r in told if any(map(kin_of, words(r["text"])))]
    return sorted(told, key=_order, reverse=True)[:LISTED]


def _is_fact(record: Record) -> bool:
    return str(record.get("id", "")).startswith("fact-")


def _tells(record: Record) -> bool:
    """A question or a request tells nothing; a summary is nobody's words."""
    if _is_fact(record) or record.get("from_file"):
        return True
    is_summary = str(record.get("id", record["uid"])).startswith("summary")
    return not is_summary and is_note(str(record["text"]), record.get("kind"))


def _text(record: Record) -> str:
    return str(record["text"])


def _is_of_another(text: str, question: str) -> bool:
    """Whether it tells of another person than who is asked about.

    That is another relative, another name; or whoever a note begins with ("jakes size is 44",
    "у лёхи 45"), where the one who asks asks about themselves.
    """
    asked, told = _people(question), _people(text)
    if asked and told:
        return _differ(asked, told)
    if asked or not _is_own(question) or _is_own(text) or ASKS_WHO.match(question):
        return False
    said = words(text.lower())
    first = [word for word in said[:4] if not lemmas(word) & _empty()][:2]
    is_whose = bool(first) and (said[0] in ("у", "в") or said[0] == first[0][:-1] + "s")
    if first and _people(first[0]):
        return is_whose or not ME_ALONE.isdisjoint(words(question.lower()))
    return is_whose and [bool(shared(word, question)) for word in first] == [False, True]


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether these are other relatives, or other names; a relative may have any name."""
    return bool(one) and one.isdisjoint(other) and {p[0] for p in one} == {p[0] for p in other}


@cache
def _empty() -> frozenset[str]:
    return lexicon.words("meaning.empty") | lexicon.words("lines.me")


@lru_cache(maxsize=2_000)
def _people(text: str) -> frozenset[str]:
    """The relatives (``@brother``) and the names (``~тарас``) in a text."""
    found = {f"@{role}" for word in words(text) if (role := kin_of(word))}
    for place, word in enumerate(words(text)):
        tags = parts_of_speech(word)
        is_name = "Name" in tags and tags.isdisjoint(NO_NAME)
        if (
            is_name or (place and word[1:].islower() and word.istitle() and not tags)
        ) and not kin_of(word):
            found |= {f"~{form}" for form in lemmas(word)}
    return frozenset(found)


def _is_own(text: str) -> bool:
    """Whether "I" or "my" is said, but not only to say whose relative somebody is."""
    said = [*words(text.translate(FOLD).lower()), ""]
    me, owners = lexicon.words("lines.me"), lexicon.words("people.owners")
    return any(w in me and not (w in owners and kin_of(after)) for w, after in pairwise(said))


def _nearness(record: Record, question: str) -> float:
    """How near it is in meaning and words; without a vector, whether enough words are the same.

    What no search found, but stands in for what it found or was only listed, has no score.
    """
    text = _text(record)
    if _is_of_another(text, question):
        return 0.0
    if _answers(text, question):
        return 1.0
    if not record.get("score", 1):
        return 0.0
    there = frozenset[str]().union(*content(f"{record.get('from_file', '')} {text}"))
    asked = _asked_words(question)
    share = sum(bool(forms & there) for forms in asked) / len(asked) if asked else 0.0
    if share == 1 and len(asked) >= SURE:
        return 1.0
    similarity = float(record.get("similarity", 0))
    if record.get("from_file"):  # the vector is of its beginning
        return float(share >= SHARED)
    if not similarity:
        return float(share > SHARED)
    weight = WORDS_OF_LONG if len(text) >= LONG else WORDS
    return similarity + (ONE_WORD if share == 1 else weight * share)


@lru_cache(maxsize=100)
def _asked_words(question: str) -> list[Lemmas]:
    """The words of a question that its answer may hold; all, where no others are left."""
    forms = frozenset[str]().union(*map(lemmas, lexicon.words("lines.asking")))
    return [one for one in content(question) if not one & forms] or list(content(question))


def asks_of_self(question: str) -> list[str]:
    """What the one who asks wants to know of themselves ("where do I live?"), as search terms."""
    return asked_relations(question) if _is_own(question) else []


def _answers(text: str, question: str) -> bool:
    asked = asks_of_self(question)
    folded = text.translate(FOLD)
    if relation_term("name") in asked and _is_name_alone(folded):
        return True
    return any(term in asked and one.search(folded) for term, one in _answering().items())


@cache
def _answering() -> dict[str, re.Pattern[str]]:
    """What tells each relation, by its search term."""
    told = lexicon.rules("facts.answers", {})
    return {
        relation_term(name): re.compile(rf"(?<!\w)(?:{'|'.join(found)})(?!\w)", re.I)
        for name, found in told.items()
    }


def covers(records: Sequence[Record], question: str) -> bool:
    """Whether they hold every word of a question, or tell what the user asks of themselves."""
    there = frozenset[str]().union(*(forms for r in records for forms in content(_text(r))))
    holds = all(forms & there for forms in _asked_words(question))
    return holds or any(_answers(_text(r), question) for r in records)


def _is_name_alone(folded: str) -> bool:
    """Whether it is such as "im tom": no word of a dictionary, and no form of a verb."""
    word = words(folded)[-1].lower() if NAMED.fullmatch(folded) else ""
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


def newest_first(records: Sequence[Record]) -> list[Record]:
    """What holds, then what does not any more; of both the newest first."""
    return sorted(records, key=lambda r: (r.get("holds", True), _order(r)), reverse=True)


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
