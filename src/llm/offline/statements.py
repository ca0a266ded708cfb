"""From a message to facts in the user's own words, one for each clause that can stand alone.

Only relations of which one value holds at a time are recognised, since those replace each other;
everything else is kept as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from src.language.kin import KIN, kin_of
from src.language.morphology import best_part, parts_of_speech, words
from src.language.sentences import FOLD, is_wish, sentences, told
from src.texts import Language, detect_language

MAX_FACTS = 12  # of one message
MAX_CUTS = 24  # of one sentence that are looked at: each looks at what stands around it
CUT = re.compile(
    r"\s*[,;]\s*(?:(?:а|и|но|та|і|й|але|зато|and|but|so)\s+)?|\s+(?:а|и|но|та|і|й|але|and|"
    r"but)\s+|\s+[—–-]\s+(?=я\s)",
    re.IGNORECASE,
)
# Who may begin a clause of his own.
SUBJECT = re.compile(
    r"(?:(?:теперь|сейчас|уже|тепер|зараз|вже|now|потом|потім|then)\s+)?(?:(?:я|мы|ми|он[аи]?|"
    r"він|вон[аи]|мо[йяеиї]|моє|мої|мій|наш\w?|[ув] (?:меня|мене|нас|него|нее|них|нього|неї)|"
    r"мне|мені|меня|мене|его|ее|їх|його|її|нам|i|i'm|i've|i'd|we|we're|my|our|he|she|they|his|"
    r"her|it|it's|there)\b|"
    r"(?:зовут|звати|звуть)\b)",
    re.IGNORECASE,
)
_NAME = r"(?P<object>[^\W\d_][\w'-]*(?:\s+[A-ZА-ЯІЇЄҐ][\w'-]*)?)"
_OBJ = r"(?P<object>.+)"
_OLD = (
    r"(?:(?:теперь|сейчас|уже|снова|опять|тепер|зараз|знову|вже|now|currently|again|already|"
    r"still|just)\s+)*"
)
RELATIONS: tuple[tuple[str, int, re.Pattern[str]], ...] = tuple(
    (relation, importance, re.compile(pattern, re.IGNORECASE))
    for relation, importance, pattern in (
        ("name", 9, rf"(?:.*\b)?(?:зовут|звать|звати|звуть)\s+(?:меня\s+|мене\s+|"
        rf"не\s+\S+,?\s+а\s+)?{_NAME}$"),
        ("name", 9, rf"(?:меня|мене)\s+(?:зовут|звать|звати|звуть)\s+{_NAME}"),
        ("name", 9, rf"(?:моё|мое|моє|my)\s+(?:полное\s+|full\s+|first\s+)?(?:имя|ім'я|"
        rf"name)\s*(?:is|[—–:-])?\s*{_NAME}$"),
        ("name", 9, r"(?:я|i'm|i am|"
        r"my name's)\s+(?:[—–-]\s*)?"
        r"(?P<object>(?-i:[A-ZА-ЯІЇЄҐ][\w'-]+(?:\s+[A-ZА-ЯІЇЄҐ][\w'-]+)?))$"),
        ("age", 7, r"(?:мне|мені)\s+(?:уже\s+|вже\s+)?(?P<object>\d{1,3}\s*(?:лет|год\w*|рок\w*|"
        r"рік)?)$"),
        ("age", 7, r"(?:i'm|i am|i turned)\s+(?P<object>\d{1,3}(?:\s+years?(?:\s+old)?)?)$"),
        ("birthday", 8, r"(?:.*\b)?(?:день\s+рождения|день\s+народження|"
        r"birthday)(?:\s+(?:у\s+\S+|is|on|в))?\s*[—–:-]?\s*(?P<object>\d.+|[^\W\d_]+\s+\d.*)"),
        ("lives_in", 8, rf"{_OLD}(?:я\s+|мы\s+|ми\s+|i\s+|we\s+)?{_OLD}(?:i'm\s+)?(?:живу|живем|"
        rf"проживаю|мешкаю|мешкаємо|живемо|live|living|based)\s+{_OLD}"
         rf"(?:жить\s+)?(?:в|во|на|у|под|під|in|at|near)\s+{_OBJ}"),
        ("lives_in", 8, rf"{_OLD}(?:я\s+|мы\s+|ми\s+|i\s+|we\s+|i've\s+|"
        rf"we've\s+)?{_OLD}(?:(?:переехал|переїхал|переїхав|перебрал|вернул|повернул|"
        rf"повернув)\w*|moved|relocated)\s+"
         rf"(?:{_OLD})(?:жить\s+|жити\s+|back\s+)?(?:обратно\s+|назад\s+)?(?:из\s+\S+\s+|"
         rf"з\s+\S+\s+|from\s+\S+\s+)?(?:в|во|на|у|до|to)\s+{_OBJ}"),
        ("works_as", 7, rf"{_OLD}(?:я\s+)?{_OLD}(?:работаю|тружусь|"
        rf"працюю)\s+{_OLD}(?P<object>[^\W\d_]{{3,}}(?:ом|ем|ой|ей|ою|ею|єю|ым|им|ком|арем|ером|"
        rf"ором|истом|ним)\b.*)"),
        ("works_as", 7, rf"{_OLD}(?:i\s+|i'm\s+|i am\s+){_OLD}(?:working\s+|"
        rf"work\s+)as\s+(?:an?\s+)?{_OBJ}"),
        ("works_as", 7, rf"{_OLD}(?:я|i'm|i am)\s+(?:[—–-]\s*)?{_OLD}(?:an?\s+|"
        rf"the\s+)?(?P<object>(?:\w+\s+)?(?:\w+(?:ист|истка|арь|ар|ер|ор|тель|ітель|вед|знавець|"
        rf"лог|граф|ник|ница|ниця|ач|вач|чик|щик|щица|"
         r"ант|ент|врач|лікар|юрист|повар|кухар|таксист|учитель|медсестра|няня|водій|"
         r"(?:[dtnrlkvhp]er|[dtsn]or|ist)|nurse|chef|cook|lawyer|pilot|clerk|guard|judge|vet|"
         r"doctor|teacher)))$"),
        ("works_at", 7, rf"{_OLD}(?:я\s+|i\s+)?(?:работаю|працюю|work)\s+{_OLD}(?:в|во|на|у|at|"
        rf"for)\s+{_OBJ}"),
        ("studies_at", 7, rf"{_OLD}(?:я\s+|i\s+)?(?:учусь|обучаюсь|навчаюс[яь]|вчусь|study|"
        rf"studying)\s+{_OLD}(?:в|во|на|у|at)\s+{_OBJ}"),
        ("married_to", 8, rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:женат\w?|замужем|одружен\w+|"
        rf"заміжня|married)\s+(?:на|за|з|із|с|to)\s+{_OBJ}"),
        ("partner", 7, rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:встречаюсь|зустрічаюс[ья]|dating|"
        rf"engaged|seeing)\s+(?:с|со|з|із|to|with)?\s*{_OBJ}"),
        ("height", 5, r"(?:мой|мій|my)\s+(?:рост|зріст|height)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>\d.*)"),
        ("weight", 5, r"(?:мой|моя|my)\s+(?:вес|вага|weight)\s*(?:is|[—–:-])?\s*(?P<object>\d.*)"),
        ("shoe_size", 5, r"(?:мой|мій|my)\s+(?:размер\s+(?:обуви|ноги)|розмір\s+(?:взуття|ноги)|"
        r"shoe\s+size)\s*(?:is|[—–:-])?\s*(?P<object>\d.*)"),
        ("address", 7, r"(?:мой|моя|my)\s+(?:адрес\w?|home\s+address|address)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>.+)"),
        ("phone", 7, r"(?:мой|мій|my)\s+(?:номер(?:\s+телефон[ау])?|телефон|phone(?:\s+number)?|"
        r"number)\s*(?:is|[—–:-])?\s*(?P<object>\+?\d.+)"),
        ("email", 7, r"(?:мо[йяє]|мій|my)\s+(?:e-?mail|имейл|пошта|почта)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>\S+@\S+)"),
        ("car", 5, r"(?:моя|my)\s+(?:машина|автівка|car)\s*(?:is|"
        r"[—–:-])?\s*(?:an?\s+)?(?P<object>.+)"),
        ("diet", 7, r"(?:я|i'm|i am)\s+(?:[—–-]\s*)?(?:an?\s+)?(?P<object>(?:веган|вегетариан|"
        r"вегетаріан|vegan|vegetarian|pescatarian)\w*)$"),
        ("favourite", 5, r"(?:мо[йяеиї]|моє|мій|my)\s+(?:сам\w+\s+|най\s*)?(?:любим\w+|"
        r"улюблен\w+|favou?rite)\s+(?P<thing>[^\W\d_]+)\s*(?:[—–:-]|is|are|це|"
        r"это)?\s*(?P<object>.+)"),
        ("likes", 5, r"(?:я\s+|i\s+)?(?:очень\s+|дуже\s+|really\s+)?(?:люблю|обожаю|обожнюю|"
        r"полюбляю|love|like|enjoy|adore)\s+(?P<object>.+)"),
        ("dislikes", 5, r"(?:я\s+|i\s+)?(?:ненавижу|не\s+люблю|терпеть\s+не\s+могу|разлюбил\w?|"
        r"розлюби\w+|hate|dislike|can't\s+stand|don't\s+like)\s+(?P<object>.+)"),
        ("allergic_to", 9, r".*\b(?:аллерги[яию]|алергі[яїю]|allerg\w+)\s+(?:на|"
        r"to)\s+(?P<object>.+)"),
    )
)  # fmt: skip
# Of others: their home and work, wherever in the clause the verb stands.
RELATIONS_OF_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (relation, re.compile(pattern, re.IGNORECASE))
    for relation, pattern in (
        ("name", rf"\b(?:зовут|звать|звати|звуть|called|named|name is)\s+{_NAME}"),
        ("birthday", r"\b(?:день\s+рождения|день\s+народження|birthday)\s*(?:is|on|"
        r"[—–:-])?\s*(?P<object>.*\d.*)"),
        ("lives_in", r"\b(?:жив[её]т|живут|живе|живуть|мешкає|мешкають|lives?|(?:переехал|"
        r"переїха)\w+|moved)\s+"
         rf"(?:в|во|на|у|под|під|до|in|to|at|near)\s+{_OBJ}"),
        ("works_as", r"\b(?:работает|працює|"
        r"works)\s+(?:as\s+(?:an?\s+)?)?(?P<object>[^\W\d_]{3,}(?:ом|ем|ой|ей|ою|ею|ым|"
        r"им)\b.*)"),
        ("works_at", rf"\b(?:работает|працює|works)\s+(?:в|во|на|у|at|for)\s+{_OBJ}"),
        ("allergic_to", r"\b(?:аллерги[яию]|алергі[яїю]|allerg\w+)\s+(?:на|to)\s+(?P<object>.+)"),
    )
)  # fmt: skip
# What follows an object and is no part of it: "… last week", "… в прошлом году".
AFTERWARDS = re.compile(
    r"\s+(?:теперь|сейчас|тоже|тепер|зараз|теж|now|too|already|уже|вже|last \w+|this \w+|"
    r"\w+ \w+ ago|"
    r"(?:в|у) (?:прошл|эт|минул|цьо)\w* \w+|(?:in )?(?:spring|summer|autumn|winter)|весной|"
    r"летом|осенью|зимой|"
    r"навесні|влітку|восени|взимку|вчера|недавно|нещодавно|вчора|yesterday|recently)$",
    re.IGNORECASE,
)
POSSESSIVE = re.compile(r"мо[юиейяё]\w*|мій|наш\w*", re.IGNORECASE)
PREFERENCES = frozenset({"likes", "dislikes", "favourite", "diet"})
FAMILY = 8  # importance of what is told of kin
OTHER = 5


@dataclass(frozen=True)
class Statement:
    """One thing that the user told; ``text`` is an exact piece of his message."""

    text: str
    subject: str = "user"
    relation: str = "other"
    object: str = ""
    memory_type: str = "user_fact"
    importance: int = OTHER

    def arguments(self) -> dict[str, str | int]:
        """As ``save_user_fact`` and the forms of facts take it."""
        return {
            "text": self.text,
            "quote": self.text,
            "memory_type": self.memory_type,
            "importance": self.importance,
            "subject": self.subject,
            "relation": self.relation,
            "object": self.object or self.text,
        }


def statements(text: str) -> list[Statement]:
    """What a message tells, in its order; at most MAX_FACTS."""
    found: list[Statement] = []
    for sentence in sentences(text):
        if is_wish(sentence):
            wish = sentence.rstrip(".!… ")
            found.append(Statement(wish, relation="wish", memory_type="preference", importance=8))
            continue
        what = told(sentence)
        if what is not None:
            found += [read(clause) for clause in clauses(what[0])]
        if len(found) >= MAX_FACTS:
            break
    return found[:MAX_FACTS]


def clauses(statement: str) -> Iterator[str]:
    """The clauses of a sentence that can stand alone; the rest stays with the one before it."""
    language = detect_language(statement)
    start = 0
    for cut in islice(CUT.finditer(statement), MAX_CUTS):
        head, tail = statement[start : cut.start()], statement[cut.end() :]
        if len(words(head)) >= 2 and _stands_alone(head, language) and _begins(tail, language):
            yield head.strip(" ,;—–-")
            start = cut.end()
    yield statement[start:].strip(" ,;—–-")


def read(clause: str) -> Statement:
    """A clause with the relation that the rules know, or as it stands."""
    bare = clause.translate(FOLD)
    subject = subject_of(clause)
    if subject != "user":
        importance = FAMILY if subject in KIN.values() else OTHER
        for relation, pattern in RELATIONS_OF_OTHERS:
            if (match := pattern.search(bare)) is not None:
                return Statement(
                    clause, subject, relation, _object(clause, match), "user_fact", importance
                )
        return Statement(clause, subject, importance=importance)
    for relation, importance, pattern in RELATIONS:
        if (match := pattern.match(bare)) is not None:
            name = f"favourite_{match['thing'].lower()}" if relation == "favourite" else relation
            kind = "preference" if relation in PREFERENCES else "user_fact"
            return Statement(clause, subject, name, _object(clause, match), kind, importance)
    return Statement(clause)


def _object(clause: str, match: re.Match[str]) -> str:
    """The object as written; the folded clause is as long as the clause."""
    return AFTERWARDS.sub("", clause[match.start("object") : match.end("object")].strip())


def subject_of(clause: str) -> str:
    """Whom a clause is about: ``user``, a role such as ``brother``, or a name in lower case.

    "My brother …", "у моей сестры …" and "Олег живёт …" are of others; "мой адрес" is the user's.
    """
    language: Language = detect_language(clause)
    found = words(clause)
    for place, word in enumerate(found[:5]):
        role = kin_of(word, language)
        if role is not None and not _has_user_verb(found[:place], language):
            return role
    first = found[0] if found else ""
    if first[:1].isupper() and len(found) > 1 and SUBJECT.match(clause.translate(FOLD)) is None:
        parts = parts_of_speech(first, language)
        known = parts & {"Name", "Surn", "Patr"} or (language != "en" and not parts)
        if known and "1per" not in parts:
            return first.lower()
    return "user"


def _has_user_verb(before: list[str], language: Language) -> bool:
    """Whether "I" and a verb stand before a role: "я люблю сестру" is about the user."""
    lower = [word.lower() for word in before]
    if {"i", "i'm", "i've", "we"} & set(lower) and len(lower) > 1:
        return True
    return any(
        best_part(word, language) == "VERB" and "1per" in parts_of_speech(word, language)
        for word in before
        if POSSESSIVE.fullmatch(word) is None
    )


def _begins(tail: str, language: Language) -> bool:
    """Whether a clause of its own begins here."""
    if SUBJECT.match(tail.translate(FOLD)):
        return True
    first = words(tail)[:3]
    if not first:
        return False
    if kin_of(first[0], language) is not None and len(words(tail)) > 1:
        return True
    if language == "en":
        return first[0].lower() in {"live", "lives", "work", "works", "love", "hate", "have"}
    after = (
        first[1:2]
        if first[0].lower() in {"не", "очень", "дуже", "теперь", "тепер", "уже"}
        else first
    )
    return bool(after) and _is_verb(after[0], language)


def _stands_alone(head: str, language: Language) -> bool:
    """Whether what stands before a cut says something by itself."""
    found = words(head)
    if language == "en":
        return SUBJECT.match(head.translate(FOLD)) is not None or len(found) > 2
    has_verb = any(_is_verb(word, language) for word in found)
    return has_verb or SUBJECT.match(head.translate(FOLD)) is not None


def _is_verb(word: str, language: Language) -> bool:
    parts = parts_of_speech(word, language)
    return best_part(word, language) == "VERB" and bool({"1per", "3per", "past"} & parts)
