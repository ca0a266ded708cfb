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
from src.language.morphology import best_parts, parts_of_speech, words
from src.language.sentences import FOLD, TAG, is_wish, sentences, told

MAX_FACTS = 12  # of one message
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
    r"мне|мені|меня|мене|нам|i|i'm|i've|i'd|i'll|we|we're|we've|my|our)(?![\w-])|"
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
BEGINNING = 4  # words of a clause among which its verb stands
ENGLISH_BEGINNING = re.compile(
    r"(?:(?:also|usually|often|now|always|never|can't|don't|do not|really)\s+)*"
    r"(?:live|work|love|like|hate|enjoy|have|play|drive|collect|study|speak|go|do|own|stand|"
    r"moved|bought|got|married|started|quit|sold)(?![\w-])",
    re.IGNORECASE,
)
# "Olga works as …", "Ben is …": an English name is followed by a verb of the third person.
THIRD_PERSON = re.compile(r"(?!this|is$)[a-z]{2,}s|is|has|was|will|can|does", re.IGNORECASE)
_NAME = r"(?P<object>(?!(?:не|not)\s)[^\W\d_][\w'-]*(?:\s+[A-ZА-ЯІЇЄҐ][\w'-]*)?)"
_OBJ = r"(?P<object>.+)"
_OLD = (
    r"(?:(?:сам|сама|теперь|сейчас|уже|снова|опять|тепер|зараз|знову|вже|now|currently|again|already|"
    r"still|just)\s+)*"
)
RELATIONS: tuple[tuple[str, int, re.Pattern[str]], ...] = tuple(
    (relation, importance, re.compile(pattern.replace("i'm", "i'?m"), re.IGNORECASE))
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
        rf"the\s+)?(?P<object>(?:[\w-]+\s+){{0,2}}(?:[^\W\d_]+(?:ист|истка|арь|ар|ер|ор|тель|ітель|вед|"
        r"знавець|лог|граф|тик|ник|ница|ниця|ач|вач|чик|щик|щица|ант|ент|[dtnrlkvhpcg]er|[dtsn]or|"
        r"ist|ian)|врач|лікар|юрист|повар|кухар|медсестра|няня|водій|швея|кравчиня|повариха|nurse|"
        r"chef|cook|lawyer|pilot|clerk|guard|judge|vet|paralegal|accountant|assistant|architect)"
        r"(?:\s+(?:в|во|на|у|с|з|по|at|in|for|with)\s.+)?)$"),
        ("works_as", 7, rf"{_OLD}я\s+(?:[—–-]\s*)?{_OLD}(?P<object>(?P<noun>[^\W\d_]+)\s+"
        r"(?:в|во|на|у)\s.+)$"),
        ("works_at", 7, rf"{_OLD}(?:я\s+|i\s+)?(?:работаю|працюю|work)\s+{_OLD}(?:в|во|на|у|at|"
        rf"for)\s+{_OBJ}"),
        ("studies_at", 7, rf"{_OLD}(?:я\s+|i\s+)?(?:учусь|обучаюсь|навчаюс[яь]|вчусь|study|"
        rf"studying)\s+{_OLD}(?:в|во|на|у|at)\s+{_OBJ}"),
        ("married_to", 8, rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:женат\w?|замужем|одружен\w+|"
        rf"заміжня|married)\s+(?:на|за|з|із|с|to)\s+{_OBJ}"),
        ("partner", 7, rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:встречаюсь|зустрічаюс[ья]|dating|"
            r"going\s+out|"
        rf"engaged|seeing)\s+(?:с|со|з|із|to|with)?\s*{_OBJ}"),
        ("works_as", 7, r"(?:по профессии|за професією|за фахом|by (?:trade|profession)),?\s+"
        r"(?:(?:я|i'm|i am|вообще-то|взагалі-то)\s+)*(?:an?\s+)?(?P<object>.+)"),
        ("works_as", 7, rf"{_OLD}(?:я\s+|i\s+)?{_OLD}(?:руковожу|заведую|управляю|преподаю|керую|"
        rf"завідую|викладаю|manage|run|teach)\s+{_OBJ}"),
        ("birthday", 8, r"(?:я\s+|i\s+)?(?:родил|народи|was\s+born\b)\w*\s+(?:я\s+)?"
        r"(?P<object>(?:.*\b)?(?:\d|январ|феврал|март|апрел|ма[яй]\b|июн|июл|август|сентябр|"
        r"октябр|ноябр|декабр|січ|лют|берез|квіт|трав|черв|лип|серп|верес|жовт|листопад|груд|"
        r"january|february|march|april|may\b|june|july|august|september|october|november|"
        r"december).*)"),
        ("born_in", 6, r"(?:я\s+|i\s+)?(?:родил|народи|was\s+born\b)\w*\s+(?:я\s+)?"
        r"(?:в|во|у|на|in|at)\s+(?P<object>\D+)"),
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
PIECE = re.compile(r"\s*[,;:.]\s+|\s+[—–-]\s+(?=я\s)")
MANY_VALUED = frozenset({"likes", "dislikes", "allergic_to"})
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
            wish = TAG.sub("", sentence).rstrip(".!… ")
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
    start = 0
    for cut in islice(CUT.finditer(statement), MAX_CUTS):
        head, tail = statement[start : cut.start()], statement[cut.end() :]
        if len(words(head)) >= 2 and _says(head) and _begins(tail, subject_of(head)):
            yield head.strip(" ,;—–-")
            start = cut.end()
    yield statement[start:].strip(" ,;—–-")


def read(clause: str) -> Statement:
    """A clause with the relation that the rules know, or as it stands."""
    subject = subject_of(clause)
    if subject != "user":
        importance = FAMILY if subject in KIN.values() else OTHER
        for relation, pattern in RELATIONS_OF_OTHERS:
            if (match := pattern.search(clause.translate(FOLD))) is not None:
                return Statement(
                    clause, subject, relation, _object(clause, match), "user_fact", importance
                )
        return Statement(clause, subject, importance=importance)
    for piece in _pieces(clause):
        for relation, importance, pattern in RELATIONS:
            if relation in MANY_VALUED and pattern.match(clause.translate(FOLD)):
                piece = clause  # "люблю чай, кофе и булочки"
            match = pattern.match(piece.translate(FOLD))
            if match is not None and _is_noun(match.groupdict().get("noun")):
                is_favourite = relation == "favourite"
                name = f"favourite_{match['thing'].lower()}" if is_favourite else relation
                kind = "preference" if relation in PREFERENCES else "user_fact"
                return Statement(clause, subject, name, _object(piece, match), kind, importance)
    return Statement(clause)


def _is_noun(word: str | None) -> bool:
    """Whether "я … в стартапе" names what somebody is; True where a pattern asks for no noun."""
    return word is None or best_parts(word) <= {"NOUN"}


def _pieces(clause: str) -> list[str]:
    """The clause, and what stands between its signs: "Переехали, теперь живём в Тюмени"."""
    parts = [part.strip() for part in PIECE.split(clause)]
    return list(dict.fromkeys(part for part in (*parts, clause) if part))


def _object(clause: str, match: re.Match[str]) -> str:
    """The object as written; the folded clause is as long as the clause."""
    return AFTERWARDS.sub("", clause[match.start("object") : match.end("object")].strip())


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
    if YOUNGEST.match(folded):
        return "child"
    for place, word in enumerate(found[:5]):
        role = kin_of(word)
        if role is not None and not _has_user_verb(found[:place]):
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
    return any(
        "VERB" in best_parts(word) and "1per" in parts_of_speech(word)
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
    if OWN_SUBJECT.match(folded):
        return True
    first = words(re.split(r"[,;:.]", tail, maxsplit=1)[0])[:BEGINNING]
    if not first or THIRD_PERSON_SUBJECT.match(folded):
        return False
    if kin_of(first[0]) is not None:
        return True
    if first[0].isascii():
        return ENGLISH_BEGINNING.match(folded) is not None and subject == "user"
    verbs = [parts_of_speech(word) for word in first if "VERB" in best_parts(word)]
    if any("1per" in parts for parts in verbs):
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
