"""Requests in plain words: to forget, to keep private, to list what is known, to tell the time.

Statements and orders about time zones are read here as well.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise

from babel.dates import format_datetime

from src.base import zones
from src.reading import lexicon
from src.reading.sentences import ASKING_WORD, FOLD, OPENER, TAG, sentences
from src.reading.words import content, has_verb, mend_orders
from src.texts import Language, morphology
from src.texts.morphology import is_action_verb, lemmas
from src.texts.plain_text import plain

# All expressions are anchored at the beginning of a sentence and linear.

MAX_TEXT = 1000  # characters; a longer message is no request
POLITE = r"(?>(?:<requests.polite>|<lines.opener>)[\s,!.]+)*"
YOU_MAY = r"(?:<requests.you_may>[\s,]+|<requests.you_may_english> )"
# "Can you", "а можно": the rest is an order, not a question.
ASKING = lexicon.AnyCase(rf"^\W*(?:<lines.opener>[ ,]+)?(?:{YOU_MAY}|<move.may> )")
# Past forms count only after "you may": "чтобы ты забыла", not "я забыла".
FORGET = lexicon.AnyCase(
    rf"{POLITE}(?:(?P<may>{YOU_MAY})(?:<requests.please> )?)?(?:(?(may)<forget.past>|(?!))"
    r"|<forget.verb>|<forget.take_out>(?= .*<forget.memory>))"
    r"(?![\w'-])[\s,:]*(?:<forget.forever>\b)?[\s,:]*"
)
# Words after the thing that are no part of it.
TRAILING = lexicon.AnyCase(
    r"(?:[\s,]+(?:<forget.behind>|(?><forget.determiner>\s+)*<forget.matter>)){1,4}$"
)
# Reply to a list of options: all of them.
ALL_OF_THEM = lexicon.AnyCase(r"<answers.all_of_them>[.! ]*")
EVERYTHING = lexicon.AnyCase(r"<forget.everything>[\s,]*")
# Words between the verb and the thing: "what you know about", "all that I told you of".
WHAT_IS_KNOWN = lexicon.AnyCase(
    r"(?:<forget.from_memory> )?(?:<forget.what> )?(?:<forget.i_said>|<forget.you_know>)?[\s,]*"
)
ABOUT = lexicon.AnyCase(r"<forget.about>(?![\w'-])[\s,]*")
# "That whole business with", "эту тему про", before the thing itself.
MATTER = lexicon.AnyCase(
    r"(?><forget.determiner>\s+)*<forget.matter>\s+(?:<forget.about>|<forget.with>)(?![\w'-])[\s,]*"
)
# "Про Тучку забудь": the verb after the thing.
FORGET_LAST = lexicon.AnyCase(
    r"(?:.{1,60}?[\s,])??(?P<thing><forget.last_thing>\s.{1,80}?)(?<!\bн[еі])[\s,]+(?:<requests.please>,?\s+)?"
    r"<forget.last_verb>(?:[\s,]+<forget.behind>){0,2}(?:\s*[,;(—–-].*|[\s.!]*)"
)
# "Cross milk off the list"; and "take the screws off too".
CROSS_OFF, TAKE_OFF = lexicon.AnyCase.each(
    *(
        rf"{POLITE}(?:{YOU_MAY})?{verb} (?P<thing>.{{2,60}}?) <forget.off>"
        r"(?:[\s,]+<forget.behind>){0,2}[\s.!]*"
        for verb in ("<forget.cross>", "<forget.take>")
    )
)
GOT = lexicon.AnyCase(r"(?<![\w'-])<forget.got>(?![\w'-])")
# "The 3200 thing, forget it", "резину вычеркни, продал": a thing without a word before it, but no
# report ("мама сказала забудь").
FORGET_AFTER = lexicon.AnyCase(
    r"(?P<thing>.{2,60}?(?P<last>[\w']+))(?<!\bн[еі])[\s,;:()—–-]+(?:<requests.please>,?\s+)?"
    r"<forget.last_verb>(?:[\s,]+<forget.behind>){0,3}(?:\s*[,;(—–-].*|[\s.!]*)"
)
# "He paid me back forget about the debt": an order behind its reason, unless "can't" or the like
# stands before it.
FORGET_BEHIND = lexicon.AnyCase(
    r"(?P<reason>.*?(?P<last>[\w']+))[\s,;:()—–-]+(?:<requests.please>,? )?"
    r"<forget.verb>[\s,]+(?=(?:<forget.about>|<forget.whose>)(?![\w'-]))"
)
# "Forget that, I was joking": a reason follows the sign.
FORGET_THAT = lexicon.AnyCase(r"<forget.that>\s*[,.;:(—–]")
# "Забудь про ёлку, купил уже": a reason begins with a verb or its subject.
REASON = lexicon.AnyCase(
    r"\s*[,(—–]\s*(?=(?P<word>[^\W\d_]+))(?P<sure><forget.reason>(?![\w'-]))?"
)
ORDER_WORDS = lexicon.AnyCase(
    r"(?<![\w'-])(?:<forget.verb>|<forget.last_verb>|<requests.please>)(?![\w'-])"
)
# "Забудь код, остальное оставь", "forget what Bev charges but keep her number": what stays.
KEPT = lexicon.AnyCase(
    r"(?<=\w)[\s,;:(—–-]+(?:(?:<forget.but>|<forget.rest>)\b.{0,40}?\b<forget.stays>"
    r"|(?:<find.clause> )?<forget.keep> <forget.rest>"
    r"|(?<=[,;(—–] )(?:[\w'-]+ ){0,3}?<forget.stays>)(?![\w'-]).*"
)
PLAIN_REASON = lexicon.AnyCase(r"(?<=\w)(?:[,;(]|\s+<forget.who>(?![\w'-]))")
SAYS = lexicon.AnyCase("<forget.says>")
# An order about a thing in a list: "cross off the milk", "take it off the list".
ITEM = lexicon.AnyCase(r"(?<!\w)(?:<forget.crosses>|<lines.list>)(?!\w)")
LIST = lexicon.AnyCase(r"(?<!\w)<lines.list>(?!\w)")
# A list, or what adds to one: "add gel to it".
LISTED = lexicon.AnyCase(r"(?<!\w)(?:<lines.list>|<lines.adds>|<lines.buys>)(?!\w)")
ALL = lexicon.AnyCase(r"\b<forget.all>\b")
OF_ME = lexicon.AnyCase(r"\b<forget.of_me>\b")


@dataclass(frozen=True)
class ForgetRequest:
    """Request to forget.

    Attributes:
        about: Words of the request; empty for "everything about me", and for "forget it", which
            names nothing.
        everything: True for everything known about it, not one thing.
        is_last: True for "forget it": the last thing that was mentioned.
    """

    about: str
    everything: bool = False
    is_last: bool = False


def forget_request(text: str) -> ForgetRequest | None:
    """Return the request of the first sentence that asks to forget something, or None.

    "Не забудь", "don't forget" and "I forgot" are no such requests, nor is a question, unless it
    is a polite one ("can you forget …?").
    """
    if len(text) > MAX_TEXT:
        return None
    return next(filter(None, map(_parse_request, sentences(mend_orders(text)))), None)


def list_request(text: str) -> ForgetRequest | None:
    """Return the request of "take the screws off", an order only if a list has them, or None."""
    match = TAKE_OFF.fullmatch(text.translate(FOLD))
    return None if match is None else _parse_object(match["thing"])


def names_item(text: str, about: str) -> bool:
    """Return True if an order to forget is about a thing in a list: "cross off the milk".

    Args:
        text: The order.
        about: What it names, not the list itself.
    """
    return ITEM.search(text) is not None and LIST.search(about) is None


def asks_to_forget_all(text: str) -> bool:
    """Return True if a message asks to forget everything about the user."""
    request = forget_request(text)
    return request is not None and request.everything and not request.about


def _parse_request(sentence: str) -> ForgetRequest | None:
    sentence = _without_kept(TAG.sub("", sentence.strip()))
    folded = sentence.translate(FOLD)
    verb = FORGET.match(folded)
    if folded.endswith("?") and (verb is None or verb["may"] is None):
        return None
    if verb is not None:
        return _parse_object(sentence[verb.end() :])
    last = FORGET_LAST.fullmatch(folded) or CROSS_OFF.fullmatch(folded)
    if last is not None:
        return _parse_object(sentence[last.start("thing") : last.end("thing")])
    no_order, after = lexicon.words("forget.no_order"), FORGET_AFTER.fullmatch(folded)
    if after is not None:
        thing = sentence[after.start("thing") : after.end("thing")]
        if ITEM.search(folded) is not None:
            thing = GOT.sub("", thing)  # "bought milk, cross it off"
        # "Мама сказала забудь", but not "сколько берёт, забудь".
        is_clause = has_verb(thing) and ASKING_WORD.match(thing) is None
        if content(thing) and not is_clause and after["last"].lower() not in no_order:
            return _parse_object(thing)
    behind = FORGET_BEHIND.match(folded)
    if behind is None or behind["last"].lower() in no_order:
        return None
    request = _parse_object(sentence[behind.end() :])
    return request if request.about else ForgetRequest(behind["reason"])


def _without_kept(sentence: str) -> str:
    """Return a request without what is to stay ("… but keep the rest")."""
    kept = KEPT.search(sentence.translate(FOLD))
    head = sentence if kept is None else sentence[: kept.start()]
    return head if content(ORDER_WORDS.sub(" ", head)) else sentence


def _parse_object(thing: str) -> ForgetRequest:
    thing = thing.rstrip(" .!?…,;")
    for reason in REASON.finditer(thing):
        is_reason = reason["sure"] is not None or is_action_verb(reason["word"])
        if is_reason and content(thing[: reason.start()]):
            thing = thing[: reason.start()]
            break
    tail = TRAILING.search(thing.translate(FOLD))
    thing = thing[: tail.start()] if tail else thing
    bare = thing.translate(FOLD)
    if FORGET_THAT.match(bare) is not None:
        return ForgetRequest("", is_last=True)
    start = everything_end = EVERYTHING.behind(bare)
    for pattern in (WHAT_IS_KNOWN, ABOUT, MATTER):
        start = pattern.behind(bare, start)
    nameless = frozenset[str]().union(*map(lemmas, lexicon.words("forget.nameless")))
    if all(forms & nameless for forms in content(OF_ME.sub(" ", ALL.sub(" ", bare)))):
        is_all = ALL.search(bare) is not None or OF_ME.search(bare) is not None
        return ForgetRequest("", everything=is_all, is_last=not is_all and bool(bare))
    about = " ".join(thing[start:].strip(' ,:«»"“”—–-').split())
    return ForgetRequest(about, everything=ALL.search(bare) is not None and everything_end > 0)


def without_order(text: str) -> str:
    """Return a text without the words of an order to forget that stand in it anywhere."""
    rest = ORDER_WORDS.sub(" ", KEPT.sub("", text.translate(FOLD)))
    return " ".join(TRAILING.sub("", rest.strip(" .!?…,;")).split())


def without_plain_reason(about: str) -> str:
    """Return the text before a possible reason ("… in Sochi she is home"), or ""."""
    starts = [reason.start() for reason in PLAIN_REASON.finditer(about.translate(FOLD))]
    for subject, verb in pairwise(morphology.WORD.finditer(about)):
        if is_action_verb(verb[0]) or SAYS.fullmatch(verb[0].translate(FOLD)):
            starts.append(subject.start())  # "the gate code boss says no"
    heads = (about[:start].rstrip() for start in sorted(starts))
    return next((TRAILING.sub("", head) for head in heads if content(head)), "")


_QUIETLY, _BUT = r"(?><requests.quietly>[\s,]+)*", r"(?><requests.but>[\s,]+)*"
_PRIVATE, _THIS = "<requests.private>", "<requests.this>"
_OBJECT = r"(?>\s+(?:<requests.private_object>|<lines.the_next>|<requests.please>)(?!\w))*"
_NEXT = r"(?:<lines.the_next>(?:\s+[^\W\d]+){0,2}[\s,]+)?"
# "Don't remember this: …", followed by a sign or "this"; "don't remember that I …" is a request to
# forget.
PRIVATE_FIRST = lexicon.AnyCase(
    rf"^\W*{_QUIETLY}{_PRIVATE}(?:{_OBJECT}\s*(?:[:.,;!\n)(]|\s[-—–]+\s|$)|\s+(?!that){_THIS}\b)"
    r"(?!\s*(?:that|where)\b)"
)
PRIVATE_LAST = lexicon.AnyCase(
    rf"(?:^|[.,;:!?()\n]|\s[-—–]+\s)(?>\W*){_NEXT}{_QUIETLY}{_BUT}(?:{_PRIVATE}{_OBJECT}\W*){{1,2}}$"
    r"|(?<!\bi)(?<!\bwe)(?<!\byou)(?<!\bthey)(?<!\bwho)(?<!really)(?<!still)(?<!just)"
    rf"(?<!honestly)(?<!often)\s(?:{_BUT}{_THIS}\s+{_PRIVATE}|{_PRIVATE}\s+{_THIS})"
    r"(?:\s+<requests.please>)?\W*$"
)
MAX_EDGE = 300  # characters at either end that are searched for the phrase


def asks_to_keep_private(text: str) -> bool:
    """Return True if a message begins or ends with a request not to remember it.

    Such a message must never be searchable, even if a model forgets to call its tool, so this
    check runs before anything else.
    """
    lines = (plain(line) for line in text.splitlines())
    folded = "\n".join(lines).replace("ё", "е")
    first, last = PRIVATE_FIRST.match(folded[:MAX_EDGE]), PRIVATE_LAST.search(folded[-MAX_EDGE:])
    return first is not None or last is not None


THE_NEXT = lexicon.AnyCase(
    rf"\b<lines.the_next>(?:\s+[\w']+){{0,2}}(?:[\s,]+{_QUIETLY}{_PRIVATE}{_OBJECT}){{0,2}}\W*$"
)


def announces_private(text: str) -> bool:
    """Return True if a message asks not to remember the next one."""
    return asks_to_keep_private(text) and THE_NEXT.search(text) is not None


NUMBERED = lexicon.AnyCase(r"\W*<answers.number>?([1-9]\d?)(?: one)?\W*")


def place_of(reply: str) -> int | None:
    """Return the index that a reply names, from 0, or -1: "second", "number 2", "the last one"."""
    numbered = NUMBERED.fullmatch(reply)
    if numbered is not None:
        return int(numbered[1]) - 1
    place = lexicon.key_of("answers.place", reply.lower().strip(" .!"))
    if place is None:
        return None
    return int(place)


def pick_option(reply: str, options: Sequence[str]) -> str:
    """Return the option that a reply selects by its place, or the reply itself."""
    place = place_of(reply)
    return options[place] if place is not None and place < len(options) else reply


# Requests for each overview, in the order of trial.
OVERVIEWS = {
    kind: lexicon.AnyCase(rf"(?<!\w)<ask.{kind}>(?!\w)")
    for kind in ("wishes", "family", "work", "profile")
}
I_ASKED = lexicon.AnyCase(r"\b<requests.i_asked>")
TALKED = lexicon.AnyCase(r"\b<requests.talked>\b")


def overview_of(text: str) -> str | None:
    """Return the overview that a message asks for (profile, family, work, wishes), or None."""
    folded = text.translate(FOLD).strip()
    if len(folded) > 200:
        return None
    return next((kind for kind, asked in OVERVIEWS.items() if asked.search(folded)), None)


def asks_what_was_said(text: str) -> bool:
    """Return True if a message, without its words for a time, only asks what was said."""
    folded = text.translate(FOLD)
    if len(folded) > 200 or TALKED.search(folded) is None:
        return False
    return all(forms & lexicon.words("requests.talk_words") for forms in content(text))


def asks_for_questions(text: str) -> bool:
    """Return True if a message asks what its user asked: "what did I ask about the visa?"."""
    return I_ASKED.search(text.translate(FOLD)) is not None


_PLACE = r"<clocktime.place>\s+(?P<{}>[^\s?.!,][^?.!,]{{1,39}}?)"
TIME_QUESTION = lexicon.AnyCase(
    rf"(?:(?:<clocktime.lead>|<clocktime.now>)[\s,]+)*(?:{_PLACE.format('before')}[\s,]+)?<clocktime.question>"
    rf"(?: is it| it is)?(?:\s+<clocktime.now>)*(?:\s+{_PLACE.format('after')})?"
    r"(?:\s+<clocktime.now>|[\s,]+<requests.please>)*[\s?.!]*"
)
MAX_SENTENCE = 120  # characters; a longer sentence does not ask for the time
ANSWER = re.compile(r"(\S+ \S+), \w+ \((\S+), UTC([+-]\d\d)(\d\d)\)")  # from the current_time tool


def asked_place(text: str) -> str | None:
    """Return the place for which a text asks the time ("": here), or None if it does not ask.

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
        if place and (place[0].isupper() or zones.find_time_zone(place)):
            return place
    return None


def describe_time(answer: str, language: Language) -> str:
    """Return the answer of ``current_time`` in words: ``01:38, понедельник, 23 ноября (Киев, …)``.

    Empty if the answer contains no time.
    """
    if (match := ANSWER.match(answer)) is None:
        return ""
    moment, zone, hours, minutes = match.groups()
    now = datetime.fromisoformat(moment)
    day = format_datetime(now, "EEEE, d MMMM", locale=zones.locale_of(language))
    place = zones.place_of_zone(zone, language)
    return f"{now:%H:%M}, {day} ({place}, UTC{hours}:{minutes})"


# Time zones in plain words: the user's own, their home, and the zone of one reminder.

MAX_ZONE_TEXT = 400  # characters; a longer message has other topics
MAX_CLAUSES = 6
PLACE = r"(?<!\w)(?P<place>[^\s,;:!?()][^,;!?()]{0,38})"
CLAUSES = re.compile(r"[.!;)\n]+(?=\s|$)|,\s+")
# Words beside a stated zone that need no answer: "haha kidding".
SMALL_TALK = lexicon.AnyCase(
    r"\W*(?:(?:<lines.opener>|<lines.takes_back>|<reminder.greeting>)(?![\w'-])\W*)*"
)
NAME_WORDS = 3  # of a zone named beside an hour: "San Francisco Bay"
MAX_CANDIDATES = 3
WORD = re.compile(r"[ (,]*([^\s,.;:!?()]+)")
BY_ZONE = lexicon.Expression(r"(?<!\w)<zones.by> ")
TIME_WORD = lexicon.Expression(r"[ ](?P<time><zones.time>)(?!\w)\)?|\)")
# "Dinner time", which is no zone; "local time", which is the user's own.
USUAL_TIME = lexicon.Expression(r"\b<zones.usual>$")
OWN_TIME = lexicon.Expression(r"\b<zones.own>$")
NO_ZONE = lexicon.Expression("<zones.never>")
# "Not Moscow but Samara": the negated place is removed.
CORRECTED = lexicon.AnyCase(
    r" ?<zones.not> [^,.;!?\n]{1,38},? <zones.but> "
    r"|,? (?:<zones.but> )?<zones.not> [^,.;!?\n]{1,38}$"
)
# "London, Ontario": a region after a city.
REGION = re.compile(r", ([^\s,.;!?()\n][^,.;!?()\n]{1,30})(?=[,.;!?()\n]|$)")
NEGATED = lexicon.Expression(r"<zones.not>(?![\w-])")
DISTANCE = re.compile(r"\d+ [^\W\d]")  # "2 hours ahead of London"
DECORATION = re.compile(r"\W+$")
OFFSET = re.compile(r"(?:utc|gmt|мск|msk)(?:[+-]\d{1,2})?|[+-]\d{1,2}")


@dataclass(frozen=True)
class ToldZone:
    """Statement of a message about the user's own zone.

    Attributes:
        zones: Possible zones; empty if no such place is known.
        rest: The rest of the message.
    """

    zones: tuple[str, ...]
    rest: str


def told_zone(text: str) -> ToldZone | None:
    """Return the zone that a message states or orders ("мой часовой пояс Киев"), or None."""
    if len(text) > MAX_ZONE_TEXT or ("?" in text and ASKING.match(text) is None):
        return None
    text = _join_regions(CORRECTED.sub(" ", ASKING.sub("", text).rstrip("?")))
    clauses = [part.strip() for part in CLAUSES.split(text) if part.strip()][:MAX_CLAUSES]
    whole = [text.strip(" .,!;)\n")] if len(clauses) > 1 else []
    for clause in [*clauses, *whole]:
        for kind in ("told", "hinted"):
            zones = _zones_in(kind, clause)
            if zones or (zones is not None and kind == "told" and len(clauses) == 1):
                rest = text.replace(clause, "", 1).strip(" .,!;)\n")
                return ToldZone(tuple(zones or ()), "" if SMALL_TALK.fullmatch(rest) else rest)
    return None


def home_zones(text: str) -> list[str]:
    """Return the zones of the place to which the user has moved: "moved to Lisbon"."""
    if len(text) > MAX_ZONE_TEXT or "?" in text:
        return []
    clauses = CLAUSES.split(_join_regions(text))[:MAX_CLAUSES]
    return next((zones for clause in clauses if (zones := _zones_in("home", clause.strip()))), [])


def _join_regions(text: str) -> str:
    return REGION.sub(
        lambda match: f" {match[1]}" if zones.is_region(match[1]) else match[0], text
    )


def _zones_in(kind: str, clause: str) -> list[str] | None:
    """Return the zones of the place in a clause; None if it is no such clause."""
    folded = clause.translate(FOLD).lower()
    start = OPENER.behind(folded)
    found: list[list[str] | None] = []
    for pattern in _patterns(kind):
        match = pattern.fullmatch(folded) or pattern.fullmatch(folded, start)
        if match is None:
            continue
        place = match["place"]
        if NEGATED.match(place):
            found.append(None)
        elif DISTANCE.match(place):
            found.append([])
        else:
            found.append(zones.find_time_zones(DECORATION.sub("", place)))
    return next(filter(None, found), next(iter(found), None))


@cache
def _patterns(kind: str) -> list[re.Pattern[str]]:
    sources = lexicon.rules("zones.say", {"place": PLACE})[kind]
    return [re.compile(source) for source in sources]


def zone_beside(
    folded: str, spans: Sequence[tuple[int, int]]
) -> tuple[int, int, str | None] | None:
    """Return the position and zone of a zone beside an hour: "в 9 по Киеву", "9 am London time".

    The zone is empty for the user's own ("local time"), and None if no such place is known.

    Args:
        folded: The text, in lower case.
        spans: Positions of the times and of the order to remind.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    taken = {position for start, end in spans for position in range(start, end)}
    unknown, letters = None, lexicon.values("settings.letters")
    # Behind prepositions, and right after times: the start, that of the name, the preposition.
    begins = [(max(0, m.start() - 1), m.end(), m[0].strip()) for m in BY_ZONE.finditer(folded)]
    begins = begins[:MAX_CANDIDATES] + [(end, end, "") for end in sorted(ends)][:MAX_CANDIDATES]
    for start, position, named in begins:
        for end, name in _one_to_three_words(folded, position):
            if not taken.isdisjoint(range(position, end)):
                break
            suffix = TIME_WORD.match(folded, end)
            is_plain = bool(named or OFFSET.fullmatch(name) or name in letters)
            end_of_zone = suffix.end() if suffix else end
            is_before = suffix is not None and end_of_zone + 1 in starts
            if not (is_before or start in ends) or NO_ZONE.match(name):
                continue
            if (suffix or is_plain) and (found := zones.find_time_zones(name)):
                return start, end_of_zone, found[0]
            is_time = suffix is not None and suffix["time"] and (named or name.isascii())
            if (is_time or " " in named) and not USUAL_TIME.search(name):
                unknown = unknown or (start, end_of_zone, "" if OWN_TIME.search(name) else None)
            if suffix:
                break
    return unknown


def _one_to_three_words(folded: str, position: int) -> Iterator[tuple[int, str]]:
    end, names = position, []
    for _ in range(NAME_WORDS):
        if (match := WORD.match(folded, end)) is None:
            return
        names.append(match[1])
        end = match.end()
        yield end, " ".join(names)
