"""From a message to facts in the user's own words: clauses that stand alone, and relations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from src.reading.facts import WISH, Fact
from src.reading.relations import BY_NAME
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.sentences import FOLD, MAX_SENTENCE, TAG, is_wish, sentences, told
from src.reading.words import kin, kin_of
from src.texts.morphology import best_parts, parts_of_speech, words
from src.texts.plain_text import CUT

# How relations are told, in three languages: expressions for clauses, in the order of trial.
#
# A relation that the table holds is read from a clause of the user about himself, or, more rarely,
# from one about another person.

_NAME = r"(?P<object>(?!(?:не|not)\s)[^\W\d_][\w'-]*(?:\s+[A-ZА-ЯІЇЄҐ][\w'-]*)?)"
_OBJ = r"(?P<object>.+)"
_COMPARED = (  # ends as a profession does and is none: "I'm older"
    r"(?:\w+\s+)?(?:old|young|tall|bett|happi|healthi|strong|thinn|small|bigg|late|earli|nev|ev|ov|"
    r"und|sob|eag|oth|bitt|clev|tend|quiet|busi|brav|smart|fast|slow|sur)er(?![\w-])"
)
_PROFESSION = (
    r"(?P<object>(?:[\w-]+\s+){0,2}(?:[^\W\d_]+(?:ист|истка|арь|ар|ер|ор|тель|ітель|вед|знавець|лог|"
    r"граф|тик|ник|нік|ница|ниця|ач|вач|чик|щик|щица|ант|ент|[dtnrlkvhpcgmbyi]er|eer|[dtsn]or|ress|"
    r"geon|ist|ian)|врач|лікар|юрист|повар|кухар|медсестра|няня|водій|швея|кравчиня|повариха|"
    r"nurse|chef|cook|lawyer|pilot|clerk|guard|judge|vet|paralegal|accountant|assistant|architect)"
    r"(?:\s+(?:в|во|на|у|с|з|із|из|по|at|in|for|with|from)\s.+)?)"
)
_BRANDS = (
    r"тойот\w*|лад\w{1,2}|рено|ниссан\w*|хонд\w*|мазд\w*|форд\w*|опел\w*|шкод\w*|"
    r"фольксваген\w*|бмв|мерседес\w*|ауди|ауді|киа|кіа|хендай|хюндай|хундай|вольво|пежо|"
    r"ситроен|сітроен|субару|сузуки|сузукі|лексус\w*|дачи[ая]|дачі[яїю]|жигул\w*|тесл\w*|"
    r"toyota|renault|nissan|honda|mazda|ford|opel|vauxhall|skoda|škoda|volkswagen|vw|bmw|"
    r"mercedes|audi|kia|hyundai|volvo|peugeot|citro[eë]n|subaru|suzuki|lexus|dacia|fiat|tesla|"
    r"jeep|chevrolet|seat"
)
_OLD = (
    r"(?:(?:сам|сама|теперь|сейчас|уже|снова|опять|тепер|зараз|знову|вже|now|currently|again|already|"
    r"still|just|недавно|нещодавно|recently|вчера|вчора|yesterday|весной|летом|осенью|зимой|навесні|"
    r"влітку|восени|взимку|finally|наконец|нарешті|"
    r"(?:в|во|у|на|in|last|this|прошл\w+|минул\w+|эт\w+|ц\w+)\s+(?:прошл\w+\s+|минул\w+\s+|"
    r"эт\w+\s+|ц\w+\s+)?(?:январе|феврале|марте|апреле|мае|июне|июле|августе|сентябре|октябре|"
    r"ноябре|декабре|січні|лютому|березні|квітні|травні|червні|липні|серпні|вересні|жовтні|"
    r"листопаді|грудні|january|february|march|april|may|june|july|august|september|october|"
    r"november|december|год[уа]|році|месяц[еа]|місяц[іь]|недел[еию]|тижн[яі]|весн\w+|осен\w+|"
    r"week|month|year|spring|summer|autumn|winter|monday|tuesday|wednesday|thursday|friday|"
    r"saturday|sunday))\s+)*"
)
OF_HIMSELF: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (relation, re.compile(pattern.replace("i'm", "i'?m"), re.IGNORECASE))
    for relation, pattern in (
        ("allergic_to", r".*\b(?:аллерги[яию]|аллергик\w*|алергі[яїю]|алергік\w*|allerg\w+)\s+"
        r"(?:на|to)\s+(?P<object>.+)"),
        ("name", rf"(?:.*\b)?(?:зовут|звать|звати|звуть)\s+(?:меня\s+|мене\s+|"
        rf"не\s+\S+,?\s+а\s+)?{_NAME}$"),
        ("name", rf"(?:меня|мене)\s+(?:зовут|звать|звати|звуть)\s+{_NAME}"),
        ("name", rf"(?:моё|мое|моє|my)\s+(?:полное\s+|full\s+|first\s+)?(?:имя|ім'я|"
        rf"name)\s*(?:is|[—–:-])?\s*{_NAME}$"),
        ("name", r"(?:я|i'm|i am|my name's)\s+(?:[—–-]\s*)?"
        r"(?P<object>(?-i:[A-ZА-ЯІЇЄҐ][\w'-]+(?:\s+[A-ZА-ЯІЇЄҐ][\w'-]+)?))$"),
        ("age", r"(?:мне|мені)\s+(?:уже\s+|вже\s+)?(?P<object>\d{1,3}\s*(?:лет|год\w*|рок\w*|"
        r"рік)?)$"),
        ("age", r"(?:i'm|i am|i turned)\s+(?P<object>\d{1,3}(?:\s+years?(?:\s+old)?)?)$"),
        ("birthday", r"(?:.*\b)?(?:день\s+рождения|день\s+народження|"
        r"birthday)(?:\s+(?:у\s+\S+|is|on|в))?\s*[—–:-]?\s*(?P<object>\d.+|[^\W\d_]+\s+\d.*)"),
        ("lives_in", rf"{_OLD}(?:я\s+|мы\s+|ми\s+|i\s+|we\s+)?{_OLD}(?:i'm\s+)?(?:живу|живем|"
        rf"проживаю|мешкаю|мешкаємо|живемо|live|living|based)\s+{_OLD}"
         rf"(?:жить\s+)?(?:в|во|на|у|под|під|in|at|near)\s+{_OBJ}"),
        ("lives_in", rf"{_OLD}(?:я\s+|мы\s+|ми\s+|i\s+|we\s+|i've\s+|"
        rf"we've\s+)?{_OLD}(?:(?:переехал|переїхал|переїхав|перебрал|вернул|повернул|"
        rf"повернув)\w*|moved|relocated)\s+"
         rf"(?:{_OLD})(?:жить\s+|жити\s+|back\s+)?(?:обратно\s+|назад\s+)?(?:из\s+\S+\s+|"
         rf"з\s+\S+\s+|from\s+\S+\s+)?(?:в|во|на|у|до|to)\s+{_OBJ}"),
        ("works_as", rf"{_OLD}(?:я\s+)?{_OLD}(?:работаю|тружусь|"
        rf"працюю)\s+{_OLD}(?P<object>[^\W\d_]{{3,}}(?:ом|ем|ой|ей|ою|ею|єю|ым|им|ком|арем|ером|"
        rf"ором|истом|ним)\b.*)"),
        ("works_as", rf"{_OLD}(?:i\s+|i'm\s+|i am\s+){_OLD}(?:working\s+|"
        rf"work\s+)as\s+(?:an?\s+)?{_OBJ}"),
        ("works_as", rf"{_OLD}(?:я|i'm|i am)\s+(?:[—–-]\s*)?{_OLD}(?:an?\s+|"
        rf"the\s+)?(?!{_COMPARED}){_PROFESSION}$"),
        ("works_as", rf"{_OLD}я\s+(?:[—–-]\s*)?{_OLD}(?P<object>(?P<noun>[^\W\d_]+)\s+"
        r"(?:в|во|на|у)\s.+)$"),
        ("works_at", rf"{_OLD}(?:я\s+|i\s+)?(?:работаю|працюю|work)\s+{_OLD}(?:в|во|на|у|at|"
        rf"for)\s+{_OBJ}"),
        ("studies_at", rf"{_OLD}(?:я\s+|i\s+)?(?:учусь|обучаюсь|навчаюс[яь]|вчусь|study|"
        rf"studying)\s+{_OLD}(?:в|во|на|у|at)\s+{_OBJ}"),
        ("married_to", rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:женат\w?|замужем|одружен\w+|"
        rf"заміжня|married)\s+(?:на|за|з|із|с|to)\s+{_OBJ}"),
        ("partner", rf"(?:я\s+|i'm\s+|i am\s+)?{_OLD}(?:встречаюсь|зустрічаюс[ья]|dating|"
            r"going\s+out|"
        rf"engaged|seeing)\s+(?:с|со|з|із|to|with)?\s*{_OBJ}"),
        ("works_as", r"(?:по профессии|за професією|за фахом|by (?:trade|profession)),?\s+"
        r"(?:(?:я|i'm|i am|вообще-то|взагалі-то)\s+)*(?:an?\s+)?(?P<object>.+)"),
        ("works_as", rf"{_OLD}(?:я\s+|i\s+)?{_OLD}(?:руковожу|заведую|управляю|преподаю|керую|"
        rf"завідую|викладаю|manage|run|teach)\s+{_OBJ}"),
        ("birthday", r"(?:я\s+|i\s+)?(?:родил|народи|was\s+born\b)\w*\s+(?:я\s+)?"
        r"(?P<object>(?:.*\b)?(?:\d|январ|феврал|март|апрел|ма[яй]\b|июн|июл|август|сентябр|"
        r"октябр|ноябр|декабр|січ|лют|берез|квіт|трав|черв|лип|серп|верес|жовт|листопад|груд|"
        r"january|february|march|april|may\b|june|july|august|september|october|november|"
        r"december).*)"),
        ("born_in", r"(?:я\s+|i\s+)?(?:родил|народи|was\s+born\b)\w*\s+(?:я\s+)?"
        r"(?:в|во|у|на|in|at)\s+(?P<object>\D+)"),
        ("height", r"(?:мой|мій|my)\s+(?:рост|зріст|height)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>\d.*)"),
        ("weight", r"(?:мой|моя|my)\s+(?:вес|вага|weight)\s*(?:is|[—–:-])?\s*(?P<object>\d.*)"),
        ("shoe_size", r"(?:мой|мій|my)\s+(?:размер\s+(?:обуви|ноги)|розмір\s+(?:взуття|ноги)|"
        r"shoe\s+size)\s*(?:is|[—–:-])?\s*(?P<object>\d.*)"),
        ("address", r"(?:мой|моя|my)\s+(?:адрес\w?|home\s+address|address)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>.+)"),
        ("phone", r"(?:мой|мій|my)\s+(?:номер(?:\s+телефон[ау])?|телефон|phone(?:\s+number)?|"
        r"number)\s*(?:is|[—–:-])?\s*(?P<object>\+?\d.+)"),
        ("email", r"(?:мо[йяє]|мій|my)\s+(?:e-?mail|имейл|пошта|почта)\s*(?:is|"
        r"[—–:-])?\s*(?P<object>\S+@\S+)"),
        ("car", r"(?:моя|my)\s+(?:машина|автівка|car)\s*(?:is|"
        r"[—–:-])?\s*(?:an?\s+)?(?P<object>.+)"),
        ("car", rf"(?:я|ми|мы|i|we)?\s*(?:езжу|їжджу|вожу|drive|own|have|bought|"
        rf"купил\w?|купи(?:в|ла)|"
        rf"у (?:меня|нас|мене)|в мене)\s+(?:есть\s+|є\s+|на\s+)?(?:an?\s+|my\s+)?"
        rf"(?P<object>(?:[\w-]+\s+){{0,2}}(?:{_BRANDS}|нив[аеуыо]\w*|волг\w+|уаз\w*|октави\w+|октаві\w+|"
        rf"логан\w*|солярис\w*|приор\w+|калин\w+|ланос\w*|газел\w+)(?![\w-]).*)"),
        ("works_as", r"(?:(?:я|i)\s+)?(?:earn\s+(?:my|a)\s+living\s+as|подрабатываю|підробляю|"
        r"зарабатываю(?:\s+на\s+жизнь)?|заробляю(?:\s+на\s+життя)?|служу)\s+(?:an?\s+)?"
        r"(?P<object>.+)"),
        ("works_as", r"(?:i\s+)?(?P<object>(?:[a-z]+\s+){1,7}for\s+a\s+living)$"),
        ("works_as", r"(?:моя|my)\s+(?:работа|робота|профессия|професія|job|profession|occupation)"
        r"\s*(?:is|[—–:-]|это|це)\s*(?:an?\s+)?(?P<object>.+)"),
        ("studies_at", r"(?:я|i'm|i am)\s+(?:[—–-]\s*)?(?:an?\s+)?(?:\w+\s+)?"
        r"(?:student|студент\w*)(?:\s+(?:at|in|в|у|на))?\s*(?P<object>.*)"),
        ("diet", r"(?:я|i'm|i am)\s+(?:[—–-]\s*)?(?:an?\s+)?(?P<object>(?:веган|вегетариан|"
        r"вегетаріан|vegan|vegetarian|pescatarian)\w*)$"),
        ("favourite", r"(?:мо[йяеиї]|моє|мій|my)\s+(?:сам\w+\s+|най\s*)?(?:любим\w+|"
        r"улюблен\w+|favou?rite)\s+(?P<thing>[^\W\d_]+)\s*(?:[—–:-]|is|are|це|"
        r"это)?\s*(?P<object>.+)"),
        ("likes", r"(?:я\s+|i\s+)?(?:очень\s+|дуже\s+|really\s+)?(?:люблю|обожаю|обожнюю|"
        r"полюбляю|love|like|enjoy|adore)\s+(?P<object>.+)"),
        ("dislikes", r"(?:я\s+|i\s+)?(?:ненавижу|не\s+люблю|терпеть\s+не\s+могу|разлюбил\w?|"
        r"розлюби\w+|hate|dislike|can't\s+stand|don't\s+like)\s+(?P<object>.+)"),
    )
)  # fmt: skip
# Of others: their home and work, wherever in the clause the verb stands.
OF_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (relation, re.compile(pattern, re.IGNORECASE))
    for relation, pattern in (
        ("name", rf"\b(?:зовут|звать|звати|звуть|called|named|name is)\s+{_NAME}"),
        ("birthday", r"\b(?:день\s+рождения|день\s+народження|birthday)\s*(?:is|on|"
        r"[—–:-])?\s*(?P<object>.*\d.*)"),
        ("lives_in", r"\b(?:жив[её]т|живут|живе|живуть|мешкає|мешкають|lives?|(?:переехал|"
        r"переїха)\w+|moved)\s+"
         rf"(?:в|во|на|у|под|під|до|in|to|at|near)\s+{_OBJ}"),
        ("works_as", r"\b(?:работает|працює|"
        r"works)\s+(?:as\s+(?:an?\s+)?)?(?P<object>[^\W\d_]{3,}(?:ом|ем|ой|ей|ою|ею|ым|им)\b.*)"),
        ("works_as", r"\b(?:преподает|преподаёт|викладає|руководит|керує|заведует|завідує|teaches|"
        r"manages|runs)\s+(?P<object>.+)"),
        ("age", r"(?:\bturn(?:ed|s)|исполнил\w+|исполнится|стукнуло|виповнил\w+|виповниться)\s+"
        r"(?P<object>.+)"),
        ("age", r"(?:\bis\s+|\s)(?P<object>\d{1,3}(?:\s*(?:years?\b|лет\b|год|рок|рік).*|$))"),
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
PIECE = re.compile(r"\s*[,;:.]\s+|\s+[—–-]\s+(?=я\s)")
# "I'm Tom", "меня зовут Анна": what may follow needs no subject.
INTRODUCTION = re.compile(
    r"(?:я|i'?m|i am|my name is|my name's|меня зовут|мене звати|мене звуть)\s+(?:[—–-]\s*)?"
    r"[^\W\d_][\w'-]*(?:\s+[^\W\d_][\w'-]*)?",
    re.IGNORECASE,
)
IN_INTRODUCTION = re.compile(
    rf"(?:мне\s+|мені\s+)?\d{{1,3}}(?:\s*(?:лет|год\w*|рок\w*|рік|years?(?:\s+old)?))?"
    rf"|(?!(?:я|мы|ми|i|i'?m|we)\s)(?:an?\s+)?(?!{_COMPARED}){_PROFESSION}",
    re.IGNORECASE,
)
AND = re.compile(r"[\s,]+(?:и|а|но|та|і|й|але|and|but)\s+", re.IGNORECASE)
LOOK_AHEAD = 4  # words after an "and" among which a verb begins something else
DEFAULT_IMPORTANCE = 5  # of what the table does not know


@dataclass(frozen=True)
class ToldRelation:
    """A relation that a clause tells, with its value as written."""

    name: str
    object: str

    @property
    def importance(self) -> int:
        """As the table has it, 1 to 10."""
        known = BY_NAME.get(self.name)
        return known.importance if known else DEFAULT_IMPORTANCE


def told_of_himself(clause: str) -> ToldRelation | None:
    """The relation that a clause of the user tells of himself; None when the table has none.

    A part of an introduction tells it without a subject: "Tom, 29, electrician".
    """
    subjects = ("", "i'm ", "я ", "мне ") if is_part_of_introduction(clause) else ("",)
    return next(filter(None, (_told(f"{subject}{clause}") for subject in subjects)), None)


def _told(clause: str) -> ToldRelation | None:
    for piece in _pieces(clause):
        for relation, pattern in OF_HIMSELF:
            if _has_many_values(relation) and pattern.match(clause.translate(FOLD)):
                piece = clause  # "люблю чай, кофе и булочки"
            match = pattern.match(AFTERWARDS.sub("", piece.translate(FOLD)))
            if match is not None and _is_noun(match.groupdict().get("noun")):
                is_favourite = relation == "favourite"
                name = f"favourite_{match['thing'].lower()}" if is_favourite else relation
                return ToldRelation(name, _object(piece, match))
    return None


def is_part_of_introduction(text: str) -> bool:
    """Whether it is an age or a profession and nothing else: "29", "инженер по лифтам"."""
    return IN_INTRODUCTION.fullmatch(text.translate(FOLD)) is not None


def told_of_another(clause: str) -> ToldRelation | None:
    """The relation that a clause tells of somebody else."""
    folded = clause.translate(FOLD)
    for relation, pattern in OF_OTHERS:
        if (match := pattern.search(folded)) is not None:
            return ToldRelation(relation, _object(clause, match))
    return None


def _has_many_values(relation: str) -> bool:
    known = BY_NAME.get(relation)
    return known is not None and not known.is_single


def _is_noun(word: str | None) -> bool:
    """Whether "я … в стартапе" names what somebody is; True where a pattern asks for no noun."""
    return word is None or best_parts(word) <= {"NOUN"}


def _pieces(clause: str) -> list[str]:
    """The clause, and what stands between its signs: "Переехали, теперь живём в Тюмени"."""
    parts = [part.strip() for part in PIECE.split(clause)]
    return list(dict.fromkeys(part for part in (*parts, clause) if part))


def _object(clause: str, match: re.Match[str]) -> str:
    """The object as written; the folded clause is as long as the clause."""
    found = AFTERWARDS.sub("", clause[match.start("object") : match.end("object")].strip())
    for cut in AND.finditer(found):
        if any("VERB" in best_parts(word) for word in words(found[cut.end() :])[:LOOK_AHEAD]):
            return found[: cut.start()].rstrip(" ,")
    return found


MAX_CUTS = 24  # of one sentence that are looked at: each looks at what stands around it
CLAUSE_END = re.compile(
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
    for cut in islice(CLAUSE_END.finditer(statement), MAX_CUTS):
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


# From a message to facts in the user's own words, one for each clause that can stand alone.
#
# Only relations of the table are recognised, since those replace each other; everything else is
# kept as it stands.

MAX_FACTS = 12  # of one message
# What the rules know of a fact.
TOLD = {"text", "quote", "memory_type", "importance", "subject", "relation", "object"}
PREFERENCES = frozenset({"likes", "dislikes", "favourite", "diet"})
WISH_IMPORTANCE = 8
FAMILY = 8  # importance of what is told of kin
OTHER = 5


def statements(text: str) -> list[Fact]:
    """What a message tells, in its order, at most MAX_FACTS; each text is a piece of it."""
    found: list[Fact] = []
    place = 0
    for sentence in sentences(text):
        place = text.index(sentence, place)
        if found and THIRD_PERSON_SUBJECT.match(sentence.translate(FOLD)) and told(sentence):
            found[-1] = _continued(found[-1], text, place + len(sentence))
            continue
        if is_wish(sentence):
            wish = TAG.sub("", sentence).rstrip(".!… ")
            found.append(
                Fact(
                    text=wish, relation=WISH, memory_type="preference", importance=WISH_IMPORTANCE
                )
            )
            continue
        what = told(sentence)
        if what is not None:
            found += [read(clause) for clause in clauses(what[0])]
        if len(found) >= MAX_FACTS:
            break
    return found[:MAX_FACTS]


def told_by(message: str) -> list[Fact]:
    """What a message tells, also around what was cut out of it; a request tells nothing."""
    if forget_request(message) is not None or asks_to_keep_private(message):
        return []
    return [statement for part in message.split(CUT) for statement in statements(part)]


def _continued(statement: Fact, text: str, end: int) -> Fact:
    """The statement with what is said of it up to ``end``: "У меня есть собака. Её зовут Рекс"."""
    start = text.rfind(statement.text, 0, end)
    longer = text[start:end].rstrip(".!… ")
    if len(longer) > MAX_SENTENCE:
        return statement
    return statement.model_copy(update={"text": longer, "quote": longer})


def read(clause: str) -> Fact:
    """A clause with the relation that the table knows, or as it stands."""
    subject = subject_of(clause)
    relation = told_of_himself(clause) if subject == "user" else told_of_another(clause)
    importance = FAMILY if subject in kin().values() else OTHER
    if relation is None:
        return Fact(text=clause, subject=subject, importance=importance)
    if subject == "user":
        importance = relation.importance
    is_preference = relation.name.partition("_")[0] in PREFERENCES
    return Fact(
        text=clause,
        subject=subject,
        relation=relation.name,
        object=relation.object,
        memory_type="preference" if is_preference else "user_fact",
        importance=importance,
    )
