"""Requests for a reminder in plain words: "напомни завтра в 9 позвонить маме".

No model is asked, and a question to the memory never becomes a reminder: "напомни, как зовут
мою сестру", "remind me what I said about Lisbon", "напомни мне мой адрес". What asks, then, is an
order to remind with a time beside it ("напомни завтра …", "в пятницу напомни …"); one with
something to do ("напомни позвонить маме", "remind me to …"), with or without a time; one about
a thing ("напомни про концерт …") with a day or an hour behind it, told in no past tense; and what
names a reminder ("поставь напоминание", "set a reminder"). Everything else is left to others.

A time stands beside the order, at either end of the text, or, when neither has one, inside it.
What stands elsewhere belongs to the thing: "напомни завтра купить билеты на пятницу".
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from src.reading import lexicon
from src.reading.relative_dates import PAST
from src.reading.reminder_moments import ReminderRequest, read_timing
from src.reading.requests import MAX_TEXT, TALKED, YOU_MAY
from src.reading.sentences import QUESTION
from src.reading.times import Span, day_offset, find_reminder_spans, fold
from src.reading.zone_phrases import zone_beside
from src.texts.morphology import parts_of_speech
from src.texts.plain_text import INVISIBLE, between, single_spaced

# Quick, for every message: without one of these nothing asks for a reminder.
HINT = lexicon.AnyCase("<reminder.hints>")
ME = "(?:<reminder.me>[ ,]+){0,3}"
COMMAND = lexicon.Expression(
    rf"(?<![\w'-])(?:(?P<noun>{ME}<reminder.make> {ME}(?:<reminder.a> ){{0,2}}"
    r"(?:<reminder.daily> )?<reminder.noun>)"
    r"|(?P<label>^<reminder.noun>)(?=[ ]?[:—-])"
    rf"|(?P<asked>(?:<reminder.may_begin> )?{YOU_MAY}{ME}<reminder.asked>)"
    r"|(?P<kept><reminder.kept>)|(?P<will><reminder.will>)|(?P<bare>^<reminder.bare>)"
    r"|(?P<infinitive><reminder.infinitive>)|(?P<order><reminder.order>))(?![\w'])"
)
# What may stand some words before an infinitive: "можешь мне завтра напомнить".
ASKING = lexicon.Expression(rf"(?<![\w'-]){YOU_MAY}")
AFTER_ORDER = lexicon.Expression(r"(?:[ ,:—-]*<reminder.beside>(?![\w'-]))*[ ,:—-]*")
BEFORE_ORDER = lexicon.Expression(
    r"(?:[ ,:—-]+<reminder.beside>)?[ ,:—-]*$|^<reminder.beside>?[ ,:—-]*$"
)
BETWEEN = lexicon.Expression(r"[ ,]*(?:<reminder.between>[ ,]+){0,2}")
BEGINNING = lexicon.Expression("(?:<reminder.greeting>[ ,!.]+){0,3}")
BEGINNING_OF_TEXT = lexicon.AnyCase(r"^(?:<reminder.greeting>[\s,!.]+)+(?=\S)")
ENDING = lexicon.Expression("[ ,]*<reminder.ending>?[ .!?)…]*")
# What asks beside what ``QUESTION`` knows.
ASKS_TOO = lexicon.Expression(r"<reminder.asks_too>(?![\w'-])")
# What makes a day the end or the exception of something, and no time to remind.
LIMIT = lexicon.Expression(r"\b<reminder.limit> (?:the )?$")
QUOTES = "\"'«»“”„‘’`"
# Where an English order may begin; behind anything else "remind me" is a report.
CLAUSE = lexicon.Expression(r"(?:^|[.,;!?:)(—-]|\b<reminder.clause>)[ ]*$")
WH = lexicon.Expression(
    r"\W*(?:<reminder.wh_before>\s+)?(?:<reminder.wh_preposition>\s+)?<reminder.wh>(?![\w'-])"
)
SAID = lexicon.Expression(r"\b<reminder.said>\b")
NOT = lexicon.Expression(r"\b<reminder.not> ?$")
SENTENCE_END = re.compile(r"[.!?…;] ")
ABOUT = lexicon.Expression(r"<reminder.about>(?![\w'-])")
TO = re.compile(r"to (?![.,!?]|$)")
NEED = lexicon.Expression(r"(?:<reminder.need>[ ,]+){0,3}(?P<word>[^\W\d_]+(?:['-][^\W\d_]+)*)")
INFINITIVE = lexicon.Expression("<reminder.infinitive_endings>$")
MENTIONED = lexicon.Expression(r"\b<reminder.mentioned>\b")
FAR_DATES = frozenset({"month", "season", "year", "year_word"})  # words of a vague day
NAMED_FOR = lexicon.Expression("<reminder.named_for> ")
# What takes back the time before it.
_TAKES_BACK = "(?:<lines.corrects>|<move.instead>|<move.sorry>)"
CORRECTING = lexicon.Expression(rf"\b{_TAKES_BACK}(?!\w)")
CORRECTION = lexicon.Expression(
    rf"[ ,.]*(?:(?><lines.opener>(?!\w))[ ,.]+)*?{_TAKES_BACK}"
    rf"(?:[ ,.]+(?>(?:{_TAKES_BACK}|<move.rather>)(?!\w)))*[ ,.]+"
)
# What stands for a thing that was named before: "remind me of it tomorrow".
PRONOUN = lexicon.Expression(r"\b<reminder.pronoun>\b")
# What joins the order and the thing and is no part of it.
JOINING = lexicon.AnyCase(r"[\s,:;—–-]*(?:<reminder.joining>(?![\w'-])[\s,]*)?")
POLITE_END = lexicon.AnyCase(r"(?<![\s,])[\s,]+<reminder.polite_end>(?=[\s.!?]*$)")


@dataclass(frozen=True)
class _Order:
    """An order to remind at ``[start, end)`` of a folded text.

    Attributes:
        folded: The text.
        begin: Where its sentence begins.
        start: Where it begins.
        end: Where it ends.
        kind: How it is said: a group of ``COMMAND``.
        asking: Where "can you" stands, some words before it.
    """

    folded: str
    begin: int
    start: int
    end: int
    kind: str
    asking: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Run:
    """Pieces of time that stand side by side, and where: beside the order, at an end, inside."""

    elements: tuple[Span, ...]
    place: str


def read_reminder(text: str, now: datetime, time_zone: str) -> ReminderRequest | None:
    """What a message wants to be reminded of, and when; None: it asks for no reminder.

    Args:
        text: A message; one of more than 1,000 characters is no request.
        now: Aware; the reminder is after it.
        time_zone: Of the user, a name of the tz database.
    """
    if len(text) > MAX_TEXT:
        return None
    source = _cleaned(text)
    if HINT.search(source) is None:
        return None
    source, own_zone, found, order = _zone_apart(_corrected(source))
    if order is None:
        return None
    chosen = _chosen(_runs(_usable(found, order), order), order)
    elements = [element for run in chosen for element in run.elements]
    what = _what(source, order, elements)
    if not _is_request(order, chosen, what):
        return None
    request = read_timing(what, elements, now, own_zone or time_zone)
    if own_zone is None:
        return ReminderRequest(what, problem="no_zone")
    if own_zone:
        again = request.repeats and replace(request.repeats, zone=own_zone)
        request = replace(request, time_zone=own_zone, repeats=again)
    is_bare = not what and request.problem in (None, "no_time")
    return replace(request, problem="no_text") if is_bare else request


def _corrected(source: str) -> str:
    """The text without a time that is taken back in the same breath: "at 3pm, no wait, at 4pm"."""
    folded = _folded(source)
    found = find_reminder_spans(folded) if CORRECTING.search(folded) else []
    for place in range(1, len(found)):
        if CORRECTION.fullmatch(folded, found[place - 1].end, found[place].start) is None:
            continue
        new = {span.slot for span in _side_by_side(found[place:], folded)}
        old = _side_by_side(found[place - 1 :: -1], folded)
        gone = next((n for n, span in enumerate(old) if span.slot not in new), len(old))
        if gone:
            return _corrected(source[: old[gone - 1].start] + source[found[place].start :])
    return source


def _side_by_side(spans: Sequence[Span], folded: str) -> list[Span]:
    """The first of some pieces of time with those that stand beside it without a word between."""
    beside = [*spans[:1]]
    for one, other in pairwise(spans):
        first, second = sorted((one, other), key=lambda span: span.start)
        if folded[first.end : second.start].strip(" ,"):
            break
        beside.append(other)
    return beside


def _zone_apart(source: str) -> tuple[str, str | None, Sequence[Span], _Order | None]:
    """The text without the zone that it names for its hour, which (see ``zone_beside``), the rest.

    That is what ``_read_order`` finds in it; it is looked for once more where a zone is cut out.
    """
    folded, found, order = _read_order(source)
    spans = [(span.start, span.end) for span in found]
    named = zone_beside(folded, [(order.start, order.end), *spans]) if order else None
    if named is None:
        return source, "", found, order
    source = source[: named[0]] + source[named[1] :]
    return source, named[2], *_read_order(source)[1:]


def _read_order(source: str) -> tuple[str, Sequence[Span], _Order | None]:
    """The folded text, its pieces of time, and the order to remind in it."""
    folded = _folded(source)
    found = find_reminder_spans(folded)
    return folded, found, _find_order(folded, found)


def _folded(source: str) -> str:
    return _ascii_digits(fold(source)).replace("\n", " ")


def _cleaned(text: str) -> str:
    """The text, composed, without what cannot be seen, and with single spaces; lines stay."""
    return single_spaced(INVISIBLE.sub("", unicodedata.normalize("NFC", text)))


def _ascii_digits(folded: str) -> str:
    """The text with the digits 0 to 9 for those of other scripts, character by character."""
    if folded.isascii():
        return folded
    return "".join(
        str(unicodedata.decimal(c)) if c.isdecimal() else ":" if c == "：" else c for c in folded
    )


def _find_order(folded: str, found: Sequence[Span]) -> _Order | None:
    """The first order to remind in a text that is meant as one."""
    rest = _blanked(folded, found)
    for match in COMMAND.finditer(folded):
        start = match.start()
        begin = max((end.end() for end in SENTENCE_END.finditer(rest, 0, start)), default=0)
        kind = match.lastgroup or "order"
        asking = ASKING.search(rest, begin, start) if kind == "infinitive" else None
        if kind == "infinitive" and asking is None:
            continue
        if _is_meant(rest[begin:start], kind, match[0]):
            span = asking.span() if asking else None
            return _Order(folded, begin, start, match.end(), kind, span)
    return None


def _is_meant(before: str, kind: str, said: str) -> bool:
    """Whether an order is given here, by what stands before it in its sentence."""
    bare = before.rstrip()
    if WH.match(before) or NOT.search(bare) or bare[-1:] in tuple(QUOTES):
        return False
    if TALKED.search(before) or SAID.search(before):
        return False  # "мама сказала: напомни …"
    english = said[-1:].isascii()
    return not english or kind == "kept" or CLAUSE.search(before) is not None


def _blanked(folded: str, elements: Iterable[Span]) -> str:
    """The text with spaces for the pieces of time."""
    for element in elements:
        blanks = " " * (element.end - element.start)
        folded = folded[: element.start] + blanks + folded[element.end :]
    return folded


def _usable(found: Sequence[Span], order: _Order) -> list[Span]:
    """The pieces outside the order; "a daily reminder" has one inside.

    A bare English part of a day ("morning") is one only behind a day.
    """
    usable: list[Span] = []
    for element in found:
        is_inside = element.start < order.end and element.end > order.start
        if is_inside and element.slot != "every":
            continue
        if element.slot == "date" and _is_limit(element, found, order):
            continue
        bare = element.kind.startswith("bare ")
        if bare and not (usable and order.folded[usable[-1].end : element.start] == " "):
            continue
        usable.append(element)
    return usable


def _is_limit(element: Span, found: Sequence[Span], order: _Order) -> bool:
    """Whether a day only limits the thing ("до 5 декабря"); not so in "за день до | 5 декабря"."""
    if any(other.slot == "before" and other.end + 1 == element.start for other in found):
        return False
    return LIMIT.search(order.folded[: element.start][-20:]) is not None


def _runs(elements: Sequence[Span], order: _Order) -> list[_Run]:
    groups: list[list[Span]] = []
    for element in elements:
        joined = groups and _is_between(groups[-1][-1].end, element.start, order)
        if joined:
            groups[-1].append(element)
        else:
            groups.append([element])
    return [_Run(tuple(group), _place(group, order)) for group in groups]


def _is_between(end: int, start: int, order: _Order) -> bool:
    """Whether nothing but joints stands between two pieces; the order is no joint."""
    if end <= order.start < start:
        return False
    return start - end <= 30 and BETWEEN.fullmatch(order.folded, end, start) is not None


def _place(group: Sequence[Span], order: _Order) -> str:
    first, last = group[0], group[-1]
    folded = order.folded
    if order.start <= first.start < order.end:
        return "beside"
    if first.start >= order.end:
        behind = AFTER_ORDER.behind(folded, order.end)
        if behind >= first.start or BETWEEN.fullmatch(folded, behind, first.start):
            return "beside"
        return "end" if ENDING.fullmatch(folded, last.end) else "inside"
    if BEFORE_ORDER.match(folded[last.end : order.start]):
        return "beside"
    return "beginning" if BEGINNING.behind(folded) >= first.start else "inside"


def _chosen(runs: Sequence[_Run], order: _Order) -> list[_Run]:
    """The runs that say when to remind, in the order of the text."""
    chosen: list[_Run] = []
    taken: set[str] = set()
    for place in ("beside", "end", "beginning", "inside"):
        for run in (run for run in runs if run.place == place):
            slots = _slots(run)
            if slots & taken or not _belongs(run, order):
                continue
            taken |= slots
            chosen.append(run)
    return [run for run in runs if run in chosen]


def _slots(run: _Run) -> set[str]:
    """What a run says; a wait says the day."""
    names = {element.slot for element in run.elements}
    return {"date" if name == "after" else name for name in names}


def _belongs(run: _Run, order: _Order) -> bool:
    """Whether a run is a time to remind, and not of the thing: "билеты на пятницу"."""
    if run.place == "beside" or order.kind in ("noun", "label"):
        return True
    first = run.elements[0]
    if first.slot in ("date", "after") and NAMED_FOR.match(order.folded, first.start, first.end):
        return False
    if first.which in ("last", "before last"):
        return False
    return first.kind != "ago" and (day_offset(first.words.get("word", "")) or 0) >= 0


def _is_request(order: _Order, chosen: Sequence[_Run], what: str) -> bool:
    """Whether an order asks for a reminder, and not for something to be recalled."""
    if order.kind in ("noun", "label"):
        return True
    folded = fold(what)
    beside = any(run.place == "beside" for run in chosen)
    if beside:
        is_asked = order.folded.endswith("?")
        if is_asked and order.kind == "order":
            return _is_to_do(folded) or ABOUT.match(folded) is not None
        return bool(what) or not is_asked
    said = order.folded[AFTER_ORDER.behind(order.folded, order.end) :]
    is_to_do = TO.match(said) is not None or _is_to_do(folded)
    if not TO.match(said) and (QUESTION.match(said) or ASKS_TOO.match(said)):
        return False
    if is_to_do:
        return order.kind != "will" or bool(chosen)
    if not any(_is_certain(run) for run in chosen):
        return False
    has_clock = any(element.slot == "clock" for run in chosen for element in run.elements)
    if PAST.search(folded) or (
        (TALKED.search(folded) or MENTIONED.search(folded)) and not has_clock
    ):
        return False
    stands_before = any(run.elements[0].start < order.start for run in chosen)
    return stands_before or ABOUT.match(said) is not None


def _is_to_do(folded: str) -> bool:
    """Whether a text begins with something to do: an infinitive of Russian or Ukrainian."""
    found = NEED.match(folded)
    if found is None:
        return False
    word = found["word"]
    parts = parts_of_speech(word)
    return bool(parts & {"INFN", "infn"}) if parts else INFINITIVE.fullmatch(word) is not None


def _is_certain(run: _Run) -> bool:
    """Whether a run names a day, an hour or a habit, and not only a month or a year."""
    return any(
        element.slot in ("clock", "every", "after")
        or (
            element.slot == "date"
            and (element.kind != "named" or not element.words.keys() & FAR_DATES)
        )
        for element in run.elements
    )


def _what(source: str, order: _Order, elements: Sequence[Span]) -> str:
    """What is left of a text without the order, the time and the words that join them."""
    cuts = [(e.start, e.end) for e in elements if e.slot != "before" or e.kind == "earlier"]
    starts = {start for start, _ in cuts}  # "за день до | 5 декабря" goes with its date
    cuts += [(e.start, e.end) for e in elements if e.slot == "before" and e.end + 1 in starts]
    cuts += [order.asking] if order.asking else []
    cuts.append((order.start, AFTER_ORDER.behind(order.folded, order.end)))
    joined = _joined_cuts(sorted(cuts), order.folded)
    behind = " ".join(between(order.folded, [cut for cut in joined if cut[1] > order.start])[1:])
    if re.search(r"\w", behind) and not PRONOUN.search(behind):  # what stands before is told
        joined = [(0, order.begin), *(cut for cut in joined if cut[1] > order.begin)]
    # Punctuation stays behind what it belongs to: "встреча, за час до неё".
    kept = [piece.lstrip(" ,:;—–-").rstrip(" :—–-") for piece in between(source, joined)]
    text = " ".join(piece for piece in kept if re.search(r"\w", piece))
    text = POLITE_END.sub("", BEGINNING_OF_TEXT.sub("", text))
    text = text[JOINING.behind(text) :].strip().rstrip(" ,;:.?—–-")
    return text if re.search(r"\w", text) else ""


def _joined_cuts(cuts: Sequence[tuple[int, int]], folded: str) -> list[tuple[int, int]]:
    """The places to cut, those between which only joints stand as one."""
    joined: list[tuple[int, int]] = []
    for start, end in cuts:
        if joined and start - joined[-1][1] <= 30:
            gap = folded[joined[-1][1] : start]
            if BETWEEN.fullmatch(gap) or AFTER_ORDER.fullmatch(gap):
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
                continue
        joined.append((start, end))
    return joined
