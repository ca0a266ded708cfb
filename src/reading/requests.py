"""What a person asks in plain words: to forget, to keep quiet, what is known, what time it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from babel.dates import format_datetime

from src.base.zones import find_time_zone
from src.reading.sentences import FOLD, TAG, sentences
from src.reading.words import content
from src.texts import Language
from src.texts.morphology import lemmas
from src.texts.plain_text import plain, word_set

# What a person asks of a memory in plain words: to forget, to keep quiet, to show what it knows.
#
# Anchored at the beginning of a sentence and linear; what else the sentence may be is for others.

MAX_TEXT = 1000  # characters; a longer message is no request
POLITE = (
    r"(?:(?:пожалуйста|плиз|будь ласка|прошу|please|ok|okay|ок|окей|ладно|так|ну|а|и|і|та|hey"
    r"|бот|bot|теперь|тепер|now|then|actually|слушай|слухай|знаешь|просто|just|let us|let's"
    r"|давай(?:те)?|also|still|еще|тогда|тоді|краще|лучше|кстати|до речі|привет|привіт|hi|hello)"
    r"[\s,!.]+)*"
)
YOU_MAY = (
    r"(?:(?:а )?(?:ты|ти|вы|ви) )?(?:можешь|можеш|можете|мог(?:ла|ли)? бы|міг би|могла б|могли б)"
    r"(?: (?:ты|ти|вы|ви))?[\s,]+"
    r"|(?:я )?(?:хочу|хотела? бы|хотів би|хотіла б|прошу)[\s,]+(?:чтобы|щоб) (?:ты|ти)[\s,]+"
    r"|(?:can|could|would|will) you (?:please )?|i(?:'d| would)? (?:want|like|need) you to "
)
# What may be said only behind "you may": "чтобы ты забыла", not "я забыла".
PAST = r"забыла?|забув|забула|удалила?|стерла?|видалив|видалила"
FORGET = re.compile(
    rf"{POLITE}(?:(?P<may>{YOU_MAY})(?:пожалуйста |будь ласка |please )?)?(?:"
    rf"(?(may)(?:{PAST})|(?!))|"
    r"забудь(?:те|мо)?|забудем(?:те)?|забудемо|забыть|забывай(?:те)?|позабудь|забути|"
    r"удали(?:те|ть)?|удаляй(?:те)?|сотри(?:те)?|стирай|стереть|"
    r"вычеркни|выкинь|очисти|видали(?:ти)?|видаліть|видаляй|зітри|стерти|викресли|"
    r"(?:убери|убрать|прибери|прибрати|викинь|выбрось)(?= .*(?:памят|пам'ят|голов))|"
    r"(?:больше |більше )?не (?:помни|пам'ятай|вспоминай|згадуй)(?: (?:больше|більше))?|"
    r"перестань (?:помнить|пам'ятати)|"
    r"forget|delete|erase|wipe|remove|scrub|stop remembering|"
    r"(?:don't|do not) remember (?:any ?more )?(?=that i\b|my\b|where\b|what\b|who\b|how\b))"
    r"(?![\w'-])[\s,:]*(?:(?:пожалуйста|будь ласка|please|навсегда|назавжди|совсем|зовсім)\b)?"
    r"[\s,:]*",
    re.IGNORECASE,
)
# What may stand behind the thing and is no part of it.
BEHIND = re.compile(
    r"(?:[\s,]+(?:пожалуйста|плиз|будь ласка|прошу|please|thanks|thank you|спасибо|дякую|навсегда|"
    r"назавжди|forever|for good|полностью|повністю|совсем|зовсім|completely|entirely|permanently|"
    r"из (?:своей )?памяти|(?:з|зі) (?:своєї )?пам'яті|from (?:your )?memory|already|now))+$",
    re.IGNORECASE,
)
SAID = (
    r"(?:говорил|рассказывал|рассказал|сказал|писал|казав|казал|розповідав|розповідал|розповів|"
    r"розповіл|told|said|mentioned|wrote)\w*"
)
EVERYTHING = re.compile(
    r"(?:(?:вообще|абсолютно|геть|absolutely|literally) )?(?:все|усе|всё|everything|all|anything)"
    r"(?: (?:вообще|геть))?[\s,]*",
    re.IGNORECASE,
)
# What stands between the verb and the thing: "what you know about", "all that I told you of".
WHAT_IS_KNOWN = re.compile(
    r"(?:из (?:своей )?памяти |з (?:своєї )?пам'яті |from (?:your )?memory )?"
    rf"(?:(?:то,? )?(?:что|що|that|what) )?(?:(?:я|i) (?:(?:тебе|тобі|ever|have|'ve) )*{SAID}"
    r"(?: (?:тебе|тобі|you))?|(?:(?:ты|ти|you) )?(?:(?:обо?|про) (?:мне|меня|мене) )?"
    r"(?:знаешь|помнишь|знаєш|пам'ятаєш|запомнила?|запам'ятав|know|knew|remember|have))?[\s,]*",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"(?:про те,? що|о том,? что|про|обо|об|о|about|of|on|regarding|(?:what|that) (?=i\b)|that|"
    r"что|що)(?![\w'-])[\s,]*",
    re.IGNORECASE,
)
# "Про Тучку забудь": the verb behind the thing.
FORGET_LAST = re.compile(
    rf"{POLITE}(?P<thing>(?:про|о|об|обо|все|всё|усе|это|це)\s.{{1,80}}?)[\s,]+"
    r"(?:пожалуйста,?\s+)?(?:забудь|забыть|забути|удали|сотри|видали|зітри)(?:те)?"
    r"(?:[\s,]+(?:пожалуйста|будь ласка))?[\s.!]*",
    re.IGNORECASE,
)
# "Forget that, I was joking": what follows the sign is a reason.
THAT = re.compile(r"(?:это|це|that|it|this)\s*[,.;:(—–]", re.IGNORECASE)
ALL = re.compile(
    r"\b(?:все|всю|весь|всего|усе|усю|увесь|всі|усі|everything|all|anything|whole|entire\w*)\b",
    re.IGNORECASE,
)
OF_ME = re.compile(r"\b(?:мне|меня|мене|мо[йяеиюі]\w*|мої\w*|me|myself|my|mine)\b", re.IGNORECASE)
# Words of a request that name nothing by themselves: "forget all the facts you have saved".
NAMELESS = (
    "факт факты данные дані информация інформація воспоминание спогад память пам'ять запись запис "
    "история історія полностью повністю целиком абсолютно вообще взагалі сообщение повідомлення "
    "разговор розмова запомнить запоминать запам'ятати запам'ятовувати сохранить зберегти "
    "рассказать рассказывать розповісти розповідати хранить зберігати известно відомо "
    "fact data information info memory record history completely absolutely entirely stored saved "
    "последний останній last message conversation learned told said mentioned kept chat "
    "permanently"
)


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


def asks_about_bot(text: str) -> bool:
    """Whether somebody asks what the bot does, keeps or shows, or how that is erased."""
    return len(text) <= MAX_ABOUT_BOT and ABOUT_THE_BOT.fullmatch(text.translate(FOLD)) is not None


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
    thing = thing.rstrip(" .!?…,;")
    behind = BEHIND.search(thing.translate(FOLD))
    thing = thing[: behind.start()] if behind else thing
    bare = thing.translate(FOLD)
    if THAT.match(bare) is not None:
        return ForgetRequest("", is_last=True)
    start = 0
    everything = EVERYTHING.match(bare)
    if everything is not None:
        start = everything.end()
    for pattern in (WHAT_IS_KNOWN, ABOUT):
        start += len(match[0]) if (match := pattern.match(bare[start:])) else 0
    if all(forms & _nameless() for forms in content(OF_ME.sub(" ", ALL.sub(" ", bare)))):
        is_all = ALL.search(bare) is not None or OF_ME.search(bare) is not None
        return ForgetRequest("", everything=is_all, is_last=not is_all and bool(bare))
    about = " ".join(thing[start:].strip(' ,:«»"“”').split())
    return ForgetRequest(about, everything=ALL.search(bare) is not None and everything is not None)


@cache
def _nameless() -> frozenset[str]:
    return frozenset(form for word in NAMELESS.split() for form in lemmas(word))


_PRIVATE = (
    r"(?:не (?:запоминай|запомни|сохраняй|записывай|заноси|храни)(?:те)?"
    r"|не (?:надо|нужно|стоит) (?:это |этого )?(?:запоминать|сохранять|записывать)"
    r"|(?:давай )?без (?:запоминания|сохранения|записи|протокола)"
    r"|не для (?:памяти|запоминания|записи|протокола)"
    r"|(?:только |лише |тільки )?между нами|(?:лише |тільки )?між нами|забудь сразу|тут же забудь"
    r"|не (?:запам'ятовуй|зберігай|записуй|занось)(?:те)?"
    r"|не (?:треба|потрібно|варто) (?:це |цього )?(?:запам'ятовувати|зберігати|записувати)"
    r"|не для (?:пам'яті|запису|протоколу)|без (?:запису|протоколу)"
    r"|(?:do not|don't|dont|never) (?:remember|memori[sz]e|save|store|keep|record|log|note)"
    r"|(?:you don't need to|no need to) (?:remember|memori[sz]e|save|store|record|keep)"
    r"|without (?:remembering|saving)|off the record|not for the record"
    r"|(?:keep (?:this|it)|stays?) (?:between us|off the record|private)"
    r"|(?:just )?between (?:you and me|us))"
)
_THIS = r"(?:это|этого|це|цього|this|that|it)"
_OBJECT = (
    r"(?:\s+(?:это(?:го)?|эту|этот|то|такое|сообщение|информацию|следующее|дальнейшее|что"
    r"|пожалуйста|этого сообщения|це|цього|цю|те|що|таке|повідомлення|інформацію|наступне"
    r"|будь ласка|но|але|but|this|that|it|the following|following|what (?:i say|follows)"
    r"|message|one|in memory|please|anywhere|нигде|ніде|никуда|next|down))*"
)
_QUIETLY = (
    r"(?:(?:пожалуйста|прошу|будь ласка|please|так|ну|слушай|слухай|hey|ok|okay|и|і|and|это|це"
    r"|this is|that's|it's|just|только|тільки|пусть это будет|хай це буде|по секрету)[\s,]+)*"
)
_BUT = (
    r"(?:(?:но|але|а|but|and|only|только|тільки|это|этого|це|цього|this|it|please|пожалуйста)"
    r"[\s,]+)*"
)
# "Don't remember this: …", with a sign behind it or with "this"; "don't remember that I …" wants
# something forgotten.
PRIVATE_FIRST = re.compile(
    rf"^\W*{_QUIETLY}{_PRIVATE}(?:{_OBJECT}\s*(?:[:.,;!\n)(]|\s[-—–]+\s|$)|\s+(?!that){_THIS}\b)"
    r"(?!\s*(?:that|where)\b)",
    re.IGNORECASE,
)
PRIVATE_LAST = re.compile(
    rf"(?:^|[.,;:!?()\n]|\s[-—–]+\s)\W*+{_QUIETLY}{_BUT}{_PRIVATE}{_OBJECT}\W*$"
    r"|(?<!\bi)(?<!\bwe)(?<!\byou)(?<!\bthey)(?<!\bwho)(?<!really)(?<!still)(?<!just)"
    rf"(?<!honestly)(?<!often)\s(?:{_BUT}{_THIS}\s+{_PRIVATE}|{_PRIVATE}\s+{_THIS})"
    r"(?:\s+(?:пожалуйста|будь ласка|please))?\W*$",
    re.IGNORECASE,
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


# A line that takes back a part of what was said before it: "no, I meant Wednesday".
CORRECTION = re.compile(
    r"(?:(?:ой|ох|нет|не|ні|no|oops|wait|sorry|извини\w*|прости|пробач\w*|вибач\w*)[\s,:!.-]+)*"
    r"(?:(?:я )?(?:ошиб\w+|перепутал\w?|помили\w+|переплута\w+|наврал\w?|вру|соврал\w?|"
    r"оговори\w+)|"
    r"вернее|точнее|точніше|верніше|поправка|исправлюсь|виправл\w+|correction|rather|my mistake|"
    r"(?:i )?(?:got|had) (?:it|that) wrong|(?:i |we )?mean[t]?|имел\w? в виду|"
    r"(?:я )?(?:ма(?:в|ла) на увазі|имел\w? в виду)|scratch that|typo|(?:я )?хот(?:ела?|ів|"
    r"іла) сказат[ьи]|meant to say|silly me|my bad|тобто|то есть)(?![\w-])"
    r"|.{1,60}[\s,]+(?:ошиб\w+|помили\w+|перепутал\w?|переплута\w+|my mistake|silly me)\W*$"
    r"|(?:actually|на самом деле|вообще-то|насправді|взагалі-то)[\s,:—-]+"
    r"(?:it's|it is|it was|they're|это|он|она|оно|они|це|він|вона|воно|вони)(?![\w'-])"
    r"|(?:не|not)\s+[\w-]+,\s+(?!(?:спасибо|пожалуйста|дякую|будь|thanks?|thank|please|sorry|maybe|"
    r"может|може|но|але|but|and|и|і)\b)[\w-]+[.! ]*$"
    r"|(?:ой|нет|ні|no|oops|wait|sorry)[\s,:!.-]+(?=не\s|not\s|it's\s|до\s|в\s|у\s|на\s|\d)"
    r"|(?:это |це )?не\s+[^,.]{1,40},\s+а\s+\S|(?:it's )?not\s+[^,.]{1,40},\s+(?:but|it's)\s+\S",
    re.IGNORECASE,
)
# "Who sees my messages?", "як видалити мої дані?": of the bot, and of nothing that was told.
_WORDS = r"(?:данн\w+|дані|даних|сообщени\w+|переписк\w+|повідомлен\w+|data|messages?|chats?)"
MAX_ABOUT_BOT = 100  # characters
ABOUT_THE_BOT = re.compile(
    r"\W*(?:"
    rf"(?:кто|хто|who)\b.{{0,20}}\b(?:вид\w+|чита\w+|бач\w+|see|sees|reads?)\b.{{0,25}}{_WORDS}"
    r"|(?:как|як|how)\b.{0,25}\b(?:удалить|стереть|видалити|стерти|delete|erase|remove)\b.{0,20}"
    rf"(?:{_WORDS}|все|усе|себя|себе|everything|account)"
    rf"|(?:где|де|where)\b.{{0,25}}{_WORDS}.{{0,20}}(?:хран\w+|зберіга\w+|stored|kept)"
    rf"|(?:где|де|where)\b.{{0,15}}(?:хран\w+|зберіга\w+)\b.{{0,15}}{_WORDS}"
    r"|(?:что|що|what)\s(?:ты умеешь|ти вмієш|вы умеете|ви вмієте|can you do|do you do)"
    r"|помощь|допомога|help"
    r")\W*",
    re.IGNORECASE,
)
OVERVIEWS: dict[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        "wishes": r"(?:пожелани|побажанн|предпочтени|уподобанн|wish|preference)\w*"
        r".{0,30}(?:ответ|відповід|answer|repl|respon)|"
        r"как (?:(?:ты|мне|тебе) )*(?:должен |должна |нужно |надо |лучше )?(?:мне )?(?:отвечать|"
        r"говорить со мной)|"
        r"як (?:(?:ти|мені|тобі) )*(?:маєш |повинен |треба )?(?:мені )?відповідати|"
        r"how (?:do|should|would|did) (?:i|you) .{0,30}(?:answer|reply|respond|talk to me|call me|"
        r"address me)|what (?:should|do|will) you call me|what .{0,10}i want to be called|"
        r"(?:which|what) units (?:should|do|will)|"
        r"как .{0,30}(?:меня называть|ко мне обращаться|меня будешь звать)|"
        r"(?:как|як) (?:я|мне|мені) .{0,30}(?:отвечал\w?|отвечать|відповіда\w+)|"
        r"how i .{0,20}answer|як .{0,30}(?:мене називати|до мене звертатис[яь])",
        "family": r"(?:о|про|about|(?:кто|хто|who)(?:'s| is| все)? (?:в|у|in)) "
        r"(?:моей|моих|мою|моїх|нашу|нашей|my|our)\s+(?:"
        r"сем\w+|родн\w+|родин\w*|рідн\w+|близк\w+|сім['\w]+|родственник\w*|родич\w*|family|"
        r"relatives|folks)",
        "work": r"(?:о|об|про|насчет|щодо|стосовно|about|regarding)\s+(?:мо\w+|my)\s+"
        r"(?:работ|робот|work|job|career|карьер)",
        "profile": r"(?:что|що|what)\b.{0,40}(?:обо мне|про меня|про мене|about me|on me)\b|"
        r"(?:что|що|what) (?:(?:ты|ти|вы|ви|do you|you) )*(?:помнишь|запомнила?|пам'ятаєш|"
        r"remember|know)(?: (?:обо мне|про мене|так|already))?\s*\??$|"
        r"(?:расскажи|розкажи|покажи|tell me|show me|list|перечисли|перелічи)\b.{0,40}"
        r"(?:обо мне|про меня|про мене|about me|about myself|on me)\b|"
        r"(?:^|[.!] )(?:кто я|хто я|who am i)\b",
    }.items()
}
TALKED = re.compile(
    r"\b(?:говори\w*|рассказыва\w*|рассказа\w*|сказа\w*|обсужда\w*|писал\w*|спрашива\w*|каза\w*|"
    r"розповіда\w*|розпові\w*|обговорюва\w*|писа\w*|питал\w*|talk\w*|told|tell|said|say|"
    r"discuss\w*|mention\w*|wrote|chat\w*|ask\w*)\b",
    re.IGNORECASE,
)
# Words of such a question that name nothing.
TALK_WORDS = word_set(
    """
    говорить рассказывать рассказать сказать обсуждать писать спрашивать казати говорити
    розповідати розповісти обговорювати писати питати talk told tell said say discuss mention wrote
    write chat ask last time раз недавно было бути
    """
)


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
    return all(forms & TALK_WORDS for forms in content(text))


_NOW = r"(?:сейчас|теперь|там|зараз|тепер|now|right now|currently|there)"
_LEAD = (
    r"(?:(?:а|и|і|й|ну|слушай|слухай|(?:не\s+)?скажи\w*|(?:не\s+)?подскаж\w*|"
    r"(?:чи\s+)?(?:не\s+)?підкаж\w*|знаешь|знаєш|пожалуйста|интересно|цікаво|"
    r"(?:можешь|можете|можеш) (?:мне |мені )?(?:сказать|подсказать|сказати|підказати)|"
    r"будь ласка|привет|привіт|hi|hey|and|so|please|tell me|do you know|wondering|"
    r"(?:can|could|would|will) you (?:please )?(?:tell me|say)|any idea)[\s,]+)*"
)
_PLACE = r"(?:в|во|у|на|in|at)\s+(?P<{}>[^\s?.!,][^?.!,]{{1,39}}?)"
_WHAT = (
    rf"(?:котор\w+(?: {_NOW})? час|сколько(?: {_NOW})? (?:времени|время|на часах)"
    rf"|какое(?: {_NOW})? время|(?:текущее |точное |местное )?время"
    rf"|(?:котра|яка)(?: {_NOW})? година|скільки(?: {_NOW})? (?:часу|на годиннику)"
    rf"|який(?: {_NOW})? час|(?:поточний |точний |місцевий )?час"
    rf"|what(?:'?s| is)?(?: {_NOW})?(?: the)?(?: current| local| exact)? (?:time|hour)"
    r"|(?:the )?(?:current |local |exact )?time"
    rf"|как(?:ой|ая|ое)(?: (?:сегодня|сейчас))? (?:день(?: недели)?|число|дата)(?: сегодня)?"
    rf"|сегодня как(?:ой|ое) (?:день(?: недели)?|число)"
    rf"|як(?:ий|а|е)(?: (?:сьогодні|зараз))? (?:день(?: тижня)?|число|дата)(?: сьогодні)?"
    rf"|сьогодні як(?:ий|е) (?:день(?: тижня)?|число)"
    rf"|what(?:'?s| is)? (?:the date(?: today)?|today's date|day is (?:it|today)|"
    rf"day of the week is it)(?: today)?)"
)
TIME_QUESTION = re.compile(
    rf"{_LEAD}(?:{_PLACE.format('before')}[\s,]+)?{_WHAT}(?: is it| it is)?(?:\s+{_NOW})*"
    rf"(?:\s+{_PLACE.format('after')})?"
    rf"(?:\s+{_NOW}|[\s,]+(?:please|пожалуйста|будь ласка))*[\s?.!]*",
    re.IGNORECASE,
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
    """What ``current_time`` says, as people say it: ``01:38, понедельник, 23 ноября (…)``."""
    match = ANSWER.match(answer)
    if match is None:
        return answer
    moment, zone, hours, minutes = match.groups()
    now = datetime.fromisoformat(moment)
    day = format_datetime(now, "EEEE, d MMMM", locale=language)
    return f"{now:%H:%M}, {day} ({zone}, UTC{hours}:{minutes})"
