"""What a line is: a statement, a question, talk; the passage of a long text that fits best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, islice

from src.reading import lexicon
from src.reading.words import content
from src.texts.morphology import best_parts, parts_of_speech, terms, words

MAX_SENTENCE = 500  # characters; what is longer is no statement but a document
MAX_SENTENCES = 60
MAX_PLEASANTRY = 60  # characters of a greeting
MAX_THANKS = 5  # words: "большое спасибо за помощь"
FOLD = str.maketrans("ёЁ’ʼ‘`", "еЕ''''")
SENTENCE = re.compile(r"[^.!?…\n;]*(?:\.(?=\S)[^.!?…\n;]*)*[.!?…;]*")
# What asks, also in mid-case and behind a preposition: "на каком курсе", "у кого", "whats".
QUESTION = lexicon.Expression(
    r"(?:<lines.question_and>\s+)*(?:<lines.question_preposition>\s+)?<lines.question>(?![\w'-])",
    re.IGNORECASE,
)
# "What I love is …", "когда я был маленьким, …" and "have been …" tell.
SUBORDINATE = lexicon.Expression(r"<lines.subordinate>\b[^?]*,", re.IGNORECASE)
# Greetings and other beginnings that are no part of what is told.
OPENER = lexicon.Expression(r"(?:<lines.opener>(?![\w'-])[\s,.!:—–-]*)+", re.IGNORECASE)
REMEMBER = re.compile(
    r"(?:(?:пожалуйста|будь ласка|please)[\s,]*)?(?:запомни(?:те)?|имей(?:те)? в виду|учти(?:те)?|"
    r"знай(?:те)?|запиши(?:те)?|сохрани(?:те)?|запам'ятай(?:те)?|пам'ятай(?:те)?|"
    r"май(?:те)? на увазі|врахуй(?:те)?|занотуй|збережи|не забудь(?=[\s,]+(?:что|що)\b)|"
    r"(?:remember|memorize|keep in mind|note)(?=\s*:|,| that\b| i\b| my\b| we\b| the\b)|"
    r"don't forget(?=\s*:|,| that\b| i\b| i'm\b| we\b)|for the record|fyi)"
    r"(?![\w'])(?:[\s,]*(?:пожалуйста|это|this|вот что|себе|собі|будь ласка|please)\b)*[\s,:.—–-]*"
    r"(?:(?:что|що|that)\b[\s,:]*)?",
    re.IGNORECASE,
)
# "A few things about me: …", "немного о себе: …".
ABOUT_ME = re.compile(
    r"[^,:.]{0,40}\b(?:о себе|обо мне|про себя|про себе|про мене|about me|about myself|things|"
    r"facts?)[^,:.]{0,20}:\s*",
    re.IGNORECASE,
)
# What only seems to be told: "допустим, …", "if I …", "я бы …".
SUPPOSED = re.compile(
    r"(?:допустим|предположим|представ(?:им|ь|ьте)|положим|вообразим?|если|якщо|якби|коли б|кабы|"
    r"припустім\w*|припустимо|уяви\w*|уявім\w*|скажімо|скажем|"
    r"(?:let's |let us |just )?(?:suppose|imagine|assume|pretend|say that|what if|if)|supposing|"
    r"hypothetically)(?![\w-])|.*(?<![\w-])(?:бы|б|якби|would|could have|might have)(?![\w-])",
    re.IGNORECASE,
)
# Thanks, farewells, answers, doubts and outcries, with a few words more at most.
SMALL_TALK = re.compile(
    r"(?:(?:больш\w+ |огромн\w+ |щиро )?(?:спасибо|дякую|thanks?|thank you)|благодарю|"
    r"до (?:свидания|"
    r"встречи|завтра|побачення|зустрічі)|пока|бувай|спокойной ночи|доброй ночи|на добраніч|"
    r"(?:good\s*)?bye|"
    r"good\s*night|see you|понятно|ясно|зрозуміло|ок(?:ей)?|ok(?:ay)?|хорошо|ладно|добре|гаразд|"
    r"все (?:хорошо|отлично|нормально|понятно|ясно|добре)|i see|got it|sounds|no problem|"
    r"never mind|"
    r"отлично|класс|супер|круто|здорово|чудово|клас|great|nice|cool|awesome|(?:ха)+|lol|"
    r"может(?: быть)?|може|можливо|возможно|наверн\w+|мабуть|видимо|вероятно|пожалуй|perhaps|"
    r"maybe|"
    r"probably|i guess|i think so|i suppose|not sure|who knows|кто знает|хто знає|посмотрим|"
    r"подивимось|"
    r"(?:я |i )?(?:не (?:знаю|помню|понимаю|уверен\w*|знаю|пам'ятаю|розумію|впевнен\w*)|no idea|"
    r"(?:don't|do not) (?:know|remember|understand|care))|"
    r"(?:i|i'm|i am|it's|all) (?:so |very |too |a bit |just )?(?:bored|tired|hungry|sleepy|fine|"
    r"ok|okay|good|well|sorry|busy|back|here|sure|ready|glad|happy|sad|agree|understand|see|"
    r"get it|got it|disagree|hope so)|i (?:like|love|hate|want|need) (?:it|that|this|them|you|"
    r"help)|"
    r"i have (?:a|one|another) question|i need (?:some |your )?help|"
    r"(?:мне|мені) (?:так |очень |дуже |немного |трохи |это |це )?(?:скучно|грустно|весело|"
    r"интересно|все равно|жаль|лень|плохо|хорошо|нравится|нудно|сумно|весело|цікаво|байдуже|"
    r"шкода|ліньки|погано|добре|подобається)|"
    r"(?:у меня |у мене |есть |є |маю |можно |можна )?(?:еще |ще )?"
    r"(?:один )?(?:вопрос|питання|запитання)|(?:мне|мені) (?:нужна|потрібна) (?:твоя )?"
    r"(?:помощь|допомога)|(?:я |i )?(?:не )?(?:понял|поняла|согласен|согласна|против|готов|готова|"
    r"устал|устала|зрозумів|зрозуміла|згоден|згодна|проти|втомився|втомилась|втомилася)|пошли|пойдем\w*|поехали|погнали|"
    r"давай\w*|"
    r"ходімо|гайда|let's|let us|come on|как дела|як справи|i love you|удачи|с днем|happy|"
    r"(?:это|це|that's|it's|this is|that is|it is|"
    r"that was) \S+)(?![\w'-])(?:[\s,!.-]+\S+){0,3}\s*",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"(?:\w+\s+){0,2}(?:спасибо|дякую|thanks?|thank you|cheers|благодарю)(?![\w-])", re.IGNORECASE
)
GREETING = re.compile(
    r"\W*(?:привет\w*|здравствуй\w*|добр(?:ый|ого) (?:день|вечер|утр[оа]|времени суток)|"
    r"доброе утро|хай|прив[іи]т\w*|вітаю|добр(?:ий|ого) (?:день|вечір|ранок|дня|ранку|вечора)|"
    r"доброго здоров'я|hi|hello|hey|good (?:morning|afternoon|evening|day))"
    r"(?:[\s,]+(?:there|again|всем|всім|бот|bot|помни|pomni))?\W*",
    re.IGNORECASE,
)
LINK = re.compile(r"\s*(?:https?://|www\.)\S+\s*", re.IGNORECASE)
LIST_ITEM = re.compile(r"\s*(?:\d{1,2}[.)]|[-*•+–—])\s+\S")
LIST_TITLE = re.compile(
    r"[^,:]{1,40}:(?=.*,.*,)|(?:купить|купити|buy|todo|to do|список|list)\b", re.IGNORECASE
)
# Orders to the bot that are wishes about its answers, and other orders.
WISH = re.compile(
    r"(?:(?:впредь|отныне|всегда|пожалуйста|теперь|никогда не|больше не|лучше|надалі|відтепер|"
    r"завжди|"
    r"тепер|ніколи не|будь ласка|from now on|always|never|please|don't|do not|for the future|"
    r"in future)[\s,]*)*"
    r"(?:[\w-]+,\s+)?(?:отвечай|пиши|говори|обращайся|общайся|используй|называй|зови|будь|объясняй|указывай|"
    r"считай|давай|приводи|показывай|выдавай|оформляй|начинай|заканчивай|делай|следи|"
    r"переводи|присылай|не (?:пиши|используй|называй|обращайся|ставь|говори|отвечай|"
    r"задавай|добавляй)|"
    r"відповідай|звертайся|спілкуйся|використовуй|кажи|клич|називай|пиши|говори|пояснюй|вказуй|рахуй|давай|"
    r"наводь|показуй|подавай|починай|закінчуй|роби|оформлюй|"
    r"не (?:використовуй|звертайся|став|кажи|відповідай|додавай)|"
    r"answer|reply|respond|write|speak|talk|address|call me|use|keep (?:your|it|the|answers)|"
    r"be (?:brief|"
    r"concise|short|polite|formal|informal)|explain|show me|give me|avoid|stop (?:using|calling|"
    r"saying)|"
    r"convert|prefer|add|give|provide|list|format|measure|quote|end|start|greet|sign|include|"
    r"present|state|tell me)(?:те)?(?![\w'-])",
    re.IGNORECASE,
)
WISH_TOPIC = re.compile(
    r"\b(?:мне|мені|меня|мене|ко мне|до мене|на ты|на вы|на ти|на ви|\w*корот\w*|\w*короч\w*|"
    r"кратк\w*|стисл\w*|подробн\w*|"
    r"докладн\w*|прост\w+|эмодзи|емодзі|смайл\w*|по-\w+|английск\w*|англійськ\w*|украинск\w*|"
    r"українськ\w*|русск\w*|російськ\w*|"
    r"метрич\w*|метр\w*|градус\w*|цельси\w*|цельсі\w*|единиц\w*|одиниц\w*|километр\w*|"
    r"кілометр\w*|имен\w*|ім\S*|answers?|"
    r"brief\w*|short\w*|concise\w*|detail\w*|simple|simply|emoji\w*|units?|metric|imperial|"
    r"celsius|fahrenheit|"
    r"kilomet\w+|miles|distances?|temperatures?|prices?|dates?|times?|jokes?|lists?|tables?|"
    r"расстояни\w*|температур\w*|цен[ыа]\w*|дат[ыа]\w*|шутк\w*|списк\w*|таблиц\w*|"
    r"відстан\w*|цін[иу]\w*|дати|жарт\w*|english|russian|ukrainian|formal\w*|"
    r"informal\w*|me|my name|bullet\w*|"
    r"markdown|polite\w*|jargon)\b",
    re.IGNORECASE,
)
# Verbs that always speak of how to answer, and words that make an order last.
STANDING = re.compile(
    r"\b(?:впредь|отныне|всегда|никогда|больше не|надалі|відтепер|завжди|ніколи|from now on|"
    r"always|never|in future|отвечай|обращайся|общайся|называй|зови|говори со мной|пиши мне|"
    r"пиши мені|"
    r"відповідай|звертайся|спілкуйся|називай|клич|розмовляй|answer|reply|respond|call me|"
    r"пиши|объясняй|указывай|считай|используй|пояснюй|вказуй|рахуй|кажи|використовуй|"
    r"address me|speak|talk to me|use|keep (?:your|it|the|answers)|be (?:brief|concise|short)|"
    r"avoid|stop (?:using|calling)|don't (?:use|call)|не (?:пиши|используй|називай|використовуй|"
    r"называй|обращайся|звертайся|ставь|став))\b",
    re.IGNORECASE,
)
FIRST_PERSON = re.compile(
    r"\b(?:я|мы|мне|меня|мной|мо[йяеиюех]|моего|моему|моей|моим|моих|нас|нам|наш\w*|ми|мені|"
    r"мене|мною|мій|моє|"
    r"мої|моєї|моєму|моїх|нашої|i|i'?m|i'?ve|i'?d|we|we're|we've|me|my|mine|our|us)\b",
    re.IGNORECASE,
)
# A verb at the beginning, an auxiliary, or a subject with a verb of the third person.
ENGLISH_VERB = re.compile(
    r"(?:just\s+)?(?:got|bought|sold|quit|moved|started|stopped|finished|lost|found|met|made|took|"
    r"went|saw|had|broke|left|ate|won|gave|passed|failed|graduated|married|adopted|became|began)"
    r"(?![\w'-])"
    r"|.*\b(?:is|are|was|were|am|has|have|had|does|did|will|can't|\w+ed|went|got|bought|sold|made|"
    r"came|took|gave|met|left|lost|won|ran|fell|grew|died|kept)\b"
    r"|(?:(?:the|a|an|his|her|their|our)\s)?[\w'-]+\s(?:[\w'-]+\s)?[a-z]{2,}s\s+\S",
    re.IGNORECASE,
)
DASH = re.compile(r"\s[—–-]\s|\b(?:это|це)\b", re.IGNORECASE)
TELLS_OF = re.compile(r"\d|\b(?:в|во|на|у|о|об|с|со|з|із|до|під|под|по|за)\s", re.IGNORECASE)
# What the bot is asked to do at once; whoever says so tells nothing of himself.
ORDER_FOR_ME = re.compile(
    r"(?:please\s+|now\s+|just\s+)*(?:(?:write|give|help|show|send|make|get|find|sing|read|teach|"
    r"draw|buy|play)\s+(?:me|us)|help|translate|explain|ignore|repeat|print|summari[sz]e|describe|"
    r"calculate|compare|recommend|suggest|generate|continue|disregard|pretend|act|answer|correct|"
    r"rewrite|rephrase|proofread|list|solve|remind|forget|delete|erase|remove|wipe)(?![\w'-])",
    re.IGNORECASE,
)
# "Ты ошибаешься", "я тебя люблю": of the bot, not of the user's world.
TO_THE_BOT = re.compile(
    r"(?<![\w-])(?:ты|тебя|тебе|тобой|вы|вас|твой|твоя|твоё|твое|твои|твоего|твоей|твою|ти|тобою|ви|"
    r"твій|твоє|твої|твого|твоєї|you|you're|your|yours)(?![\w-])",
    re.IGNORECASE,
)
MAX_TO_THE_BOT = 2  # content words of such a sentence; in more of them something else is told
ENGLISH_ORDER = re.compile(
    r"(?:please\s+)?(?:write|make|give|help|explain|translate|send|play|open|go|stop|wait|look|do|"
    r"describe|summari[sz]e|calculate|count|compare|recommend|suggest|think|try|add|create|draw)"
    r"(?![\w'-])",
    re.IGNORECASE,
)


# "…, ладно?" asks for no answer.
TAG = lexicon.Expression(r"(?<![\s,])[\s,]++<lines.tag>\s*+\?++\s*+$", re.IGNORECASE)
# A full stop behind them ends no sentence.
ABBREVIATION = lexicon.Expression(r"(?:^|[\s(])<lines.abbreviation>\.$", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a message as written, each with its mark; of a long message the first."""
    start = end = 0
    for match in islice(SENTENCE.finditer(text), 4 * MAX_SENTENCES):
        end = match.end()
        begun = text[start:end]
        if ABBREVIATION.search(begun[-8:]) is None and len(begun) < MAX_SENTENCE:
            if begun.strip():
                yield begun.strip()
            start = end
    if begun := text[start:end].strip():
        yield begun


def is_question(sentence: str) -> bool:
    """Whether a sentence asks, by its mark or its first words; "…, ok?" asks for nothing."""
    folded = TAG.sub("", sentence.translate(FOLD))
    if "?" in folded:
        return True
    opener = OPENER.match(folded)
    begun = folded[opener.end() :] if opener else folded
    return any(
        QUESTION.match(part) is not None and SUBORDINATE.match(part) is None
        for part in (folded, begun)
    )


def told(sentence: str) -> tuple[str, bool] | None:
    """What a sentence tells, without what frames it, and whether its keeping was asked for.

    None when it asks, orders, greets, supposes, or is a list, a link or small talk.
    """
    if len(sentence) > MAX_SENTENCE or LINK.fullmatch(sentence) or LIST_ITEM.match(sentence):
        return None
    sentence = TAG.sub("", sentence)
    folded = sentence.translate(FOLD)
    start = _skip(OPENER, folded, 0)
    start = _skip(ABOUT_ME, folded, start)
    remember = REMEMBER.match(folded, start)
    if remember is not None:
        start = _skip(OPENER, folded, remember.end())
    statement = sentence[start:].strip().rstrip(".!…;, ").lstrip(" ,:—–-")
    bare = statement.translate(FOLD)
    if not statement or statement[0] == "/":
        return None
    if remember is not None:
        return statement, True
    if THANKS.match(folded) and FIRST_PERSON.search(bare) is None:
        return None
    if is_question(sentence) or SUPPOSED.match(bare) or SMALL_TALK.fullmatch(bare):
        return None
    if SMALL_TALK.fullmatch(folded.rstrip(".!… ")) or LIST_TITLE.match(bare):
        return None
    return (statement, False) if _states(statement, bare) else None


def is_greeting(text: str) -> bool:
    """Whether a message does nothing but greet."""
    return len(text) <= MAX_PLEASANTRY and GREETING.fullmatch(text.translate(FOLD)) is not None


def is_thanks(text: str) -> bool:
    """Whether a message does nothing but thank."""
    folded = text.translate(FOLD).strip(" .!…)")
    is_short = len(text) <= MAX_PLEASANTRY and len(text.split()) <= MAX_THANKS
    return is_short and THANKS.match(folded) is not None and not is_question(text)


def is_wish(sentence: str) -> bool:
    """Whether a sentence says how the bot should answer from now on: "отвечай мне коротко"."""
    folded = sentence.translate(FOLD)
    folded = folded[_skip(OPENER, folded, 0) :]
    return (
        len(folded) <= MAX_SENTENCE
        and WISH.match(folded) is not None
        and WISH_TOPIC.search(folded) is not None
        and STANDING.search(folded) is not None
    )


def _states(statement: str, bare: str) -> bool:
    """Whether words say something of the user's world: somebody who does, is or has something."""
    found = words(bare)
    if len(found) < 2 or not content(statement):
        return False
    if _orders(found, bare):
        return False
    if TO_THE_BOT.search(bare) is not None and len(content(statement)) <= MAX_TO_THE_BOT:
        return False
    if FIRST_PERSON.search(bare) is not None or DASH.search(bare) is not None:
        return True
    if found[0].isascii():
        is_order = ENGLISH_ORDER.match(bare) is not None
        return not is_order and ENGLISH_VERB.match(bare) is not None
    parts = [parts_of_speech(word) for word in found]
    if any({"VERB", "PRED", "ADJS", "PRTS"} & part and "impr" not in part for part in parts):
        return True
    # Without a verb: a time, a place or a number is told of something, a list only names things.
    return bare.count(",") < 2 and len(found) > 2 and TELLS_OF.search(bare) is not None


def _orders(found: list[str], bare: str) -> bool:
    """Whether the bot is told to do something: an imperative at the beginning."""
    if found[0].isascii():
        return ORDER_FOR_ME.match(bare) is not None
    first = found[1] if found[0].lower() in ("не", "пожалуйста", "ласка") else found[0]
    parts = parts_of_speech(first)
    is_verb = "VERB" in best_parts(first) and not {"past", "1per", "3per"} & parts
    return is_verb and "impr" in parts


def _skip(pattern: re.Pattern[str] | lexicon.Expression, text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match is not None and match.end() < len(text) else start


# A sentence with the space before it; a full stop within a word, as in "3.5", ends none.
PIECE = re.compile(r"\s*(?:[^.!?…\n]|\.(?=\w))+[.!?…]*|\s+|[.!?…]+")
MAX_PIECE = 300  # characters that are not parted otherwise
MARK = "…"


def best_passage(text: str, wanted: Collection[str], size: int) -> str:
    """The run of sentences, at most ``size`` characters, that holds most of the wanted terms.

    A term counts the more, the rarer it is in the text (idf, as in BM25). Without any the text's
    beginning is taken. What is left out before and after shows as an ellipsis.

    Args:
        text: Of any length.
        wanted: Search terms of the question; see ``terms``.
        size: Characters of the passage, MARKs included; at least a hundred.
    """
    if len(text) <= size:
        return text
    room = size - 2 * len(MARK) - 2
    pieces = list(_pieces(text, min(MAX_PIECE, room)))
    held = [frozenset(terms(piece)).intersection(wanted) for piece in pieces]
    ends = [0, *accumulate(map(len, pieces))]
    first = _best_start(held, ends, room)
    last = _end_of(first, ends, room)
    return _marked(text, ends[first], ends[last])


def _pieces(text: str, size: int) -> Iterator[str]:
    """The text in sentences, long ones cut, with all that stands between them."""
    for sentence in PIECE.findall(text):
        for start in range(0, len(sentence), size):
            yield sentence[start : start + size]


def _best_start(held: Sequence[frozenset[str]], ends: Sequence[int], room: int) -> int:
    """Where the best passage begins; of equally good ones that lie together, the middle one."""
    found = Counter(term for piece in held for term in piece)
    weights = {term: round(1000 * math.log(1 + len(held) / n)) for term, n in found.items()}
    inside: Counter[str] = Counter()
    best, starts, last = 0, [0], 0
    for first, leaving in enumerate(held):
        end = _end_of(first, ends, room, known=last)
        inside.update(term for piece in held[last:end] for term in piece)
        last = end
        score = sum(weights[term] for term in inside)
        if score > best:
            best, starts = score, [first]
        elif score == best and best and starts[-1] == first - 1:
            starts.append(first)
        inside -= Counter(leaving)
    return starts[len(starts) // 2]


def _end_of(first: int, ends: Sequence[int], room: int, known: int = 0) -> int:
    """The piece behind the last one that still has room; all up to ``known`` have."""
    last = max(first + 1, known)
    while last < len(ends) - 1 and ends[last + 1] - ends[first] <= room:
        last += 1
    return last


def _marked(text: str, start: int, end: int) -> str:
    passage = text[start:end].strip()
    before = f"{MARK} " if text[:start].strip() else ""
    return f"{before}{passage}" + (f" {MARK}" if text[end:].strip() else "")
