"""How relations are told, in three languages: expressions for clauses, in the order of trial.

A relation that the table holds is read from a clause of the user about himself, or, more rarely,
from one about another person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from src.language.morphology import best_parts, words
from src.language.relation_table import BY_NAME
from src.language.sentences import FOLD

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
