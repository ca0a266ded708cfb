"""What the notebook says to the results of its tools: quotes, newest first, and what was done."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Any

from src.memory.line_kinds import NOTE, QUESTION, UNSURE, Kind, kind_of
from src.reading import lexicon
from src.reading.relations import asked_relations, relation_term
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.sentences import FOLD, MAX_ASKED, best_passage, is_question, sentences
from src.reading.words import (
    NO_NAME,
    Lemmas,
    answered_values,
    content,
    content_words,
    kin_of,
    people_in,
    shared,
    tells_what_is_asked,
)  # fmt: skip
from src.reminders.rules import asks_for_reminder
from src.texts import Language, say
from src.texts.morphology import WORD, lemmas, parts_of_speech, says_i, stem_english, terms, words
from src.texts.plain_text import CUT

QUOTED = 3  # quotes of one answer
LISTED = 12  # lines of an overview
FILE_QUOTE = 240  # characters of what is quoted of a file
# How near a question must be what is quoted: its similarity in meaning, and WORDS for all of the
# question's words. ``python -m benchmarks.irrelevance`` counts what it lets pass.
NEAR, WORDS = 0.785, 0.1
# For the only word of a question, and beside some of several: whether the time, the place, the
# number or the person that it asks for is told; None: it asks for none.
ONE_WORD = {True: 0.3, None: 0.18, False: 0.1}
EVIDENCE = {True: 0.04, None: 0.0, False: -0.05}
NAMED = 0.02  # more, where it speaks of somebody who is asked about
LONG, WORDS_OF_LONG = 120, 0.2  # characters of a note whose meaning is of many things
GAP = 0.15  # below the nearest, from which on a note is left out
SPELT, ALIKE = 3, 0.83  # letters of a word that may be misspelt, likeness to the one that is meant
TWICE = re.compile(r"(.)\1")
MOST = 0.03  # more, for the most of three words or more
SURE = 2  # words of a question that are enough, if they are all of its words
SHARED = 0.5  # of the words of a question, in a file; more of them in what has no vector (yet)
BESIDE = 5  # messages behind a note in which one that puts it right is looked for
# A laugh or a sigh before what puts right or takes back.
LEAD = r"\W*(?:(?:<lines.laugh>|<lines.opener>)(?![\w'-])\W+){0,3}?"
CORRECTS = lexicon.AnyCase(rf"{LEAD}(?:<lines.corrects>|<lines.takes_back>)(?![\w'-])")
CONTINUES = lexicon.AnyCase(r"\W*<lines.continues>(?![\w'-])")
INTRODUCED = lexicon.AnyCase(
    r"\W*(?P<greeting>(?:(?:<lines.opener>|<lines.pleasantry>)(?![\w'-])\W+){0,2})<lines.named>"
)
END = lexicon.AnyCase(r"(?>[ ,]+<lines.question_end>(?!\w))+\W*$")
TELLING = lexicon.AnyCase(r"(?<!\w)<lines.telling_question>\s+(?=.{8})")
TOLD = 2  # content words of a sentence beside a question that tells something
WHOSE = re.compile(r"\W*(?:[ув] |\w+s\b)", re.I)  # "у лёхи", "jakes"
# What answers who, or where, one is, by the search term of the relation.
ANSWERS = {
    relation_term(one): lexicon.AnyCase(rf"(?<!\w)<facts.answers.{one}>(?!\w)")
    for one in ("name", "age", "lives_in", "born_in", "works_as", "works_at")
}
PET_STEM = 3  # letters of a name that has an ending
PET = re.compile("(?:[ио]?к|[оеє]чк|[оеє]ньк|[ую]шк|чик|[ую][шсл])[аеоуюия]?")
ME_ALONE = frozenset({"i", "i'm", "im", "я"})  # "we" may be both
Record = dict[str, Any]
Found = Sequence[Record]


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
    kind = kind or kind_of(text)
    return kind == NOTE or (kind == UNSURE and not is_question(text))


def told_beside(text: str) -> str:
    """What a question tells besides, as it was written; empty: nothing.

    That is what stands behind "did you know that", or the sentences that ask nothing.
    """
    told = (part for part in sentences(text) if not is_question(part))
    lead = TELLING.search(text.translate(FOLD))
    parts = [text[lead.end() :]] if lead else [one for one in told if len(content(one)) >= TOLD]
    return " ".join(parts).strip()


def quote_found(found: Found, question: str, language: Language, kind: Kind) -> str | None:
    """What was said about a question, newest first; None when nothing is near.

    What does not hold any more stands below, marked.

    Args:
        found: The results of the searches.
        question: As it was asked.
        language: Of the words around the quotes.
        kind: Tells what a line is.
    """
    every = [r for one in reversed(found) for r in one.get("memories") or () if r.get("text")]
    once = {r["id"] if _is_fact(r) else r["uid"]: r for r in every}  # of the first search
    records = [_judged(r, kind(r["text"])) for r in once.values()]
    overview = str(found[0].get("overview") or "") if found else ""
    chosen = _listed(records, overview) if overview else near(records, question)
    if not chosen:
        return None
    wanted = frozenset(terms(question))
    title = say(f"offline_overview_{overview}" if overview else "offline_quote_one", language)
    lines = [_line(record, wanted, language) for record in newest_first(chosen)]
    return "\n".join([title, "", *lines])


def _judged(record: Record, kind: str) -> Record:
    """A record with its kind; of a question what it tells besides, in the place of its text."""
    may_ask = kind in (QUESTION, UNSURE) and not (_is_fact(record) or record.get("from_file"))
    told = told_beside(record["text"]) if may_ask else ""
    if told in ("", record["text"].strip()):
        return {**record, "kind": kind}
    return {**record, "kind": NOTE, "text": told, "is_beside": True}


def newest_first(records: Found) -> list[Record]:
    """What holds, then what does not any more; of both the newest first, and the same once."""
    ordered = sorted(records, key=lambda one: (one.get("holds", True), _order(one)))
    return list({record["text"]: record for record in ordered}.values())[::-1]


def near(records: Found, question: str, *, least: float = NEAR) -> list[Record]:
    """The notes that are nearest to a question, if they are near, with what puts them right.

    Args:
        records: What the search found.
        question: As it was asked.
        least: How near they must be.
    """
    question = _spelt(question, records)
    told = [r for r in records if _tells(r) and (r.get("of_asker", True) or not _is_own(question))]
    told = [r for r in told if not _asks_the_same(r, question)]
    scores = {id(r): _nearness(r, question) for r in told}
    told.sort(key=lambda r: -scores[id(r)])
    floor = max(least, max(scores.values(), default=0.0) - GAP)
    best = [r for r in told if scores[id(r)] >= floor][:QUOTED]
    rest = [r for r in told if r not in best and not asks_for_reminder(r["text"])]
    talk = sorted(records, key=_order)
    beside = [r for r in rest if _belongs(r, best, told, talk)]
    later = [r for r in rest if r not in beside and _is_later_about_same(r, best, question)]
    return [*best[: QUOTED - bool(later)], *beside, *later[:1]]


def _spelt(question: str, records: Found) -> str:
    """The question; of its first words those that nobody knows are spelt as a record has them.

    Those in Latin letters, for which there is no dictionary, only if no letter differs but in
    its place, or is written once for twice.
    """
    known = sorted({word.lower() for r in records for word in words(r["text"])})

    def spelt(found: re.Match[str]) -> str:
        word = found[0].lower()
        if len(word) < SPELT or word in known or parts_of_speech(word):
            return found[0]
        alike = [one for one in known if one[0] == word[0]]
        if word.isascii():
            return next((w for w in alike if _letters(w) == _letters(word)), found[0])
        return next(iter(get_close_matches(word, alike, 1, ALIKE)), found[0])

    return WORD.sub(spelt, question, MAX_ASKED)


def _letters(word: str) -> list[str]:
    return sorted(TWICE.sub(r"\1", word))


def _may_ask(record: Record) -> bool:
    return record.get("kind") == UNSURE or is_question(record["text"])


def _asks_the_same(record: Record, question: str) -> bool:
    """Whether it asks what is asked, or what it tells beside its question is of something else."""
    if record.get("is_beside") and not shared(question, record["text"]):
        return True
    return _may_ask(record) and _share(content(record["text"]), question) == 1


def _is_later_about_same(record: Record, best: Found, question: str) -> bool:
    """Whether it was said after the nearest, and speaks of half of what that tells of it."""
    if not best or _order(record) <= _order(best[0]):
        return False
    people, nearest = people_in(record["text"]), people_in(best[0]["text"])
    if _is_of_another(record["text"], question) or _differ(people, nearest):
        return False
    return _share(shared(question, best[0]["text"]), record["text"]) >= SHARED


def _belongs(record: Record, best: Found, told: Found, talk: Found) -> bool:
    """Whether a record puts right what is chosen, goes on with it, or took its place.

    It may put right the answer to a question: "how much is it?", "no, it's 7".
    """
    if record.get("id") in {one.get("replaced_by", "") for one in best}:
        return True
    text, place = record["text"], _order(record)
    before = [r for r in talk if _order(r) < place]
    close = [r for r in before if place[1] - _order(r)[1] <= BESIDE]
    beside = any(r in best for r in [r for r in close if r in told][-1:])
    if not corrects(text):
        return beside and CONTINUES.match(text.translate(FOLD)) is not None
    alike = ((len(shared(text, r["text"])), n) for n, r in enumerate(before) if r in told)
    same = [before[n] in best for number, n in sorted(alike)[-1:] if number]
    asked = [q["text"] for q in close[-1:] if is_question(q["text"])]
    return any(same or [beside]) or any(shared(q, r["text"]) for q in asked for r in best)


def _listed(records: Found, kind: str) -> list[Record]:
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
    source = str(record.get("id", record["uid"])).partition("-")[0]
    is_told = source == "fact" or bool(record.get("from_file"))
    return is_told or (source != "summary" and is_note(record["text"], record.get("kind")))


def _is_of_another(text: str, question: str) -> bool:
    """Whether it tells of another person than who is asked about.

    That is another relative, another name; or whoever a note begins with ("jakes size is 44",
    "у лёхи 45"), where the one who asks asks about themselves.
    """
    asked, said = people_in(question), frozenset[str]().union(*content(text))
    told = people_in(text) | {
        name for name in asked if any(_is_name_in(name[1:], w) for w in said)
    }
    if asked and told:
        return _differ(asked, told)
    first = [word.text for word in content_words(text)[:2]]
    if asked or not first or not _is_own(question) or _is_own(text):
        return False
    is_whose = WHOSE.match(text) is not None
    if people_in(first[0]):
        return is_whose or not ME_ALONE.isdisjoint(words(question.lower()))
    return is_whose and [bool(shared(word, question)) for word in first] == [False, True]


def _is_name_in(name: str, word: str) -> bool:
    """Whether a word is a name, or a pet name of it: "тимурка"."""
    word, stem = word.lstrip("~"), name.rstrip("аеиоуяй") if len(name) > PET_STEM else name
    return word == name or (word.startswith(stem) and PET.fullmatch(word, len(stem)) is not None)


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether these are other relatives, or other names; a relative may have any name."""
    return bool(one) and one.isdisjoint(other) and {p[0] for p in one} == {p[0] for p in other}


def _is_own(text: str) -> bool:
    """Whether "I" or "my" is said, but not only to say whose relative somebody is."""
    said = [*words(text.translate(FOLD).lower()), ""]
    me, owners = lexicon.words("lines.me"), lexicon.words("people.owners")
    if any(map(says_i, said)):
        return True  # "где работаю"
    return any(w in me and not (w in owners and kin_of(after)) for w, after in pairwise(said))


def _nearness(record: Record, question: str) -> float:
    """How near it is in meaning and words; without a vector, whether enough words are the same.

    What no search found, but stands in for what it found or was only listed, has no score.
    """
    text = record["text"]
    if _is_of_another(text, question):
        return 0.0
    if _answers(text, question):
        return 1.0
    if not record.get("score", 1):
        return 0.0
    asked = _asked_words(question)
    share = _share(asked, f"{record.get('from_file', '')} {text}")
    if share == 1 and len(asked) >= SURE:
        return 1.0
    similarity = float(record.get("similarity", 0))
    if record.get("from_file"):  # the vector is of its beginning
        return float(share >= SHARED)
    if not similarity:
        return float(share > SHARED)
    told = tells_what_is_asked(text, question)
    if told and _is_own(question) and not _is_own(text):
        told = None  # of whom, it does not say
    weight = WORDS_OF_LONG if len(text) >= LONG else WORDS
    same = share and weight * share + EVIDENCE[told]
    same += MOST * (len(asked) > SURE and share > SHARED)
    same += NAMED * bool(people_in(question) & people_in(text))
    return similarity + (ONE_WORD[told] if share == 1 else same)


def _share(asked: Sequence[Lemmas], text: str) -> float:
    """How many of these words a text holds."""
    there = frozenset[str]().union(*content(text))
    if any(forms & there for forms in asked):
        there |= answered_values(text)
    return sum(bool(forms & there) for forms in asked) / len(asked) if asked else 0.0


@lru_cache(maxsize=100)
def _asked_words(question: str) -> list[Lemmas]:
    """The words of a question that its answer may hold; all, where no others are left."""
    forms = frozenset[str]().union(*map(lemmas, lexicon.words("lines.asking")))
    asked = [one for one in content(END.sub("", question)) if not one & forms]
    return asked or list(content(question))


def asks_of_self(question: str) -> list[str]:
    """What the one who asks wants to know of themselves ("where do I live?"), as search terms."""
    asked = asked_relations(question) if _is_own(question) else []
    return [term for term in asked if term in ANSWERS]


def _answers(text: str, question: str) -> bool:
    asked, folded = asks_of_self(question), text.translate(FOLD)
    told = any(term in asked and one.search(folded) for term, one in ANSWERS.items())
    return told or (relation_term("name") in asked and _introduces(folded))


def covers(records: Found, question: str) -> bool:
    """Whether they hold every word of a question, or tell what the user asks of themselves."""
    is_held = _share(_asked_words(question), " ".join(one["text"] for one in records)) == 1
    return is_held or any(_answers(one["text"], question) for one in records)


def _introduces(folded: str) -> bool:
    """Whether it begins as "im tom": no word of a dictionary, and no form of a verb.

    What is a name for sure may go on; another word only behind a greeting and before a sign.
    """
    begun = INTRODUCED.match(folded)
    word = words(begun[0])[-1].lower() if begun else ""
    more = folded[begun.end() :].strip(" .!)") if begun else ""
    if known := parts_of_speech(word):
        return "Name" in known and (not more or known.isdisjoint(NO_NAME))
    is_apart = begun is not None and bool(begun["greeting"]) and more.startswith(",")
    return bool(word) and stem_english(word) == word and (not more or is_apart)


def _line(record: Record, wanted: frozenset[str], language: Language) -> str:
    told = str(record.get("quote") or record["text"])
    if record.get("from_file"):
        told = best_passage(told, wanted, FILE_QUOTE)
    author = record.get("words_of") or record.get("from_file") or record.get("speaker")
    text = f"{author}: {told}" if author else told
    day = datetime.strptime(record["said_at"], "%Y-%m-%d %H:%M")  # noqa: DTZ007
    line = say("offline_quote", language, said_at=f"{day:%d.%m.%Y %H:%M}", text=text)
    if not record.get("holds", True):
        line = f"{say('offline_earlier', language)} {line[2:]}"
    dates = f" ({', '.join(record['dates'])})" if record.get("dates") else ""
    return f"{line}{dates} [{record['n']}]"


def _order(record: Record) -> tuple[str, int]:
    """By time, and within a minute by the number of the message."""
    number = str(record["uid"]).rpartition("-")[2]
    return str(record["said_at"]), int(number) if number.isdigit() else 0
