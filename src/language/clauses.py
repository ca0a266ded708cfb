"""The clauses of a sentence that can stand alone, and whom each is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from src.language.kin import kin_of
from src.language.morphology import best_parts, parts_of_speech, words
from src.language.relation_statements import INTRODUCTION, is_part_of_introduction
from src.language.sentences import FOLD

MAX_CUTS = 24  # of one sentence that are looked at: each looks at what stands around it
CUT = re.compile(
    r"\s*[,;]\s*(?:(?:а|и|но|та|і|й|але|зато|and|but|so)\s+)?(?:(?:еще|ещё|ще|также|також|also)"
    r"\s+)?|\s+(?:а|и|но|та|і|й|але|and|but)\s+(?:(?:еще|ещё|ще|также|також|also)\s+)?"
    r"|\s+[—–-]\s+(?=я\s)|:\s+(?=(?:теперь|тепер|now)\s)",
    re.IGNORECASE,
)
# Who may begin a clause of his own; "he" and "it" need what stands before.
OWN_SUBJECT = re.compile(
    r"(?:(?:теперь|сейчас|уже|тепер|зараз|вже|now|потом|потім|then|also|i also)\s+)?"
    r"(?:(?:я|мы|ми|мо[йяеиїю]|моє|мої|моего|моей|мій|наш\w*|[ув] (?:меня|мене|нас)|"
    r"мне|мені|меня|мене|нам|i|i'?m|i'?ve|i'd|i'll|we|we're|we've|my|our)(?![\w-])|"
    r"(?:зовут|звати|звуть)\b)",
    re.IGNORECASE,
)
# "We with the kids go …" is about the user, "my brother …" is not.
NOMINATIVE = re.compile(
    r"(?:(?:теперь|сейчас|тепер|зараз|now|also)\s+)?(?:я|мы|ми|i|i'?m|i'?ve|i'd|i'll|we|we're|we've)"
    r"(?![\w-])",
    re.IGNORECASE,
)
# "The doctor says I'm …" is about the user.
REPORTED = re.compile(
    r"(?:[\w'-]+\s+){1,3}(?:says?|said|told|thinks|сказал\w?|говорит|каже|сказав|сказала)\s+"
    r"(?:me\s+|мне\s+|мені\s+)?(?:что\s+|що\s+|that\s+)?(?:i|i'm|я|у меня|у мене)(?![\w-])",
    re.IGNORECASE,
)
# "My importer lives in Osaka", "мой научник живёт …": of mine, and not me.
OF_MINE = re.compile(
    r"(?:my|our|мо[йяеё]|моє|мій|наш\w?)\s+(?:[\w'-]+\s+)?([\w'-]+)\s+(?:lives?|works?|studies|"
    r"moved|жив[её]т|работает|учится|переехал\w*|живе|мешкає|працює|вчиться|навчається|переїха\w+)"
    r"(?![\w-])",
    re.IGNORECASE,
)
FUNCTION_WORDS = frozenset({"PREP", "CONJ", "PRCL", "NPRO", "ADVB", "INTJ", "NUMR"})
# "Нашей младшей, Алисе, …" is a child; "мой младший брат" is not.
YOUNGEST = re.compile(
    r"(?:у\s+)?(?:наш|мо)\w+\s+(?:младш|старш|молодш|мал)\w+(?:\s*[,—-]\s*|\s+(?-i:[А-ЯІЇЄҐA-Z]))",
    re.IGNORECASE,
)
THIRD_PERSON_SUBJECT = re.compile(
    r"(?:он[аои]?|він|вон[аои]|[еє]го|е[её]|их|їх|його|її|[ув] (?:него|нее|них|нього|неї)|там|"
    r"this|that|it|it's|he|she|they|his|her|their|there|which|who)(?![\w-])",
    re.IGNORECASE,
)
# "…, I see her on Thursdays": whom?
PRONOUN_OBJECT = re.compile(
    r"(?<![\w-])(?:her|him|them|it|there|ней|ним|ними|нему|нее|него|неї|нього|нею|її|їх|ему|її|там)"
    r"(?![\w-])",
    re.IGNORECASE,
)
# "…, замужем за Денисом", "…, есть сын": a predicate that needs no subject.
PREDICATE = re.compile(
    r"(?:замужем|женат\w?|разведен\w?|заміжня|одружен\w+|розлучен\w+|есть|є|"
    r"married|divorced|single)(?![\w-])",
    re.IGNORECASE,
)
# "…, and the firewood is behind the shed": a subject with its verb.
ENGLISH_CLAUSE = re.compile(
    r"(?:the|a|an|his|her|their)\s+(?:[\w'-]+\s+){1,2}(?:is|are|was|were|has|have|lives?|works?)"
    r"(?![\w'-])",
    re.IGNORECASE,
)
# "Anna's birthday …", "у Анны …", "день рождения Анны": of whoever is named.
OF_NAMED = re.compile(
    r"(?-i:([A-Z][\w-]+))'s\s+(?!(?:a|an|the|not|been|got|in|at|from)\b)\w"
    r"|[ув]\s+(?-i:([А-ЯІЇЄҐ][\w'-]+))"
    r"|(?:день\s+рождения|день\s+народження|адрес\w?|телефон|номер\s+телефон[ау])\s+"
    r"(?:у\s+)?(?-i:([А-ЯІЇЄҐ][\w'-]+))",
    re.IGNORECASE,
)
# "An allergy to cats", "подарок для мамы": of whoever has it.
OBJECT_PREPOSITIONS = frozenset(
    {"на", "от", "для", "про", "без", "к", "від", "щодо", "до", "to", "for", "about", "without"}
)
THIRD = "somebody"  # whom "её зовут Рекс" is about, when nobody stands before it
BEGINNING = 4  # words of a clause among which its verb stands
ENGLISH_BEGINNING = re.compile(
    r"(?:(?:also|usually|often|now|always|never|can't|don't|do not|really)\s+)*"
    r"(?:live|work|love|like|hate|enjoy|have|play|drive|collect|study|speak|go|do|own|stand|"
    r"moved|bought|got|married|started|quit|sold)(?![\w-])",
    re.IGNORECASE,
)
# "Olga works as …", "Ben is …": an English name is followed by a verb of the third person.
THIRD_PERSON = re.compile(r"(?!this|is$)[a-z]{2,}s|is|has|was|will|can|does", re.IGNORECASE)
POSSESSIVE = re.compile(r"мо[юиейяё]\w*|мій|наш\w*", re.IGNORECASE)


def clauses(statement: str) -> Iterator[str]:
    """The clauses of a sentence that can stand alone; the rest stays with the one before it."""
    start = 0
    for cut in islice(CUT.finditer(statement), MAX_CUTS):
        head, tail = statement[start : cut.start()], statement[cut.end() :]
        is_introduced = _goes_on_introducing(statement[: cut.start()], tail)
        says = len(words(head)) >= 2 and _says(head)
        if is_introduced or (says and _begins(tail, subject_of(head))):
            yield head.strip(" ,;—–-")
            start = cut.end()
    yield statement[start:].strip(" ,;—–-")


def _goes_on_introducing(before: str, tail: str) -> bool:
    """Whether "I'm Tom, 29" goes on with "electrician from Cardiff"."""
    first, *others = (part.strip() for part in before.split(","))
    following = re.split(r"[,;.]", tail, maxsplit=1)[0].strip()
    return (
        INTRODUCTION.fullmatch(first.translate(FOLD)) is not None
        and all(map(is_part_of_introduction, others))
        and is_part_of_introduction(following)
    )


def subject_of(clause: str) -> str:
    """Whom a clause is about: ``user``, a role such as ``brother``, or a name in lower case.

    "My brother …", "у моей сестры …" and "Олег живёт …" are of others; "мой адрес" is the user's.
    """
    found = words(clause)
    folded = clause.translate(FOLD)
    if NOMINATIVE.match(folded) or REPORTED.match(folded):
        return "user"
    other = OF_MINE.match(folded)
    if other is not None and not any(map(kin_of, words(other[0]))):
        return other[1].lower()
    if THIRD_PERSON_SUBJECT.match(folded):
        return THIRD
    named = OF_NAMED.match(clause.translate(FOLD))
    if named is not None and not any(map(kin_of, words(named[0]))):
        return str(next(filter(None, named.groups()))).lower()
    if YOUNGEST.match(folded):
        return "child"
    for place, word in enumerate(found[:5]):
        role = kin_of(word)
        is_object = place > 0 and found[place - 1].lower() in OBJECT_PREPOSITIONS
        if role is not None and not is_object and not _has_user_verb(found[:place]):
            return role
    is_named = len(found) > 1 and OWN_SUBJECT.match(folded) is None and _is_name(found)
    return found[0].lower() if is_named else "user"


def _is_name(found: list[str]) -> bool:
    """Whether the first of some words names somebody of whom the others tell."""
    first = found[0]
    if not first[:1].isupper() or best_parts(first) & FUNCTION_WORDS:
        return False
    if first.isascii():
        return THIRD_PERSON.fullmatch(found[1]) is not None and "I" not in found
    parts = parts_of_speech(first)
    is_known = bool(parts & {"Name", "Surn", "Patr"}) and bool(parts & {"nomn", "datv"})
    is_name = not parts or is_known
    return is_name and "1per" not in parts and not any(map(_is_own_verb, found[1:]))


def _has_user_verb(before: list[str]) -> bool:
    """Whether "I" and a verb stand before a role: "я люблю сестру" is about the user."""
    lower = [word.lower() for word in before]
    if {"i", "i'm", "i've", "we"} & set(lower) and len(lower) > 1:
        return True
    if {"я", "мы", "ми"} & set(lower):
        return True
    return any(
        "VERB" in best_parts(word) and bool({"1per", "past"} & parts_of_speech(word))
        for word in before
        if POSSESSIVE.fullmatch(word) is None
    )


def _begins(tail: str, subject: str) -> bool:
    """Whether a clause begins here that needs nothing of what stands before it.

    "…, она из приюта" and "…, работает там гидом" do: nobody knows who, without the rest.
    """
    folded = tail.translate(FOLD)
    if len(words(tail)) < 2 or PRONOUN_OBJECT.search(re.split(r"[,;:.]", folded, maxsplit=1)[0]):
        return False
    if OWN_SUBJECT.match(folded) or (PREDICATE.match(folded) and subject == "user"):
        return True
    first = words(re.split(r"[,;:.]", tail, maxsplit=1)[0])[:BEGINNING]
    if not first or THIRD_PERSON_SUBJECT.match(folded):
        return False
    if kin_of(first[0]) is not None:
        return True
    if first[0].isascii():
        is_own = ENGLISH_BEGINNING.match(folded) is not None and subject == "user"
        return is_own or ENGLISH_CLAUSE.match(folded) is not None
    verbs = [parts_of_speech(word) for word in first if "VERB" in best_parts(word)]
    if {"я", "мы", "ми"} & set(map(str.lower, first)) or any("1per" in v for v in verbs):
        return True
    return subject == "user" and bool(verbs) and "past" in verbs[0] and "3per" not in verbs[0]


def _says(head: str) -> bool:
    """Whether what stands before a cut says something by itself."""
    found = words(head)
    if found and found[0].isascii():
        return OWN_SUBJECT.match(head.translate(FOLD)) is not None or len(found) > 2
    return OWN_SUBJECT.match(head.translate(FOLD)) is not None or any(map(_is_verb, found))


def _is_own_verb(word: str) -> bool:
    return "VERB" in best_parts(word) and "1per" in parts_of_speech(word)


def _is_verb(word: str) -> bool:
    parts = parts_of_speech(word)
    return "VERB" in best_parts(word) and bool({"1per", "3per", "past"} & parts)
