"""Replies of the offline model: quotes of what was found, newest first."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from src.memory.line_kinds import (
    MOVE,
    NOTE,
    QUESTION,
    REMIND,
    SLIP,
    UNSURE,
    Classifier,
    kind_of,
    names_only,
)
from src.memory.queries import may_be_same_name
from src.memory.thresholds import GAP, NEAR, SHARED_WORD, SHARED_WORDS, SURE
from src.reading import lexicon
from src.reading import words as reading_words
from src.reading.contradictions import PAST
from src.reading.facts import asked_relations, relation_term
from src.reading.requests import LISTED, asks_for_questions, asks_to_keep_private, forget_request
from src.reading.sentences import (
    FOLD,
    MAX_ASKED,
    TELLING,
    asks_only,
    best_passage,
    is_question,
    sentences,
)
from src.reading.words import Lemmas, content, kin_of, people_in, shared
from src.reminders.rules import asks_for_reminder, read_change
from src.texts import Language, say
from src.texts.morphology import (
    WORD,
    is_first_person_verb,
    lemmas,
    parts_of_speech,
    stem_english,
    terms,
    words,
)
from src.texts.plain_text import CUT

QUOTED = 3  # quotes of one answer
CHANGES = 2  # later quotes that may change the sure ones
OVERVIEW_LINES = 12  # lines of an overview
FILE_QUOTE = 240  # characters of a quote from a file
MIN_MISSPELT, MIN_LIKENESS = 3, 0.83  # letters of a misspelt word, similarity to the right one
MIN_LATIN_LIKENESS = 0.85  # the same for Latin letters, which have no dictionary
TOPIC = re.compile(r"\W*[^\W\d]+(?:(?:\s+|['-])[^\W\d]+){0,2}\W*")  # at most three words
ENOUGH = 2  # words that suffice if they are all words of the question
MIN_SHARE = 0.5  # of the question's words; a file, or a note without a vector, must exceed it
MAX_DISTANCE = 5  # messages between a note and its correction
# A laugh or a sigh before a correction or retraction.
LEAD = r"\W*(?:(?:<lines.laugh>|<lines.opener>)(?![\w'-])\W+){0,3}?"
CORRECTS = lexicon.AnyCase(
    rf"{SLIP.pattern}|{LEAD}(?:<lines.corrects>|<lines.takes_back>)(?![\w'-])"
)
# "540 а не 450", "90 not 80": the old value behind the new one.
INSTEAD_OF = lexicon.AnyCase(r"\s<lines.instead_of>\s+(?:\w{1,2} )?(?P<old>[\w'-]+)")
NUMBERED = re.compile(r"([^\W\d_]{3,}) (\d+)(?!\w)")
CHANGED = lexicon.AnyCase(r"(?<!\w)<lines.changed>(?!\w)")
PRESENT = lexicon.AnyCase(r"(?<!\w)(?:<lines.changed>|<change.present>)(?!\w)")
# "Add gel to it" behind a list.
ADDS = lexicon.AnyCase(r"(?<!\w)<lines.adds>(?!\w)")
THE_LIST = lexicon.AnyCase(r"(?<!\w)<lines.the_list>(?!\w)")
# "What else do I need to buy" is answered by "shopping list: milk".
ASKS_TO_BUY = lexicon.AnyCase(r"<lines.what_to_buy>(?:\W+<lines.question_end>)*\W*$")
SHOPPING = lexicon.AnyCase(r"(?<!\w)<lines.shopping>(?!\w)")
CONTINUES = lexicon.AnyCase(r"\W*<lines.continues>(?![\w'-])")
INTRODUCED = lexicon.AnyCase(
    r"\W*(?P<greeting>(?:(?:<lines.opener>|<lines.pleasantry>)(?![\w'-])\W+){0,2})<lines.named>"
)
END = lexicon.AnyCase(r"(?>[ ,]+<lines.question_end>(?!\w))+\W*$")
MIN_WORDS = 2  # minimum content words of a statement beside a question
WHOSE = re.compile(r"\W*(?:[ув] |\w+s\b)", re.I)  # "у лёхи", "jakes"
# Answers to questions about the user, by the search term of the relation.
ANSWERS = {
    relation_term(one): lexicon.AnyCase(rf"(?<!\w)<facts.answers.{one}>(?!\w)")
    for one in ("name", "age", "lives_in", "born_in", "works_as", "works_at")
}
# Diminutive suffixes of names; a name longer than PET_STEM letters loses its ending before them.
PET_STEM = 3
PET = re.compile("(?:[ио]?к|[оеє]чк|[оеє]ньк|[ую]шк|чик|[ую][шсл])[аеоуюия]?")
ME_ALONE = frozenset({"i", "i'm", "im", "я"})  # "we" may be both
ME_GIVEN = frozenset({"me", "мне", "мені"})
Record = dict[str, Any]
Found = Sequence[Record]


def corrects(text: str) -> bool:
    """Return True if a note begins as a correction of the previous one: "no, on Wednesday"."""
    return CORRECTS.match(text.translate(FOLD)) is not None


def is_note(text: str, kind: str | None = None) -> bool:
    """Return True if a stored message states something.

    Args:
        text: The message.
        kind: Its kind; by default judged by its letters.
    """
    text = text.replace(CUT, " ").strip()
    if asks_to_keep_private(text):
        return False
    is_order = read_change(text) is not None or forget_request(text) is not None
    if is_order and not corrects(text):  # "no, on the 13th" may correct a note
        return False
    kind = kind or kind_of(text)
    tells = kind in (MOVE, REMIND) or ADDS.search(text.translate(FOLD)) is not None
    if tells and not is_question(text):
        return True  # "shift monday is 6-14" is like an order that nobody could carry out
    return kind == NOTE or (kind == UNSURE and not is_question(text))


def statement_in(text: str) -> str:
    """Return what a question states besides, as written, or "".

    That is the text after "did you know that", or the sentences that ask nothing.
    """
    rest = (part for part in sentences(text) if not is_question(part))
    lead = TELLING.search(text.translate(FOLD))
    parts = [text[lead.end() :]] if lead else [s for s in rest if len(content(s)) >= MIN_WORDS]
    return " ".join(parts).strip()


class Matches(NamedTuple):
    """Notes about a question.

    Attributes:
        question: The question without typing errors.
        pool: The records that may be quoted.
        sure: The notes that surely belong to it, nearest first, with their corrections.
        nearest: The notes that share a word or a sense with it, nearest first.
    """

    question: str
    pool: list[Record]
    sure: list[Record]
    nearest: list[Record]


def match_notes(records: Found, question: str) -> Matches:
    """Return the notes among search results that are about a question."""
    question = _fix_typos(question, records)
    pool = _quotable(records, question)
    return Matches(question, pool, _near(records, pool, question), _nearest(pool, question))


def quote_found(found: Found, question: str, language: Language, kind: Classifier) -> str | None:
    """Return quotes about a question, newest first, or None if nothing is close enough.

    Retired facts come last and are marked.

    Args:
        found: Results of the searches.
        question: The question as asked.
        language: Language of the words around the quotes.
        kind: Classifies a line.
    """
    results = [r for one in reversed(found) for r in one.get("memories") or () if r.get("text")]
    unique = {r["id"] if _is_fact(r) else r["uid"]: r for r in results}  # of the first search
    records = [_classify(r, kind(r["text"])) for r in unique.values()]
    overview = next((str(one.get("overview") or "") for one in found[:1]), "")
    if overview:
        title = say(f"offline_overview_{overview}", language)
        listed = _overview_records(records, overview)
        return _format_quotes(title, listed, question, language) or None
    question, pool, sure, close = match_notes(records, question)
    changes = _list_changes(pool, sure, close, question)
    if not sure:
        nearest = close[:QUOTED]
        related = _related(nearest, pool, records)
        title, listed = say("offline_nearest", language), [*nearest, *related, *changes]
        return _format_quotes(title, listed, question, language) or None
    asked = frozenset[str]().union(*content(question))
    answers, others = [], []
    for change in changes:
        named = [forms for one in sure for forms in shared(one["text"], change["text"])]
        is_same = _share(_asked_words(question), change["text"]) > MIN_SHARE
        if is_same or any(not forms & asked for forms in named):
            answers.append(change)  # "sold the kia" after "i drive a kia"
        else:
            others.append(change)
    parts = (
        _format_quotes(say("offline_quote_one", language), [*sure, *answers], question, language),
        _format_quotes(say("offline_later", language), others, question, language),
    )
    return "\n\n".join(filter(None, parts))


def _list_changes(pool: Found, sure: Found, close: Found, question: str) -> list[Record]:
    """Return later notes that tell of a change, those first that share words with the quotes.

    What one does oneself may change in words that are far from the question.
    """
    quoted = sure or close[:1]
    if not quoted:
        return []
    newest = max(map(_sort_key, quoted))
    texts = {record["text"] for record in (sure or close[:QUOTED])}
    about = " ".join(record["text"] for record in quoted)
    overlaps = {id(r): len(shared(about, r["text"])) for r in pool}
    may_be_far = bool(sure) and asks_of_self(question)
    changes = [
        record
        for record in pool
        if record["text"] not in texts
        and _sort_key(record) > newest
        and CHANGED.search(record["text"].translate(FOLD))
        and (may_be_far or overlaps[id(record)] or (sure and record in close))
    ]
    return sorted(changes, key=lambda r: -overlaps[id(r)])[:CHANGES]


def _format_quotes(title: str, records: Found, question: str, language: Language) -> str:
    """Return quotes below a title, newest first, or "" without any."""
    if not records:
        return ""
    wanted = frozenset(terms(question))
    lines = [title, ""]
    for record in newest_first(records, question):
        quote = str(record.get("quote") or record["text"])
        if record.get("from_file"):
            quote = best_passage(quote, wanted, FILE_QUOTE)
        author = record.get("words_of") or record.get("from_file") or record.get("speaker")
        text = ": ".join(filter(None, (author, quote)))
        said_at = f"{datetime.fromisoformat(record['said_at']):%d.%m.%Y %H:%M}"
        if record.get("imported_from"):
            origin = say("words_of_imported", language, name=record["imported_from"])
            said_at = f"{said_at}, {origin}"
        line = say("offline_quote", language, said_at=said_at, text=text)
        if not record.get("holds", True):
            line = f"{say('offline_earlier', language)} {line[2:]}"
        dates = ""
        if record.get("dates"):
            dates = f" ({', '.join(record['dates'])})"
        lines.append(f"{line}{dates} [{record['n']}]")
    return "\n".join(lines)


def _nearest(pool: Found, question: str) -> list[Record]:
    """Return the notes nearest to a question that share a word or a sense with it, nearest first.

    What is about another person counts less, and not at all where a value is asked for (a phone
    number, a birthday); what may be the mere name of a value ("vet's number") comes last.

    Args:
        pool: The quotable ones of the search results.
        question: The question as asked.
    """
    found, named = [], reading_words.names_in(question)
    has_value = _is_own(question) or bool(asked_relations(question))
    for record in pool:
        is_other = has_value and _is_of_another(record["text"], question)
        if is_other or not record.get("score", 1):
            continue
        # It has a word of the question, as the search or the dictionary says, or its sense, if the
        # question names nobody else. A bare topic needs a word: it may be a question of one's own.
        has_word = record.get("lexical") or shared(question, record["text"])
        is_topic = record.get("kind") == UNSURE and TOPIC.fullmatch(record["text"])
        is_near = record.get("similarity", 0) >= NEAR and not is_topic
        if has_word or (is_near and _may_speak_of(record["text"], named)):
            found.append(record)

    def nearness(record: Record) -> float:
        likeness = len(shared(question, record["text"]))
        likeness -= _is_of_another(record["text"], question)
        return float(record.get("similarity", 0)) + SHARED_WORD * likeness

    return sorted(found, key=lambda r: (names_only(r["text"]), -nearness(r)))


def _may_speak_of(text: str, names: frozenset[str]) -> bool:
    people = {one[1:] for one in people_in(text)}
    return not names or any(may_be_same_name(one, other) for one in names for other in people)


def _classify(record: Record, kind: str) -> Record:
    """Add the kind to a record; a question is replaced by what it states besides."""
    may_ask = kind in (QUESTION, UNSURE) and not (_is_fact(record) or record.get("from_file"))
    statement = statement_in(record["text"])
    if not may_ask or statement in ("", record["text"].strip()):
        return {**record, "kind": kind}
    return {**record, "kind": NOTE, "text": statement, "is_beside": True}


def newest_first(records: Found, question: str) -> list[Record]:
    """Return current records, then those of the past, each newest first and no text twice.

    A question about the past asks for both alike.
    """
    asks_of_past = _asks_of_past(question)

    def holds(record: Record) -> bool:
        text = record["text"].translate(FOLD)
        is_news = asks_of_past or corrects(text) or PRESENT.search(text) is not None
        is_past = PAST.search(text) is not None and not is_news
        return bool(record.get("holds", True)) and not is_past

    ordered = sorted(records, key=lambda one: (holds(one), _sort_key(one)))
    return list({record["text"]: record for record in ordered}.values())[::-1]


def _near(records: Found, pool: Found, question: str) -> list[Record]:
    """Return the notes that surely belong to a question, nearest first, with their corrections.

    Args:
        records: Search results.
        pool: The quotable ones of them.
        question: The question, without typing errors.
    """
    pool = [r for r in pool if _is_fact(r) or not _asks_for_reminder(r["text"])]
    others = (_has_other_role, _has_other_number)
    pool = [r for r in pool if not any(is_other(r["text"], question) for is_other in others)]
    scores = {id(r): _closeness(r, question) for r in pool}
    pool = sorted(pool, key=lambda r: -scores[id(r)])
    floor = max(SURE, max(scores.values(), default=0.0) - GAP)
    best = [r for r in pool if scores[id(r)] >= floor]
    telling = [r for r in best if not names_only(r["text"])]
    best = (telling or best)[:QUOTED]
    best += _with_other_things(best, pool, question)
    later = [r for r in pool if r not in best and _is_later_about_same(r, best, question)][:1]
    told = [*best[: QUOTED - len(later)], *later]
    return [*told, *_related(told, pool, records)]


def _asks_for_reminder(text: str) -> bool:
    return asks_for_reminder(text) and not corrects(text)  # "no, at 16:30" may correct a note


def _related(best: Found, pool: Found, records: Found) -> list[Record]:
    """Return the notes of a pool that correct, continue, replace or add to the best, oldest first.

    Args:
        best: The notes that are quoted.
        pool: The quotable ones of the search results.
        records: The search results.
    """
    talk = sorted(records, key=_sort_key)
    rest = [r for r in sorted(pool, key=_sort_key) if r not in best]
    related: list[Record] = []
    for record in rest:
        if _relates(record, [*best, *related], pool, talk):
            related.append(record)
    return related + [r for r in rest if r not in related and _adds(r, best, talk)]


def _quotable(records: Found, question: str) -> list[Record]:
    """Return the records that tell something, for a question about oneself only one's own."""
    own = [r for r in records if r.get("of_asker", True) or not _is_own(question)]
    if asks_for_questions(question):
        return [r for r in own if asks_only(r["text"])]
    telling = []
    for record in filter(_tells, own):
        may_ask = record.get("kind") == UNSURE or is_question(record["text"])
        asks_the_same = may_ask and _share(content(record["text"]), question) == 1
        is_unrelated = record.get("is_beside") and not shared(question, record["text"])
        if not asks_the_same and not is_unrelated:
            telling.append(record)
    return telling


def _fix_typos(question: str, records: Found) -> str:
    """Correct unknown words among the first of a question to words of the records.

    For Latin letters, which have no dictionary, the words must be longer or more alike.
    """
    known = sorted({word.lower() for r in records for word in words(r["text"])})

    def fix(match: re.Match[str]) -> str:
        word = match[0].lower()
        if len(word) < MIN_MISSPELT or word in known or parts_of_speech(word):
            return match[0]
        candidates = [one for one in known if one[0] == word[0]]
        likeness = MIN_LATIN_LIKENESS if word.isascii() else MIN_LIKENESS
        return next(iter(get_close_matches(word, candidates, 1, likeness)), match[0])

    return WORD.sub(fix, question, MAX_ASKED)


def _is_later_about_same(record: Record, best: Found, question: str) -> bool:
    """Return True if a record is later than the best one and shares half of its relevant words."""
    if not best or _sort_key(record) <= _sort_key(best[0]):
        return False
    people, nearest = people_in(record["text"]), people_in(best[0]["text"])
    if _is_of_another(record["text"], question) or _are_different(people, nearest):
        return False
    return _share(shared(question, best[0]["text"]), record["text"]) >= MIN_SHARE


def _relates(record: Record, best: Found, pool: Found, talk: Found) -> bool:
    """Return True if a record corrects, continues or replaces one of the best.

    It may correct the answer to a question: "how much is it?", "no, it's 7".
    """
    if record.get("id") in {one.get("replaced_by", "") for one in best}:
        return True
    text, key = record["text"], _sort_key(record)
    before = [r for r in talk if _sort_key(r) < key]
    instead = INSTEAD_OF.search(text.translate(FOLD))
    if instead is not None and any(shared(instead["old"], r["text"]) for r in best if r in before):
        return True
    is_correction = corrects(text)
    if not is_correction and CONTINUES.match(text.translate(FOLD)) is None:
        return False
    recent = [r for r in before if key[1] - _sort_key(r)[1] <= MAX_DISTANCE]
    said = [r for r in recent if r in pool or _asks_for_reminder(r["text"])]
    adjacent = any(r in best for r in said[-1:])
    if not is_correction:
        return adjacent
    overlaps = ((len(shared(text, r["text"])), n) for n, r in enumerate(before) if r in pool)
    same = [before[n] in best for number, n in sorted(overlaps)[-1:] if number]
    questions = [q["text"] for q in recent[-1:] if is_question(q["text"])]
    return any(same or [adjacent]) or any(shared(q, r["text"]) for q in questions for r in best)


def _with_other_things(best: Found, pool: Found, question: str) -> list[Record]:
    """Return the nearest note with a thing of the question that none of the best names."""
    named = frozenset[str]().union(*(forms for r in best for forms in content(r["text"])))
    asked = [forms for forms in _asked_words(question) if not forms & named]
    things = {form for forms in asked for form in forms if "NOUN" in parts_of_speech(form)}
    found = (r for r in pool if any(forms & things for forms in content(r["text"])))
    return [record for record in found if best][:1]


def _adds(record: Record, best: Found, talk: Found) -> bool:
    """Return True if a record adds to a list among the best: "and coffee, add it"."""
    number, text = _sort_key(record)[1], record["text"].translate(FOLD)
    distance = MAX_DISTANCE if THE_LIST.search(text) is None else number
    recent = (r for r in talk if 0 < number - _sort_key(r)[1] <= distance and r in best)
    is_listed = any(LISTED.search(r["text"].translate(FOLD)) for r in recent)
    return is_listed and ADDS.search(text) is not None


def _overview_records(records: Found, kind: str) -> list[Record]:
    """Return the records of an overview: current facts, and notes that tell more than theirs.

    The family overview has only those that mention kin.
    """
    listed = [r for r in records if r.get("holds", True) and r.get("of_asker", True) and _tells(r)]
    facts = [r for r in listed if _is_fact(r)]
    notes = []
    for note in listed:
        facts_told = [fact["text"] for fact in facts if fact["uid"] == note["uid"]]
        rest = note["text"]
        for text in facts_told:
            rest = rest.replace(text, " ")
        tells_more = rest != note["text"] and len(content(rest)) >= MIN_WORDS
        if not _is_fact(note) and (tells_more or not facts_told):
            notes.append(note)
    told = {note["uid"]: note["text"] for note in notes}
    facts = [fact for fact in facts if fact["text"] not in told.get(fact["uid"], "")]
    listed = facts + notes
    if kind == "family":
        listed = [r for r in listed if any(map(kin_of, words(r["text"])))]
    return sorted(listed, key=_sort_key, reverse=True)[:OVERVIEW_LINES]


def _is_fact(record: Record) -> bool:
    return str(record.get("id", "")).startswith("fact-")


def _tells(record: Record) -> bool:
    source = str(record.get("id", record["uid"])).partition("-")[0]
    is_stated = source == "fact" or bool(record.get("from_file"))
    return is_stated or (source != "summary" and is_note(record["text"], record.get("kind")))


def _is_of_another(text: str, question: str) -> bool:
    """Return True if a text is about another person than the question.

    That is another relative or another name; or, if the question is about the user, the person at
    the beginning of a note ("jakes size is 44", "у лёхи 45").
    """
    asked, forms = people_in(question), frozenset[str]().union(*content(text))
    named = {name for name in asked if any(_is_name_in(name[1:], w) for w in forms)}
    mentioned = people_in(text) | named
    if asked and mentioned:
        return _are_different(asked, mentioned)
    begin = reading_words.content_words(text)[:2]
    first = [word.text for word in begin]
    if asked or not first or not _is_own(question) or _is_own(text):
        return False
    is_whose = WHOSE.match(text) is not None
    if people_in(first[0]):
        # "с тарасом разошлись" is about the user
        is_beside = not is_whose and "PREP" in parts_of_speech(words(text)[0])
        return not is_beside and (is_whose or not ME_ALONE.isdisjoint(words(question.lower())))
    is_joined = not text[begin[0].end : begin[-1].start].strip()
    of_thing = [bool(shared(word, question)) for word in first] == [False, True]
    return is_whose and is_joined and of_thing


def _has_other_role(text: str, question: str) -> bool:
    """Return True if "i owe" is told and "owes me" is asked, or the other way round."""
    told: set[bool] = set()  # True for "i" beside a word of the question, False for "me"
    asked: set[bool] = set()
    for said, roles in ((text, told), (question, asked)):
        spoken = words(said.translate(FOLD).lower())
        pairs = [*pairwise(spoken), *pairwise(reversed(spoken))]
        beside = {one for one, verb in pairs if shared(verb, question)}
        roles.update(one in ME_ALONE for one in beside & (ME_ALONE | ME_GIVEN))
    return bool(told and asked) and told.isdisjoint(asked)


def _has_other_number(text: str, question: str) -> bool:
    """Return True if "chapter 3" is told and "chapter 5" is asked."""
    told, asked = (NUMBERED.findall(one.translate(FOLD)) for one in (text, question))
    numbers = {number for _, number in told}
    same = (number for thing, number in asked if any(shared(thing, other) for other, _ in told))
    return any(number not in numbers for number in same)


def _is_name_in(name: str, word: str) -> bool:
    """Return True if a word is a name or a diminutive of it: "тимурка"."""
    word, stem = word.lstrip("~"), name.rstrip("аеиоуяй") if len(name) > PET_STEM else name
    return word == name or (word.startswith(stem) and PET.fullmatch(word, len(stem)) is not None)


def _are_different(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return True if both have relatives, or names and nothing else, and none is the same.

    A relative may have any name.
    """
    if not one or not one.isdisjoint(other):
        return False
    signs, others = ({person[0] for person in people} for people in (one, other))
    if "@" not in signs & others and signs != others:
        return False
    return not any(may_be_same_name(a[1:], b[1:]) for a in one for b in other)


def _is_own(text: str) -> bool:
    """Return True if a text says "I" or "my", except in "my brother" and the like."""
    spoken = [*words(text.translate(FOLD).lower()), ""]
    me, owners = lexicon.words("lines.me"), lexicon.words("people.owners")
    if any(map(is_first_person_verb, spoken)):
        return True  # "где работаю"
    return any(w in me and not (w in owners and kin_of(after)) for w, after in pairwise(spoken))


def _closeness(record: Record, question: str) -> float:
    """Return the closeness of a record in meaning and words.

    A record without a score of its own (listed only, or in place of a result) is unrelated; one
    without a vector counts by its words, and so does a file, whose vector is of its beginning.
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
    is_enough = len(asked) >= ENOUGH or _asks_of_past(question)
    if share == 1 and is_enough:
        return 1.0
    similarity = float(record.get("similarity", 0))
    if record.get("from_file") or not similarity:
        return float(share > MIN_SHARE)
    return similarity + SHARED_WORDS * share


def _share(asked: Sequence[Lemmas], text: str) -> float:
    others = frozenset[str]().union(*content(text))
    if any(forms & others for forms in asked):
        others |= reading_words.answered_values(text)
    if not asked:
        return 0.0
    return sum(bool(forms & others) for forms in asked) / len(asked)


@lru_cache(maxsize=100)
def _asks_of_past(question: str) -> bool:
    return PAST.search(question.translate(FOLD)) is not None


@lru_cache(maxsize=100)
def _asked_words(question: str) -> list[Lemmas]:
    """Return the words of a question that an answer may contain; all if there are no others."""
    function_words = frozenset[str]().union(*map(lemmas, lexicon.words("lines.asking")))
    asked = PAST.sub(" ", END.sub("", question.translate(FOLD)))
    rest = [one for one in content(asked) if not one & function_words]
    return rest or list(content(question))


def asks_of_self(question: str) -> list[str]:
    """Return the relations that the user asks about themselves ("where do I live?"), as terms."""
    asked = []
    if _is_own(question):
        asked = asked_relations(question)
    return [term for term in asked if term in ANSWERS]


def _answers(text: str, question: str) -> bool:
    asked, folded = asks_of_self(question), text.translate(FOLD)
    answered = any(term in asked and one.search(folded) for term, one in ANSWERS.items())
    if SHOPPING.search(folded) is not None:
        answered = answered or ASKS_TO_BUY.search(question.translate(FOLD)) is not None
    return answered or (relation_term("name") in asked and _introduces(folded))


def covers(records: Found, question: str) -> bool:
    """Return True if the records contain every word of a question, or answer it about the user."""
    is_held = _share(_asked_words(question), " ".join(one["text"] for one in records)) == 1
    return is_held or any(_answers(one["text"], question) for one in records)


def _introduces(folded: str) -> bool:
    """Return True for "im tom": an unknown word that is no form of a verb.

    A certain name may have more text after it; another word only after a greeting and before a
    comma.
    """
    match = INTRODUCED.match(folded)
    word = rest = ""
    if match:
        word = words(match[0])[-1].lower()
        rest = folded[match.end() :].strip(" .!)")
    known = parts_of_speech(word)
    if known:
        return "Name" in known and (not rest or known.isdisjoint(reading_words.NO_NAME))
    is_apart = match is not None and bool(match["greeting"]) and rest.startswith(",")
    return bool(word) and stem_english(word) == word and (not rest or is_apart)


def _sort_key(record: Record) -> tuple[str, int]:
    """Return the time, and within a minute the message number, for sorting."""
    number = str(record["uid"]).rpartition("-")[2]
    return str(record["said_at"]), int(number) if number.isdigit() else 0
