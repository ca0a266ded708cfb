"""What a person asks in plain words: to forget, to keep quiet, what is known, what time it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from babel.dates import format_datetime

from src.base.zone_names import find_time_zone
from src.reading import lexicon
from src.reading.sentences import FOLD, TAG, sentences
from src.reading.words import content
from src.texts import Language
from src.texts.morphology import lemmas, tells_deed
from src.texts.plain_text import plain

# What a person asks of a memory in plain words: to forget, to keep quiet, to show what it knows.
#
# Anchored at the beginning of a sentence and linear; what else the sentence may be is for others.

MAX_TEXT = 1000  # characters; a longer message is no request
POLITE = r"(?:<requests.polite>[\s,!.]+)*"
YOU_MAY = r"(?:<requests.you_may>[\s,]+|<requests.you_may_english> )"
# "Can you", "а можно": what follows is no question.
ASKING = lexicon.AnyCase(rf"^\W*(?:<lines.opener>[ ,]+)?(?:{YOU_MAY}|<move.may> )")
# What may be said only behind "you may" is in the past: "чтобы ты забыла", not "я забыла".
FORGET = lexicon.AnyCase(
    rf"{POLITE}(?:(?P<may>{YOU_MAY})(?:<requests.please> )?)?(?:(?(may)<forget.past>|(?!))"
    r"|<forget.verb>|<forget.take_out>(?= .*<forget.memory>))"
    r"(?![\w'-])[\s,:]*(?:<forget.forever>\b)?[\s,:]*"
)
# What may stand behind the thing and is no part of it.
BEHIND = lexicon.AnyCase(
    r"(?:[\s,]+(?:<forget.behind>|(?><forget.determiner>\s+)*<forget.matter>)){1,4}$"
)
# A reply to a list, of which one is to be picked.
ALL_OF_THEM = lexicon.AnyCase(r"<answers.all_of_them>[.! ]*")
EVERYTHING = lexicon.AnyCase(r"<forget.everything>[\s,]*")
# What stands between the verb and the thing: "what you know about", "all that I told you of".
WHAT_IS_KNOWN = lexicon.AnyCase(
    r"(?:<forget.from_memory> )?(?:<forget.what> )?(?:<forget.i_said>|<forget.you_know>)?[\s,]*"
)
ABOUT = lexicon.AnyCase(r"<forget.about>(?![\w'-])[\s,]*")
# "That whole business with", "эту тему про": it stands for the thing behind it.
MATTER = lexicon.AnyCase(
    r"(?><forget.determiner>\s+)*<forget.matter>\s+(?:<forget.about>|<forget.with>)(?![\w'-])[\s,]*"
)
# "Про Тучку забудь": the verb behind the thing.
FORGET_LAST = lexicon.AnyCase(
    rf"{POLITE}(?P<thing><forget.last_thing>\s.{{1,80}}?)(?<!\bн[еі])[\s,]+(?:<requests.please>,?\s+)?"
    r"<forget.last_verb>(?:[\s,]+<forget.behind>){0,2}(?:\s*[,;(—–-].*|[\s.!]*)"
)
# "Forget that, I was joking": what follows the sign is a reason.
THAT = lexicon.AnyCase(r"<forget.that>\s*[,.;:(—–]")
# "Забудь про ёлку, купил уже": what says why begins with a verb or who did it.
REASON = lexicon.AnyCase(
    r"\s*[,(—–]\s*(?=(?P<word>[^\W\d_]+))(?P<sure><forget.reason>(?![\w'-]))?"
)
PLAIN_REASON = lexicon.AnyCase(r"(?<=\w)(?:[,;(]|\s+<forget.who>(?![\w'-]))")
ALL = lexicon.AnyCase(r"\b<forget.all>\b")
OF_ME = lexicon.AnyCase(r"\b<forget.of_me>\b")


@dataclass(frozen=True)
class ForgetRequest:
    """What is to be forgotten.

    Attributes:
        about: In the words of the request; empty for "everything about me", and for "forget it",
            which does not say what.
        everything: All that is known of it, not one thing.
        is_last: "Forget it": what was spoken of last.
    """

    about: str
    everything: bool = False
    is_last: bool = False


def forget_request(text: str) -> ForgetRequest | None:
    """What a message wants forgotten, in the first of its sentences that does; else None.

    "Не забудь", "don't forget" and "I forgot" are no such requests, nor is a question, unless it
    is a polite one ("can you forget …?").
    """
    if len(text) > MAX_TEXT:
        return None
    return next(filter(None, map(_request, sentences(text))), None)


def asks_to_forget_all(text: str) -> bool:
    """Whether a message asks to forget everything about the user himself."""
    wanted = forget_request(text)
    return wanted is not None and wanted.everything and not wanted.about


def _request(sentence: str) -> ForgetRequest | None:
    sentence = TAG.sub("", sentence.strip())
    folded = sentence.translate(FOLD)
    verb = FORGET.match(folded)
    if folded.endswith("?") and (verb is None or verb["may"] is None):
        return None
    if verb is None:
        last = FORGET_LAST.fullmatch(folded)
        return _read(sentence[last.start("thing") : last.end("thing")]) if last else None
    return _read(sentence[verb.end() :])


def _read(thing: str) -> ForgetRequest:
    """What stands beside the verb: one thing, all of a thing, all that is known, or nothing."""
    thing = _without_reason(thing.rstrip(" .!?…,;"))
    behind = BEHIND.search(thing.translate(FOLD))
    thing = thing[: behind.start()] if behind else thing
    bare = thing.translate(FOLD)
    if THAT.match(bare) is not None:
        return ForgetRequest("", is_last=True)
    start = of_everything = EVERYTHING.behind(bare)
    for pattern in (WHAT_IS_KNOWN, ABOUT, MATTER):
        start = pattern.behind(bare, start)
    if all(forms & _nameless() for forms in content(OF_ME.sub(" ", ALL.sub(" ", bare)))):
        is_all = ALL.search(bare) is not None or OF_ME.search(bare) is not None
        return ForgetRequest("", everything=is_all, is_last=not is_all and bool(bare))
    about = " ".join(thing[start:].strip(' ,:«»"“”—–-').split())
    return ForgetRequest(about, everything=ALL.search(bare) is not None and of_everything > 0)


def without_plain_reason(about: str) -> str:
    """What is left before what may be a reason ("… in Sochi she is home"); empty: none is."""
    reasons = (about[: begin.start()] for begin in PLAIN_REASON.finditer(about.translate(FOLD)))
    return next(filter(content, reasons), "")


def _without_reason(thing: str) -> str:
    for begin in REASON.finditer(thing):
        is_why = begin["sure"] is not None or tells_deed(begin["word"])
        if is_why and content(thing[: begin.start()]):
            return thing[: begin.start()]
    return thing


@cache
def _nameless() -> frozenset[str]:
    return frozenset(form for word in lexicon.words("forget.nameless") for form in lemmas(word))


_QUIETLY, _BUT = r"(?><requests.quietly>[\s,]+)*", r"(?><requests.but>[\s,]+)*"
_PRIVATE, _THIS = "<requests.private>", "<requests.this>"
_OBJECT = r"(?>\s+<requests.private_object>(?!\w))*"
_NEXT = r"(?:<lines.the_next>(?:\s+[^\W\d]+){0,2}\s+)?"
# "Don't remember this: …", with a sign behind it or with "this"; "don't remember that I …" wants
# something forgotten.
PRIVATE_FIRST = lexicon.AnyCase(
    rf"^\W*{_QUIETLY}{_PRIVATE}(?:{_OBJECT}\s*(?:[:.,;!\n)(]|\s[-—–]+\s|$)|\s+(?!that){_THIS}\b)"
    r"(?!\s*(?:that|where)\b)"
)
PRIVATE_LAST = lexicon.AnyCase(
    rf"(?:^|[.,;:!?()\n]|\s[-—–]+\s)\W*+{_NEXT}{_QUIETLY}{_BUT}{_PRIVATE}{_OBJECT}\W*$"
    r"|(?<!\bi)(?<!\bwe)(?<!\byou)(?<!\bthey)(?<!\bwho)(?<!really)(?<!still)(?<!just)"
    rf"(?<!honestly)(?<!often)\s(?:{_BUT}{_THIS}\s+{_PRIVATE}|{_PRIVATE}\s+{_THIS})"
    r"(?:\s+<requests.please>)?\W*$"
)
MAX_EDGE = 300  # characters in which the phrase is looked for


def asks_to_keep_private(text: str) -> bool:
    """Whether a message begins or ends with a request not to remember it.

    The search must never see such a message, also when a model forgets to call its tool, so this
    is asked before anything else happens to it.
    """
    lines = (plain(line) for line in text.splitlines())
    folded = "\n".join(lines).replace("ё", "е")
    first, last = PRIVATE_FIRST.match(folded[:MAX_EDGE]), PRIVATE_LAST.search(folded[-MAX_EDGE:])
    return first is not None or last is not None


THE_NEXT = lexicon.AnyCase(
    rf"\b<lines.the_next>(?:\s+[\w']+){{0,2}}(?:\s+{_PRIVATE}{_OBJECT})?\W*$"
)


def announces_private(text: str) -> bool:
    """Whether a message asks not to remember the one that comes after it."""
    return asks_to_keep_private(text) and THE_NEXT.search(text) is not None


def picked(reply: str, options: Sequence[str]) -> str:
    """Which of listed options a reply means: the one at its place ("second"), or its words."""
    place = lexicon.key_of("answers.place", reply.lower().strip(" .!"))
    return options[int(place)] if place is not None and int(place) < len(options) else reply


# What each overview is asked for by, in the order of trial.
OVERVIEWS = {
    kind: lexicon.AnyCase(rf"(?<!\w)<ask.{kind}>(?!\w)")
    for kind in ("wishes", "family", "work", "profile")
}
TALKED = lexicon.AnyCase(r"\b<requests.talked>\b")


def overview_of(text: str) -> str | None:
    """Which overview a message asks for: profile, family, work or wishes; None: none of them."""
    folded = text.translate(FOLD).strip()
    if len(folded) > 200:
        return None
    return next((kind for kind, asked in OVERVIEWS.items() if asked.search(folded)), None)


def asks_what_was_said(text: str) -> bool:
    """Whether a message, without its words for a time, asks for nothing but what was said."""
    folded = text.translate(FOLD)
    if len(folded) > 200 or TALKED.search(folded) is None:
        return False
    return all(forms & lexicon.words("requests.talk_words") for forms in content(text))


_PLACE = r"<clocktime.place>\s+(?P<{}>[^\s?.!,][^?.!,]{{1,39}}?)"
TIME_QUESTION = lexicon.AnyCase(
    rf"(?:(?:<clocktime.lead>|<clocktime.now>)[\s,]+)*(?:{_PLACE.format('before')}[\s,]+)?<clocktime.question>"
    rf"(?: is it| it is)?(?:\s+<clocktime.now>)*(?:\s+{_PLACE.format('after')})?"
    r"(?:\s+<clocktime.now>|[\s,]+<requests.please>)*[\s?.!]*"
)
MAX_SENTENCE = 120  # characters; nobody asks for the time in more
ANSWER = re.compile(r"(\S+ \S+), \w+ \((\S+), UTC([+-]\d\d)(\d\d)\)")  # of the tool current_time


def asked_place(text: str) -> str | None:
    """Where somebody asks for the time; empty: here; None: he asks something else.

    A place is a city of a time zone, or at least a name: "сколько времени в пути" asks for none.
    """
    for sentence in sentences(text):
        folded = sentence.translate(FOLD).strip()
        match = TIME_QUESTION.fullmatch(folded) if len(folded) <= MAX_SENTENCE else None
        if match is None:
            continue
        place = (match["before"] or match["after"] or "").strip()
        if not place and (folded.endswith("?") or " " in folded):
            return ""
        if place and (place[0].isupper() or find_time_zone(place)):
            return place
    return None


def describe_time(answer: str, language: Language) -> str:
    """What ``current_time`` says, as people say it: ``01:38, понедельник, 23 ноября (…)``.

    Empty where it says no time.
    """
    match = ANSWER.match(answer)
    if match is None:
        return ""
    moment, zone, hours, minutes = match.groups()
    now = datetime.fromisoformat(moment)
    day = format_datetime(now, "EEEE, d MMMM", locale=language)
    return f"{now:%H:%M}, {day} ({zone}, UTC{hours}:{minutes})"
