"""Recognition of requests for a reminder in plain words, without a model.

A question to the memory never becomes a reminder: "напомни, как зовут мою сестру", "remind me
what I said about Lisbon", "напомни мне мой адрес". A request is therefore an order to remind with
a time beside it ("напомни завтра …", "в пятницу напомни …"); one with something to do ("напомни
позвонить маме", "remind me to …"), with or without a time; one about a thing ("напомни про
концерт …") followed by a day or an hour, not in the past tense; and a text that names a reminder
("поставь напоминание", "set a reminder").

The time is beside the order, at either end of the text, or, if neither has one, inside it. A time
elsewhere belongs to the thing: "напомни завтра купить билеты на пятницу".
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from src.reading import lexicon
from src.reading.relative_dates import has_past_verb
from src.reading.reminder_moments import ReminderRequest, read_timing
from src.reading.requests import MAX_TEXT, TALKED, YOU_MAY, zone_beside
from src.reading.sentences import QUESTION
from src.reading.times import DAY_SLOTS, Span, day_offset, find_reminder_spans, fold
from src.reading.words import has_verb, kin_of, mend_orders
from src.texts.morphology import parts_of_speech, words
from src.texts.plain_text import INVISIBLE, between, single_spaced

# Cheap check for every message: a text without a match asks for no reminder.
HINT = lexicon.AnyCase("<reminder.hints>")
ME = "(?:<reminder.me>[ ,]+){0,3}"
COMMAND = lexicon.Expression(
    rf"(?<![\w'-])(?:(?P<noun>{ME}<reminder.make> {ME}(?:<reminder.a> ){{0,2}}"
    r"(?:<reminder.daily> )?<reminder.noun>)"
    r"|(?P<label>^<reminder.noun>)(?=[ ]?[:—-])"
    rf"|(?P<asked>(?:<reminder.may_begin> )?{YOU_MAY}{ME}<reminder.asked>)"
    r"|(?P<kept><reminder.kept>)|(?P<will><reminder.will>)|(?P<bare>^<reminder.bare>)"
    r"|(?P<infinitive><reminder.infinitive>)|(?P<order><reminder.order>)"
    r"|(?P<wake><reminder.wake>))(?![\w'])"
)
# Polite opening, some words before an infinitive: "можешь мне завтра напомнить".
ASKING = lexicon.Expression(rf"(?<![\w'-]){YOU_MAY}")
AFTER_ORDER = lexicon.Expression(r"(?:[ ,:—-]*<reminder.beside>(?![\w'-]))*[ ,:—-]*")
BEFORE_ORDER = lexicon.Expression(
    r"(?:[ ,:—-]+<reminder.beside>)?[ ,:—-]*$|^<reminder.beside>?[ ,:—-]*$"
)
BETWEEN = lexicon.Expression(r"[ ,]*(?:<reminder.between>[ ,]+){0,2}")
BEGINNING = lexicon.Expression("(?:<reminder.greeting>[ ,!.]+){0,3}")
BEGINNING_OF_TEXT = lexicon.AnyCase(r"^(?:<reminder.greeting>[\s,!.]+)+(?=\S)")
BEFORE_SECOND = lexicon.Expression(r"[ ,.;]+(?:<reminder.between> )+$")
LISTED = re.compile(r"[,;] $")
# Lists of days or hours: "Dec 3, 10 and 17", "3 и 10 декабря", "в пн и чт", "at 9, 13 and 18".
_AND, _MONTH = r"(?:,? <reminder.and> |, | (?=\d{1,2}:))", "(?:<time.month>|<time.month_short>) "
_ON, _AT = "<reminder.on_weekday> ", "<clock.preposition> "
_NAMED = rf"(?:{_ON})?(?:<time.weekday>|<time.weekday_short>|<time.day>)(?!\w)"
_HOUR = rf"(?:{_AT})?\d{{1,2}}(?::\d\d)?(?: ?[ap]m)?(?!\w)"
LISTS = [
    lexicon.Expression(
        rf"(?<![\w:.])(?P<lead>(?:{lead})?)(?P<items>{item}(?:{_AND}{item}){{1,9}})"
    )
    for lead, item in (
        (_MONTH, r"\d{1,2}(?:-?<time.day_endings>)?(?!\w)"),
        (_ON, _NAMED),
        (_AT, _HOUR),
    )
]
ITEM_END, PREPOSITION = lexicon.Expression(_AND), lexicon.Expression(f"{_ON}|{_AT}")
LIST_MARK = re.compile(r"^(?:[-*•–—·]|\d{1,2}[.)])\s+")
# How begins what is nothing to be done: "at 9 she comes", "at 7 in the park".
NO_TASK = lexicon.Expression(
    r"(?:<reminder.pronoun>|<reminder.joining>|<reminder.wh>|<match.i>|<lines.you>"
    r"|<lines.question_preposition>)(?![\w'-])"
)
BEFORE_THING = lexicon.Expression(r",? <reminder.second> |, (?:<reminder.second> )?")
# How what is to be done begins: "(to call) mum", "(about the) dentist".
DOING = lexicon.Expression(
    r"[ ,]*(?:<reminder.beside> )*(?P<doing><reminder.about>|(?:to )?[^\W\d_]+(?:['-][^\W\d_]+)*) "
)
ENDING = lexicon.Expression("[ ,]*<reminder.ending>?[ .!?)…]*")
# Question words that ``QUESTION`` lacks.
ASKS_TOO = lexicon.Expression(r"<reminder.asks_too>(?![\w'-])")
# Words that make a day a deadline or an exception, not the time of a reminder.
LIMIT = lexicon.Expression(r"\b(?:<time.until>|<time.after>|<limit.except>) (?:the )?$")
QUOTES = tuple("\"'«»“”„‘’`")
# Positions where an English order may begin; elsewhere "remind me" is a report.
CLAUSE = lexicon.Expression(r"(?:^|[.,;!?:)(—-]|\b<reminder.clause>)[ ]*$")
QUESTION_WORD = lexicon.Expression(
    r"\W*(?:<reminder.wh_before>\s+)?(?:<reminder.wh_preposition>\s+)?<reminder.wh>(?![\w'-])"
)
REPORTED = lexicon.Expression(r"\b<reminder.said>\b")
NEGATED = lexicon.Expression(r"\b<reminder.not> ?$")
SENTENCE_END = re.compile(r"[.!?…;] ")
ABOUT = lexicon.Expression(r"<reminder.about>(?![\w'-])")
TO_INFINITIVE = re.compile(r"to (?![.,!?]|$)")
TASK = lexicon.Expression(r"(?:<reminder.need>[ ,]+){0,3}(?P<word>[^\W\d_]+(?:['-][^\W\d_]+)*)")
INFINITIVE_FORM = lexicon.Expression("<reminder.infinitive_endings>$")
MENTIONING = lexicon.Expression(r"\b<reminder.mentioned>\b")
FAR_DATES = frozenset({"month", "season", "year", "year_word"})  # parts of spans without a day
NAMED_FOR = lexicon.Expression("<reminder.named_for> ")
# Words that take back the preceding time.
_RETRACTION = "(?:<lines.corrects>|<move.instead>|<move.sorry>)"
CORRECTING = lexicon.Expression(rf"\b{_RETRACTION}(?!\w)")
CORRECTION = lexicon.Expression(
    rf"[ ,.]*(?:(?><lines.opener>(?!\w))[ ,.]+)*?{_RETRACTION}"
    rf"(?:[ ,.]+(?>(?:{_RETRACTION}|<move.rather>)(?!\w)))*[ ,.]+"
)
# References to a thing mentioned before: "remind me of it tomorrow".
PRONOUN = lexicon.Expression(r"\b<reminder.pronoun>\b")
# Words between the order and the thing.
JOINING = lexicon.AnyCase(r"[\s,:;—–-]*(?:<reminder.joining>(?![\w'-])[\s,]*)?")
POLITE_END = lexicon.AnyCase(r"(?<![\s,])[\s,]+<reminder.polite_end>(?=[\s.!?]*$)")


@dataclass(frozen=True)
class _SpanRun:
    """Adjacent time spans and their position: "beside" the order, "beginning", "end", "inside"."""

    spans: tuple[Span, ...]
    position: str

    @property
    def is_certain(self) -> bool:
        """True if it names a day, an hour or a habit, not only a month or a year."""
        return any(
            span.slot in ("clock", "every", "after")
            or (
                span.slot == "date" and (span.kind != "named" or not span.words.keys() & FAR_DATES)
            )
            for span in self.spans
        )


@dataclass(frozen=True)
class _Order:
    """Order to remind at ``[start, end)`` of a folded text.

    Attributes:
        folded: The text.
        begin: Start of its sentence.
        start: Start of the order.
        end: End of the order.
        kind: Name of the group of ``COMMAND`` that matched.
        asking: Position of "can you" some words before it.
    """

    folded: str
    begin: int
    start: int
    end: int
    kind: str
    asking: tuple[int, int] | None = None

    def usable(self, spans: Sequence[Span]) -> list[Span]:
        """Return the spans outside the order; a habit may be inside ("a daily reminder").

        A bare English part of a day ("morning") counts only after a day.
        """
        usable: list[Span] = []
        for span in spans:
            is_inside = span.start < self.end and span.end > self.start
            if is_inside and span.slot != "every":
                continue
            if span.slot == "date" and LIMIT.search(self.folded[: span.start][-20:]):
                continue  # "до 5 декабря"
            is_bare = span.kind.startswith("bare")
            if is_bare and not (usable and self.folded[usable[-1].end : span.start] == " "):
                continue
            usable.append(span)
        return usable

    def runs(self, spans: Sequence[Span]) -> list[_SpanRun]:
        groups: list[list[Span]] = []
        for span in spans:
            last = groups[-1][-1].end if groups else 0
            has_order_between = last <= self.start < span.start
            is_near = bool(groups) and span.start - last <= 30 and not has_order_between
            if is_near and BETWEEN.fullmatch(self.folded, last, span.start):
                groups[-1].append(span)
            else:
                groups.append([span])
        return [_SpanRun(tuple(group), self.position_of(group)) for group in groups]

    def position_of(self, group: Sequence[Span]) -> str:
        first, last = group[0], group[-1]
        folded = self.folded
        if self.start <= first.start < self.end:
            return "beside"
        if first.start >= self.end:
            after_order = AFTER_ORDER.behind(folded, self.end)
            if after_order >= first.start or BETWEEN.fullmatch(folded, after_order, first.start):
                return "beside"
            return "end" if ENDING.fullmatch(folded, last.end) else "inside"
        if BEFORE_ORDER.match(folded[last.end : self.start]):
            return "beside"
        return "beginning" if BEGINNING.behind(folded) >= first.start else "inside"

    def choose(self, runs: Sequence[_SpanRun]) -> list[_SpanRun]:
        chosen: list[_SpanRun] = []
        used: set[str] = set()
        for position in ("beside", "end", "beginning", "inside"):
            for run in (run for run in runs if run.position == position):
                # A wait counts as a day.
                slots = {"date" if span.slot == "after" else span.slot for span in run.spans}
                slots.discard("limit")
                if not slots or slots & used or not self.is_time(run):
                    continue
                used |= slots
                chosen.append(run)
        return [run for run in runs if run in chosen]

    def times(self, chosen: Sequence[_SpanRun], all_spans: Sequence[Span]) -> list[Span]:
        """Return the chosen spans; a habit has the limits of all of the text."""
        spans = [span for run in chosen for span in run.spans if span.slot != "limit"]
        if any(span.slot == "every" for span in spans):
            spans += [span for span in all_spans if span.slot == "limit"]
        return sorted(spans, key=lambda span: span.start)

    def is_time(self, run: _SpanRun) -> bool:
        """Return True for the time of the reminder, not of the thing: "билеты на пятницу"."""
        if run.position == "beside" or self.kind in ("noun", "label"):
            return True
        span = run.spans[0]
        is_day = span.slot in ("date", "after") and span.kind != "offset"
        may_be_of_thing = is_day and run.position != "beginning"
        if may_be_of_thing and NAMED_FOR.match(self.folded, span.start, span.end):
            return False
        if span.which in ("last", "before last"):
            return False
        return span.kind != "ago" and (day_offset(span.words.get("word", "")) or 0) >= 0

    def asks(self, chosen: Sequence[_SpanRun], what: str) -> bool:
        """Return True if it asks for a reminder of this text at these times."""
        if self.kind in ("noun", "label"):
            return True
        folded = fold(what)
        if any(run.position == "beside" for run in chosen):
            is_asked = self.folded.endswith("?")
            if is_asked and self.kind == "order":
                return _begins_with_infinitive(folded) or ABOUT.match(folded) is not None
            return bool(what) or not is_asked
        return self.asks_for_text(chosen, folded)

    def asks_for_text(self, chosen: Sequence[_SpanRun], folded: str) -> bool:
        """Return True if an order without a time beside it asks for a reminder of its text."""
        task = self.folded[AFTER_ORDER.behind(self.folded, self.end) :]
        is_to_do = TO_INFINITIVE.match(task) is not None or _begins_with_infinitive(folded)
        if not TO_INFINITIVE.match(task) and (QUESTION.match(task) or ASKS_TOO.match(task)):
            return False
        if is_to_do:
            return self.kind != "will" or bool(chosen)
        if not any(run.is_certain for run in chosen):
            return False
        has_clock = any(span.slot == "clock" for run in chosen for span in run.spans)
        if has_past_verb(folded) or (
            (TALKED.search(folded) or MENTIONING.search(folded)) and not has_clock
        ):
            return False
        is_before_order = any(run.spans[0].start < self.start for run in chosen)
        is_habit = any(span.slot == "every" for run in chosen for span in run.spans)
        return is_before_order or is_habit or ABOUT.match(task) is not None

    def text(self, source: str, spans: Sequence[Span]) -> str:
        cuts = [(s.start, s.end) for s in spans if s.slot != "before" or s.kind == "earlier"]
        starts = {start for start, _ in cuts}  # "half an hour | before 6pm" goes with its hour
        cuts += [(s.start, s.end) for s in spans if s.slot == "before" and s.end + 1 in starts]
        cuts += [self.asking] if self.asking else []
        if self.kind != "wake":
            cuts.append((self.start, AFTER_ORDER.behind(self.folded, self.end)))
        merged: list[tuple[int, int]] = []  # those with only joints between them are one
        for start, end in sorted(cuts):
            last = merged[-1][1] if merged else start
            gap = self.folded[last:start]
            is_near = bool(merged) and start - last <= 30
            if is_near and (BETWEEN.fullmatch(gap) or AFTER_ORDER.fullmatch(gap)):
                merged[-1] = (merged[-1][0], max(end, last))
            else:
                merged.append((start, end))
        rest = " ".join(between(self.folded, [cut for cut in merged if cut[1] > self.start])[1:])
        if re.search(r"\w", rest) and not PRONOUN.search(rest):  # the text before is context
            merged = [(0, self.begin), *(cut for cut in merged if cut[1] > self.begin)]
        # Punctuation stays after the text it belongs to: "встреча, за час до неё".
        pieces = [piece.lstrip(" ,:;)—–-").rstrip(" :—–-") for piece in between(source, merged)]
        text = " ".join(piece for piece in pieces if re.search(r"\w", piece))
        text = POLITE_END.sub("", BEGINNING_OF_TEXT.sub("", text))
        text = text[JOINING.behind(text) :].strip().rstrip(" ,;:.?(—–-")
        return text if re.search(r"\w", text) else ""


def read_reminder(text: str, now: datetime, time_zone: str) -> ReminderRequest | None:
    """Return the reminder that a message asks for, or None if it asks for none.

    Args:
        text: A message; one of more than 1,000 characters is no request.
        now: The current time (aware); the reminder is later.
        time_zone: The user's time zone, a name of the tz database.
    """
    if len(text) > MAX_TEXT:
        return None
    source = single_spaced(INVISIBLE.sub("", unicodedata.normalize("NFC", mend_orders(text))))
    if HINT.search(source) is None:
        return None
    source, own_zone, all_spans, order = _cut_out_zone(_drop_corrected_time(source))
    if order is None:
        return None
    chosen = order.choose(order.runs(order.usable(all_spans)))
    spans = order.times(chosen, all_spans)
    what = order.text(source, spans)
    if not order.asks(chosen, what):
        return None
    request = read_timing(what, spans, now, own_zone or time_zone)
    if own_zone is None:
        return ReminderRequest(what, problem="no_zone")
    if own_zone:
        repeats = request.repeats and replace(request.repeats, zone=own_zone)
        request = replace(request, time_zone=own_zone, repeats=repeats)
    is_bare = not what and request.problem in (None, "no_time")
    return replace(request, problem="no_text") if is_bare else request


def begins_as_question(text: str) -> bool:
    """Return True if a text begins with a question word, and does not speak of reminding."""
    return HINT.search(text) is None and QUESTION_WORD.match(fold(text)) is not None


def requests_in(text: str) -> list[str]:
    """Return the requests of a message as a message each; the second is on the day of the first.

    A list below the order has one on each line. "Remind me tomorrow at 8 to call mum and at 9 to
    pay rent", "remind me tonight at 11 and tomorrow at 7 to take the pills", "remind me at 8 vet,
    at 9 gym" and "remind me to call mum at 5 and dad at 6" have two.
    """
    if HINT.search(text) is None:
        return [text]
    listed = _requests_of_lines(text)
    if listed or len(text) > MAX_TEXT:
        return listed or [text]
    return _requests_of_list(text) or _requests_of_sentence(text)


def _requests_of_list(text: str) -> list[str]:
    """Return the requests of "on Dec 3, 10 and 17", one for each day or hour; else nothing."""
    folded = fold(text)
    for pattern in LISTS:
        found = pattern.search(folded)
        if found is None:
            continue
        begin, end = found.span("items")
        requests = []
        for item in ITEM_END.split(text[begin:end]):
            lead = "" if PREPOSITION.match(fold(item)) else found["lead"]
            requests.append(f"{text[: found.start()]}{lead}{item}{text[end:]}")
        read = [read_reminder(one, datetime.now(UTC), "UTC") for one in requests]
        is_time = all(one and (one.when or one.problem == "past") for one in read)
        if is_time and len({one.what for one in read if one and not one.repeats}) == 1:
            return requests
    return []


def _requests_of_sentence(text: str) -> list[str]:
    folded, spans, order = _read_order(text)
    if order is None or order.kind != "order":
        return [text]
    if things := _requests_of_things(text, folded, spans, order):
        return things
    said = order.end  # up to here
    for number, span in enumerate(spans):
        if span.start < order.end:
            continue
        joint = BEFORE_SECOND.search(folded, said, span.start)
        joint = joint or LISTED.search(folded, said, span.start)
        done = folded[said : joint.start()] if joint is not None else ""
        said = span.end
        before, run = spans[:number], _adjacent_spans(spans[number:], folded)
        task = folded[run[-1].end :]
        if joint is None or not _is_of_second(before, done, joint[0], run, task):
            continue
        first = text[: joint.start()]
        if not re.search(r"\w", done):
            first += text[run[-1].end :]
        has_day = any(s.slot in DAY_SLOTS for s in run)
        days = [] if has_day else [s for s in before if s.slot in ("date", "every", "limit")]
        day = " ".join(text[s.start : s.end] for s in days)
        again = f"{text[order.start : order.end]} {day} {text[span.start :]}"
        return [first, *requests_in(single_spaced(again))]
    return [text]


def _requests_of_lines(text: str) -> list[str]:
    """Return the requests of a list below "remind me:", one a line, each with a time."""
    head, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    _, days, order = _read_order(head)
    if order is None:
        return []
    rest = _blank_out(order.folded, days)[AFTER_ORDER.behind(order.folded, order.end) :]
    if re.search(r"\w", rest):
        return []
    lines = [LIST_MARK.sub("", line) for line in lines]
    if not all(find_reminder_spans(fold(line)) for line in lines):
        return []
    return [f"{head.rstrip(' :.—–-')} {line}" for line in lines]


def _is_of_second(
    before: Sequence[Span], done: str, joint: str, run: Sequence[Span], task: str
) -> bool:
    """Return True if a time is that of another request.

    Args:
        before: The times before it.
        done: What stands between the last of them and the joint.
        joint: "And", or a comma alone.
        run: The time.
        task: What follows it.
    """
    hours, others = (
        {span.words.get("minute", "00") for span in spans if span.slot in ("clock", "part")}
        for spans in (before, run)
    )
    has_hours, is_and = bool(hours and others), bool(joint.strip(" ,;"))
    has_day = any(span.slot in DAY_SLOTS for span in run)
    if not re.search(r"\w", done):
        is_habit = any(span.slot == "every" for span in (*before, *run))
        is_one = is_habit and hours == others  # one recurrence holds all hours
        return is_and and has_hours and not is_one and (run[0].slot == "date" or not has_day)
    kind = _kind_of_task(task)
    if has_hours and kind and kind == _kind_of_task(done):
        return True
    return is_and and (kind in ("to", "infinitive") or (has_hours and has_day))


def _kind_of_task(task: str) -> str:
    """Return how a thing to do begins: "to", "infinitive", "thing"; "" for a clause or nothing."""
    task = task.lstrip(" ,:")
    if TO_INFINITIVE.match(task) is not None:
        return "to"
    if _begins_with_infinitive(task):
        return "infinitive"
    thing = task.partition(",")[0]
    is_clause = NO_TASK.match(task) is not None and ABOUT.match(task) is None
    return "thing" if words(thing) and not is_clause and not has_verb(thing) else ""


def _requests_of_things(text: str, folded: str, spans: Sequence[Span], order: _Order) -> list[str]:
    """Return the requests of "call mum at 5 and dad at 6", each with the verb; else nothing."""
    doing = DOING.match(folded, order.end)
    others = {span.slot for span in spans} - {"date", "clock", "part"}
    is_before = any(span.slot == "clock" and span.start < order.start for span in spans)
    things = _things_with_hours(folded, [span for span in spans if span.start >= order.end], order)
    if doing is None or others or is_before or len(things) < 2:
        return []
    verb = doing["doing"]
    is_doing = verb.startswith("to ") or ABOUT.fullmatch(verb) or _begins_with_infinitive(verb)
    if not is_doing:
        return []
    # The day of all: before the order, in the first of them, or at the end ("at 6 tomorrow").
    first, last = things[0][1], things[-1][1][-1]
    shared = [s for s in spans if s.start < order.start or s in first or s == last]
    days = [span for span in shared if span.slot == "date"][:1]
    requests: list[str] = []
    for begin, run in things:
        thing = text[begin : run[0].start]
        if requests:
            thing = _with_doing(verb, thing)
        if not any(span.slot == "date" for span in run):
            run = [*days, *run]
        when = " ".join(text[span.start : span.end] for span in run)
        requests.append(single_spaced(f"{text[order.start : order.end]} {thing} {when}"))
    return requests


def _things_with_hours(
    folded: str, spans: Sequence[Span], order: _Order
) -> list[tuple[int, list[Span]]]:
    """Return where each thing begins, with its time; nothing unless each has an hour behind it."""
    things: list[tuple[int, list[Span]]] = []
    said, rest = order.end, list(spans)
    while rest:
        run = _adjacent_spans(rest, folded)
        begin = said
        if things:
            begin = BEFORE_THING.behind(folded, said)
        has_thing = re.search(r"\w", folded[begin : run[0].start]) is not None
        has_hour = any(span.slot == "clock" for span in run)
        if not has_thing or not has_hour or (things and begin == said):
            return []
        things.append((begin, run))
        said, rest = run[-1].end, rest[len(run) :]
    return things if ENDING.fullmatch(folded, said) else []


def _with_doing(doing: str, thing: str) -> str:
    """Return "to call dad" for "to call" and "dad", and what has a verb of its own as it is."""
    first = thing.split()[0]
    if ABOUT.match(fold(thing)) or _begins_with_infinitive(fold(thing)):
        return thing
    is_noun = first[0].isupper() or kin_of(first) or first in lexicon.words("forget.determiner")
    if doing.startswith("to ") and not is_noun:
        return f"to {thing}"  # in English it may be a verb: "drive home"
    return f"{doing} {thing}"


def _drop_corrected_time(source: str) -> str:
    """Remove a time that the same text takes back: "at 3pm, no wait, at 4pm"."""
    folded = fold(source)
    spans = find_reminder_spans(folded) if CORRECTING.search(folded) else []
    for i in range(1, len(spans)):
        if CORRECTION.fullmatch(folded, spans[i - 1].end, spans[i].start) is None:
            continue
        new = {span.slot for span in _adjacent_spans(spans[i:], folded)}
        old = _adjacent_spans(spans[i - 1 :: -1], folded)
        count = next((n for n, span in enumerate(old) if span.slot not in new), len(old))
        if count:
            return _drop_corrected_time(source[: old[count - 1].start] + source[spans[i].start :])
    return source


def _adjacent_spans(spans: Sequence[Span], folded: str) -> list[Span]:
    adjacent = [*spans[:1]]
    for left, right in pairwise(spans):
        first, second = sorted((left, right), key=lambda span: span.start)
        if folded[first.end : second.start].strip(" ,"):
            break
        adjacent.append(right)
    return adjacent


def _cut_out_zone(source: str) -> tuple[str, str | None, Sequence[Span], _Order | None]:
    """Cut out the zone that a text names for its hour.

    Returns:
        The text, the zone (see ``zone_beside``), and the spans and the order found in the text,
        which is parsed again if a zone was cut out.
    """
    folded, found, order = _read_order(source)
    spans = [(span.start, span.end) for span in found]
    zone = zone_beside(folded, [(order.start, order.end), *spans]) if order else None
    if zone is None:
        return source, "", found, order
    source = source[: zone[0]] + source[zone[1] :]
    return source, zone[2], *_read_order(source)[1:]


def _read_order(source: str) -> tuple[str, Sequence[Span], _Order | None]:
    folded = fold(source).replace("\n", " ")
    spans = find_reminder_spans(folded)
    rest = _blank_out(folded, spans)
    for match in COMMAND.finditer(folded):
        start, kind = match.start(), match.lastgroup or "order"
        begin = max((end.end() for end in SENTENCE_END.finditer(rest, 0, start)), default=0)
        asking = ASKING.search(rest, begin, start) if kind == "infinitive" else None
        if kind == "infinitive" and asking is None:
            continue
        before = rest[begin:start]
        stripped = before.rstrip()
        if QUESTION_WORD.match(before) or NEGATED.search(stripped) or stripped.endswith(QUOTES):
            continue
        if TALKED.search(before) or REPORTED.search(before):
            continue  # "мама сказала: напомни …"
        is_free = kind == "kept" or not match[0][-1].isascii()
        if is_free or CLAUSE.search(before) is not None:
            span = asking.span() if asking else None
            return folded, spans, _Order(folded, begin, start, match.end(), kind, span)
    return folded, spans, None


def _blank_out(folded: str, spans: Iterable[Span]) -> str:
    for span in spans:
        blanks = " " * (span.end - span.start)
        folded = folded[: span.start] + blanks + folded[span.end :]
    return folded


def _begins_with_infinitive(folded: str) -> bool:
    if (task := TASK.match(folded)) is None:
        return False
    word = task["word"]
    tags = parts_of_speech(word)
    return bool(tags & {"INFN", "infn"}) if tags else INFINITIVE_FORM.fullmatch(word) is not None
