"""What the memory knows of relations: one record each, in three languages, and questions for them.

The gate, contradictions, questions, forgetting and the offline model read this table.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from src.reading import lexicon

# How things end without a new value, in three languages: expressions for the relation table.
#
# They are read in lower case, with "е" for "ё".

PARTED = (
    r"\bразвел(?:ся|ась|ись)\b|\bразвод(?:е|имся|ится|ятся)\b|\bразвод\b|\bрасста(?:л|емся|юсь)\w*"
    r"|\bразошлись\b|\bразъехались\b|\bразбежались\b|\bбольше не (?:вместе|женат\w*|замужем)"
    r"|\bразругались\b|\bне дружим\b|\bне общаемся\b|\bdivorc\w+|\b(?:broke|broken|split) up\b"
    r"|\bseparated\b|\b(?:not|no longer|aren't) (?:together|married|friends)\b"
    r"|\bleft (?:me|him|her)\b"
    r"|\bрозлучи\w+|\bрозійшл\w+|\bрозста(?:л|єм|ємо)\w*|\bбільше не (?:разом|одружен\w+|заміжня)"
)
LEFT_WORK = (
    r"\bувол(?:ил|ьня|ен)\w*"
    r"|\bуш(?:ел|ла|ли) (?:с|из|со) (?:\w+ )?(?:работы|компании|фирмы|должности)"
    r"|\b(?:бросил|потерял|оставил)а? (?:\w+ )?работу|\bсократили\b|\bна пенси[июя]\b"
    r"|\bбезработн\w+|\bбольше (?:\w+ )?не работа\w+"
    r"|\b(?:quit|left|lost) (?:my|his|her|the|that) (?:\w+ )?(?:job|work)"
    r"|\bi(?:'ve)? (?:just )?quit(?: (?:last|yesterday|today)\b|[.,!]|$)|\bresigned\b"
    r"|\bretired\b|\bunemployed\b"
    r"|\b(?:was|got|been) (?:fired|laid off|sacked)|\bno longer work\w*"
    r"|\bwork\w* there (?:any|no) ?more"
    r"|\bзвільни\w+|\bпіш(?:ов|ла|ли) з (?:\w+ )?(?:роботи|компанії|фірми)"
    r"|\b(?:кинув|втратив|залишив)(?:ла)?"
    r" роботу|\b(?:кинула|втратила|залишила) роботу|\bскоротили\b|\bна пенсі[їю]\b|\bбезробітн\w+"
)
LEFT_SCHOOL = (
    r"\b(?:о|за)кончил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж|академию)"
    r"|\bотчислил\w*|\bбросил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж)"
    r"|\bgraduated\b|\bdropped out\b|\b(?:finished|left) (?:school|university|college)"
    r"|\b(?:за)?кінчи\w+ (?:\w+ )?(?:універ\w*|виш|інститут|школу|навчання|коледж)|\bвідрахували\b"
    r"|\bкинул?[ав]\w* (?:універ\w*|виш|інститут|школу|навчання|коледж)"
)
PARTED_WITH = (
    r"\bпродал\w*|\bпродан\w*|\bотдал\w*|\bпотерял\w*|\bвыбросил\w*|\bразбил\w*|\bукрали\b"
    r"|\bугнали\b|\bпропал\w*|\bсбежал\w*|\bsold\b|\bgave (?:\w+ )?(?:\w+ )?away\b|\blost\b"
    r"|\bthrew (?:\w+ )?away\b"
    r"|\bstolen?\b|\bcrashed\b|\btotall?ed\b|\bran away\b|\bпрода(?:в|ла|ли|но)\b|\bвідда(?:в|ла|"
    r"ли)\b|\bзагуби\w+|\bвтратил?\w*|\bвикину\w+|\bрозби(?:в|ла|ли)\b|\bвкрали\b|\bвтік(?:ла)?\b"
)
DIED = (
    r"\bумер(?:ла|ли|ло)?\b|\bпогиб(?:ла|ли)?\b|\bскончал(?:ся|ась)\b|\bне стало\b|\bумирает\b"
    r"|\bусыпили\b|\bdied\b|\bpassed away\b|\bis dead\b|\bput (?:\w+ )?to sleep\b"
    r"|\bпомер(?:ла|ли)?\b|\bзагину(?:в|ла|ли)\b|\bприспали\b"
)
MOVED_OUT = (
    r"\b(?:съехал|уехал|переехал|выехал)\w* из\b|\bmoved (?:out of|away from|from)\b|\bleft\b"
    r"|\b(?:виїха|переїха|поїха)(?:в|ла|ли) (?:з|із|зі)\b|\bбольше не живу?\w*"
    r"|\bбільше не живу?\w*"
)
HEALED = (
    r"\bпрошл[аои]\b|\bпрошел\b|\bвылечил\w*|\bвыздоров\w+|\bпоправил(?:ся|ась)\b|\bперерос\w*"
    r"|\brecovered\b|\bcured\b|\bhealed\b|\boutgr[eo]wn?\b|\bis gone\b|\bминул[аои]\b|\bодужа\w+"
    r"|\bвилікува\w+"
)
CANCELLED = (
    r"\bотмен(?:ил|ен)\w*|\bпередумал\w*|\bсорвал(?:ся|ась|ось|ись)\b|\bcancel\w+"
    r"|\bcalled (?:it )?off\b|\bchanged my mind\b|\bскасу\w+|\bскасован\w*|\bпередума(?:в|ла|ли)\b"
)
GIVEN_UP = (
    r"\b(?:за)?бросил\w*|\bперестал\w*|\bзавязал\w*|\bgave up\b|\bgiven up\b|\bquit\b|\bstopped\b"
    r"|\bкину(?:в|ла|ли)\b|\bпереста(?:в|ла|ли)\b|\bзакину(?:в|ла|ли)\b"
)
FINISHED = r"\b(?:о|за)кончил\w*|\bзакінчи(?:в|ла|ли)\b|\bfinished\b|\bgraduated\b"
# Who has one at a time needs not say which.
OF_THE_ONLY_ONE = (PARTED, LEFT_WORK, LEFT_SCHOOL)


@dataclass(frozen=True)
class Relation:
    """A relation between somebody and a value.

    Attributes:
        name: Ours, in English.
        is_single: Whether a subject has one value at a time, so that a new one replaces the old.
        importance: Of such a fact by default, 1 to 10.
        ends: An expression for what ends it without a new value.
    """

    name: str
    is_single: bool = False
    importance: int = 5
    ends: str = ""

    @property
    def ends_by_name(self) -> bool:
        """Whether an ending must name what ends (was sold, died): a job or a marriage is one."""
        return not (self.is_single and self.ends in OF_THE_ONLY_ONE)

    @property
    def aliases(self) -> list[str]:
        """What models call it in each language; words of one alias joined by underscores."""
        return list(self._words("aliases"))

    @property
    def about(self) -> list[str]:
        """Words that name it in a request to forget ("my job"); never one of its values."""
        return list(self._words("about"))

    @cached_property
    def asked(self) -> lexicon.Expression | None:
        """An expression for the questions that ask for it; None: none does."""
        asks = any("asked" in told for _, told in lexicon.by_language(f"relations.{self.name}"))
        source = rf"(?<!\w)<relations.{self.name}.asked>(?!\w)"
        return lexicon.Expression(source, re.IGNORECASE) if asks else None

    def _words(self, kind: str) -> Iterator[str]:
        for _, told in lexicon.by_language(f"relations.{self.name}"):
            yield from told.get(kind, "").split()


RELATIONS = (
    Relation("name", is_single=True, importance=10),
    Relation("nickname", is_single=True, importance=9),
    Relation("age", is_single=True, importance=7, ends=DIED),
    Relation("birthday", is_single=True, importance=8),
    Relation("gender", is_single=True),
    Relation("nationality", is_single=True),
    Relation("lives_in", is_single=True, importance=7, ends=f"{MOVED_OUT}|{DIED}"),
    Relation("born_in", is_single=True),
    Relation("address", is_single=True, importance=7),
    Relation("works_as", is_single=True, importance=7, ends=LEFT_WORK),
    Relation("works_at", is_single=True, importance=7, ends=LEFT_WORK),
    Relation("studies_at", is_single=True, importance=7, ends=LEFT_SCHOOL),
    Relation("studies", is_single=True, ends=LEFT_SCHOOL),
    Relation("married_to", is_single=True, importance=8, ends=PARTED),
    Relation("partner", is_single=True, importance=8, ends=PARTED),
    Relation("email", is_single=True, importance=6),
    Relation("phone", is_single=True, importance=6),
    Relation("height", is_single=True),
    Relation("weight", is_single=True),
    Relation("shoe_size", is_single=True),
    Relation("clothes_size", is_single=True),
    Relation("diet", is_single=True, importance=7),
    Relation("time_zone", is_single=True, importance=7),
    Relation("native_language", is_single=True, importance=7),
    Relation("car", is_single=True, ends=PARTED_WITH),
    Relation("likes"),
    Relation("dislikes"),
    Relation("has_child", importance=8),
    Relation("has_sibling", importance=8),
    Relation("has_parent", importance=8),
    Relation("has_pet", importance=6, ends=f"{PARTED_WITH}|{DIED}"),
    Relation("has_friend", ends=PARTED),
    Relation("allergic_to", importance=9, ends=HEALED),
    Relation("speaks"),
    Relation("owns", ends=PARTED_WITH),
    Relation("visited"),
    Relation("plans", ends=CANCELLED),
    Relation("hobby", ends=GIVEN_UP),
    Relation("habit", ends=GIVEN_UP),
    Relation("event"),
    Relation("skill"),
    Relation("condition", importance=8, ends=HEALED),
    Relation("takes_medicine", importance=8, ends=HEALED),
    Relation("knows"),
    Relation("wish", importance=10),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}


# Which relation a question asks for: "где я живу?" asks for ``lives_in``.
#
# A fact is indexed with its relation as one more term, and a question searches for it. So "I moved
# to Lviv" answers "where do I live?" although no word is the same.

MAX_QUESTION = 300  # characters; a longer text is no question for one relation


def relation_term(relation: str) -> str:
    """The search term of a relation; no word has an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """The relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    asked = ((relation.name, relation.asked) for relation in RELATIONS)
    return [relation_term(name) for name, words in asked if words and words.search(text)]
