"""What a person asks of a memory in plain words: to forget, to keep quiet, to show what it knows.

Anchored at the beginning of a sentence and linear; what else the sentence may be is for others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from src.language.content import content
from src.language.morphology import lemmas

MAX_TEXT = 1000  # characters; a longer message is no request
FOLD = str.maketrans("ёЁ’ʼ‘`", "еЕ''''")
POLITE = (
    r"(?:(?:пожалуйста|плиз|будь ласка|прошу|please|ok|okay|ок|окей|ладно|так|ну|а|и|і|hey|бот|bot"
    r"|теперь|тепер|now|actually|слушай|слухай|просто|just)[\s,!.]+)*"
)
YOU_MAY = (
    r"(?:(?:ты|ти|вы|ви) )?(?:можешь|можеш|можете|мог(?:ла)? бы|міг би|могла б)(?: (?:ты|"
    r"ти))?[\s,]+"
    r"|(?:я )?(?:хочу|хотела? бы|хотів би|хотіла б|прошу)[\s,]+(?:чтобы|щоб) (?:ты|ти)[\s,]+"
    r"|(?:can|could|would) you (?:please )?|i(?:'d| would)? (?:want|like) you to "
)
FORGET = re.compile(
    rf"{POLITE}(?:{YOU_MAY})?(?:пожалуйста |please )?"
    r"(?:забудь(?:те)?|забыть|забыла?|забути|забув|забула|удали(?:те|ть)?|сотри(?:те)?|стереть|"
    r"вычеркни|выкинь|очисти|видали(?:ти)?|видаліть|зітри|викресли|"
    r"(?:убери|прибери|викинь|выбрось)(?= .*(?:памят|пам'ят))|"
    r"не (?:помни|пам'ятай|вспоминай|згадуй)(?: (?:больше|більше))?|больше не помни|"
    r"більше не пам'ятай|forget|delete|erase|wipe|remove|scrub|stop remembering)"
    r"(?![\w'-])[\s,:]*(?:пожалуйста|будь ласка|please)?[\s,:]*",
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
    "message conversation learned told said mentioned kept chat permanently"
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


def forget_request(text: str) -> ForgetRequest | None:
    """What a message wants forgotten; None when it wants nothing forgotten.

    "Не забудь", "don't forget" and "I forgot" are no such requests.
    """
    folded = text[:MAX_TEXT].translate(FOLD).strip()
    verb = FORGET.match(folded)
    if len(text) > MAX_TEXT or folded.endswith("?"):
        return None
    if verb is None:
        last = FORGET_LAST.fullmatch(folded)
        return _read(text.strip()[last.start("thing") : last.end("thing")]) if last else None
    return _read(text.strip()[verb.end() :])


def _read(thing: str) -> ForgetRequest:
    """What stands beside the verb: one thing, all of a thing, all that is known, or nothing."""
    thing = thing.rstrip(" .!…,")
    bare = thing.translate(FOLD)
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


PRIVATE = re.compile(
    rf"{POLITE}(?:это |це |this is |that's |keep this )?(?:"
    r"не (?:запоминай|сохраняй|записывай|заноси|храни)(?:те)?|не (?:надо|нужно|стоит) (?:это )?"
    r"(?:запоминать|сохранять|записывать)|(?:только )?между нами|не для (?:записи|памяти)|"
    r"без (?:записи|сохранения)|не (?:запам'ятовуй|зберігай|записуй|занось)(?:те)?|"
    r"не (?:треба|варто) (?:це )?(?:запам'ятовувати|зберігати|записувати)|(?:лише |"
    r"тільки )?між нами|"
    r"не для запису|"
    r"(?:do not|don't|never|you don't need to|no need to) (?:remember|memori[sz]e|store|save|"
    r"record|"
    r"keep|log|note|write)(?! to\b)|off the record|(?:just )?between (?:us|you and me)|"
    r"not for the record)"
    r"(?![\w-])",
    re.IGNORECASE,
)
PRIVATE_AFTER = re.compile(
    r"[\s,.;(—–-](?:"
    r"(?:только )?(?:это )?не (?:запоминай|сохраняй|записывай)(?:те)?(?: (?:это|этого))?|"
    r"(?:но )?это (?:только )?между нами|(?:тільки )?(?:це )?не (?:запам'ятовуй|зберігай|"
    r"записуй)(?:те)?"
    r"(?: (?:це|цього))?|(?:але )?це (?:лише )?між нами|"
    r"(?:(?:but|and|please) )*(?:do not|don't) (?:remember|store|save|record|keep) (?:this|that|"
    r"it)|"
    r"(?:but )?(?:this is )?off the record|(?:but )?(?:this is |that's )?(?:just )?between us)"
    r"(?: (?:пожалуйста|будь ласка|please))?[\s.!)]*$",
    re.IGNORECASE,
)


def is_private(text: str) -> bool:
    """Whether a message asks not to be remembered: "не запоминай это: …", "off the record, …"."""
    folded = text.translate(FOLD).strip()
    return PRIVATE.match(folded) is not None or PRIVATE_AFTER.search(folded[-100:]) is not None


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
        r"how i .{0,20}answer|"
        r"як .{0,30}(?:мене називати|до мене звертатис[яь])",
        "family": r"(?:о|про|about|(?:кто|хто|who)(?:'s| is| все)? (?:в|у|in)) "
        r"(?:моей|моих|мою|моїх|нашу|нашей|my|our)\s+(?:"
        r"сем\w+|родн\w+|родин\w*|рідн\w+|близк\w+|сім['\w]+|родственник\w*|родич\w*|family|"
        r"relatives|folks)",
        "work": r"(?:о|об|про|насчет|щодо|стосовно|about|regarding)\s+(?:мо\w+|my)\s+"
        r"(?:работ|робот|work|job|career|карьер)",
        "profile": r"(?:что|що|what)\b.{0,40}(?:обо мне|про меня|про мене|about me|on me)\b|"
        r"(?:что|що|what) (?:(?:ты|ти|вы|ви|do you|you) )*(?:помнишь|запомнила?|пам'ятаєш|"
        r"remember|know)"
        r"(?: (?:обо мне|про мене|так|already))?\s*\??$|"
        r"(?:расскажи|розкажи|покажи|tell me|show me|list|перечисли|перелічи)\b.{0,40}"
        r"(?:обо мне|про меня|про мене|about me|about myself|on me)\b|"
        r"(?:^|[.!] )(?:кто я|хто я|who am i)\b",
    }.items()
}
TALKED = re.compile(
    r"\b(?:говори\w*|рассказыва\w*|рассказа\w*|сказа\w*|обсужда\w*|писал\w*|спрашива\w*|каза\w*|"
    r"розповіда\w*|розпові\w*|обговорюва\w*|писа\w*|питал\w*|talk\w*|told|tell|said|say|"
    r"discuss\w*|"
    r"mention\w*|wrote|chat\w*|ask\w*)\b",
    re.IGNORECASE,
)
# Words of such a question that name nothing.
TALK_WORDS = frozenset(
    [
        "говорить",
        "рассказывать",
        "рассказать",
        "сказать",
        "обсуждать",
        "писать",
        "спрашивать",
        "казати",
        "говорити",
        "розповідати",
        "розповісти",
        "обговорювати",
        "писати",
        "питати",
        "talk",
        "told",
        "tell",
        "said",
        "say",
        "discuss",
        "mention",
        "wrote",
        "write",
        "chat",
        "ask",
        "last",
        "time",
        "раз",
        "недавно",
        "было",
        "бути",
    ]
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
