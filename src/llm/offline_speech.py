"""What a person does with a sentence: asks, orders, greets, or tells something.

Here stand the words that frame what is told, in the three languages: greetings before it,
"запомни, что", a question asked back after it; and the requests to forget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from src.llm.offline_clauses import Span, fold, narrow, sentences
from src.llm.offline_grammar import compile_pattern

# How questions begin, in the three languages; a question mark makes any text a question,
# and a hyphen none: "что-то", "как-то".
_QUESTION = re.compile(
    r"^\W*(как|кто|что|где|когда|куда|откуда|зачем|почему|сколько|какой|какая|какое|какие|чей|"
    r"который час|котра година|напомни|расскажи|скажи|найди|помнишь|"
    r"як|хто|що|де|коли|куди|звідки|навіщо|чому|скільки|який|яка|яке|які|чи|нагадай|розкажи|"
    r"знайди|пам’ятаєш|пам'ятаєш|"
    r"what|who|where|when|why|how|which|whose|is|are|do|does|did|can|tell|remind|find)\b(?!-)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"^\W*(когда|коли|when|где|де|where)\b", re.IGNORECASE)


_PLEASE = r"(?:пожалуйста|плиз|будь ласка|please)"
# Greetings and other beginnings that are no part of what is told.
_OPENER = compile_pattern(
    r"(?:(?:привет(?:ик)?|здравствуй(?:те)?|добрый (?:день|вечер)|доброе утро|хай|салют|привіт|"
    r"вітаю|доброго (?:дня|ранку|вечора)|добрий (?:день|вечір|ранок)|hi|hello|hey|"
    r"good (?:morning|afternoon|evening))(?: (?:всем|всім|бот|there|all|everyone))?|а|и|но|ну|"
    r"кстати|вообще-то|вообще|короче|слушай|слухай|знаешь|знаєш|так вот|в общем|что ж|що ж|"
    r"до речі|взагалі|отже|і|та|еще|ще|also|and|but|well|so|by the way|btw|(?:да|нет|ага|угу|ок|"
    r"окей|ладно|хорошо|так|ні|добре|гаразд|ok|okay|yes|yeah|no|sure|"
    r"(?:большое )?спасибо(?: большое)?|дякую|thanks|thank you|ура|ой|ого|вау|wow|"
    r"ох)(?=\s*[,.!—–]))(?![\w'-])[\s,.!:—–-]*"
)
_REMEMBER = compile_pattern(
    rf"(?:{_PLEASE}[\s,]*)?(?:(?:я )?(?:хочу|хотела? бы|хотів би),? (?:чтобы|щоб) (?:ты|ти) |"
    r"(?:ты|ти) (?:должен|должна|маєш) |i want you to |you should )?"
    r"(?:запомни(?:те|ть|ла?)?|имей(?:те)? в виду|учти(?:те)?|знай(?:те)?|знал[аи]?|знать|"
    r"запиши(?:те)?|сохрани(?:те)?|запам'ята(?:й|йте|ти|в|ла)|пам'ятай(?:те)?|знати|"
    r"май(?:те)? на увазі|врахуй(?:те)?|занотуй|збережи|"
    r"не (?:забудь|забывай|забувай)(?:те)?(?=[\s,]+(?:что|що)\b)|do(?:n't| not) forget(?= that\b)|"
    r"(?:remember|memorize|know)(?! (?:to|when|what|where|how|who|why)\b)|keep in mind|"
    r"note(?=\s*:| that\b)|fyi|for the record|save this|write down)(?![\w'])"
    rf"(?:[\s,]*(?:{_PLEASE}|это|this|вот что|следующее|себе|собі)\b)*[\s,:.—–-]*"
    r"(?:(?:что|що|that)\b[\s,:]*)?"
)
# Commands to the bot; "call me Tom" is none.
_REQUEST = compile_pattern(
    rf".*\b{_PLEASE}\b|\S+ ли|(?:(?:ты )?(?:можешь|можеш|могла? бы)|можно|можна|давай(?:те)?|"
    rf"дай(?:те)?|"
    r"напиши|покажи|сделай|объясни|помоги|переведи|придумай|посоветуй|подскажи|подбери|создай|"
    r"составь|посчитай|включи|выключи|поставь|разбуди|начни|продолжи|продолжай|отправь|удали|"
    r"сотри|проверь|исправь|сравни|перечисли|назови|повтори|отвечай|ответь|говори|спой|сыграй|"
    r"поговори|закажи|купи|позвони|открой|закрой|прочитай|прекрати|хватит|забудь|не забудь|"
    r"не забывай|игнорируй|отныне|всегда|никогда|теперь ты|хочу,? чтобы|хочу (?:узнать|спросить|"
    r"понять)|зроби|поясни|допоможи|переклади|вигадай|порадь|підкажи|створи|склади|порахуй|"
    r"увімкни|вимкни|розбуди|почни|продовжуй|надішли|видали|перевір|виправ|порівняй|відповідай|"
    r"говори|розповідай|забувай|не забувай|ігноруй|відтепер|завжди|ніколи|тепер ти|хочу,? щоб|"
    r"remember|(?:could|would|should|will|may) (?:you|i|we)|let's|let me|let us|give|show|write|"
    r"explain|help|translate|make|create|generate|summari[sz]e|calculate|list|set|send|open|sing|"
    r"play|draw|turn|suggest|recommend|compare|imagine|guess|wake|book|buy|order|read|check|"
    r"search|repeat|say|speak|reply|answer|act|pretend|ignore|wait|stop|start|continue|forget|"
    r"don't|do not|always|never|from now on|you are now|i want you|i'd like you|i would like you|"
    r"i want to (?:know|ask)|i'd like to know|i(?:'d| would) like(?! to\b)|i need you|"
    r"i have an? (?:question|idea|request)|у (?:меня|мене) (?:есть|є) (?:\w+ )?(?:вопрос|питання|"
    r"просьба|прохання))(?![\w'-])"
)
# Thanks, farewells, answers and outcries, with a few words more at most; and admitted ignorance.
_SMALL_TALK = compile_pattern(
    r"(?:(?:большое |огромное )?спасибо|благодарю|(?:щиро )?дякую|thanks?|thank you|thx|"
    r"до свидания|до (?:встречи|завтра|побачення|зустрічі)|спокойной ночи|доброй ночи|"
    r"на добраніч|(?:good\s*)?bye|good\s*night|see you|ого|вау|wow|ура|yay|боже|блин|oh|"
    r"ничего себе|нічого собі|вот это да|не может быть|не може бути|понятно|ясно|зрозуміло|"
    r"ок(?:ей)?|ok(?:ay)?|хорошо|ладно|добре|гаразд|все (?:хорошо|отлично|нормально|понятно|ясно|"
    r"добре|ок|зрозуміло)|i see|got it|sounds|no problem|no worries|never mind|не за что|"
    r"нема за що|(?:ха)+|lol|(?:ha)+|отлично|класс|супер|круто|здорово|чудово|клас|great|nice|"
    r"cool|awesome|amazing|с (?:днем|новым)|happy|удачи|(?:это|це|that's|it's|this (?:is|was)|"
    r"that (?:is|was)|it (?:is|was)|этот?|эта|то))(?:[\s,!.-]+\S+){0,3}|(?:я |i )?(?:не (?:знаю|"
    r"помню|понимаю|уверена?|розумію|пам'ятаю|впевнен)|not sure|no idea|(?:don't|do not) (?:know|"
    r"remember|understand))\b.*"
)
_YOU = compile_pattern(
    r"\b(?:ты|теб[яе]|тобой|тво\w+|вы|вас|вам|вами|ваш\w*|ти|тобі|тобою|твій|ви|your?|yours)\b"
)
# "…, а тебя?", "… and you": what is asked back after something was told.
_ASKED_BACK = compile_pattern(
    r"(?:\s*,\s*(?:(?:а|и|and|but) )?| (?:а|and) )(?:\S+ ){0,2}?"
    r"(?:ты|теб[яе]|тво[йяеи]|вы|вас|вам|ти|тобі|твій|your?|yours)\b.{0,40}$"
)
_FIRST_PERSON = compile_pattern(
    r"\b(?:я|мы|мне|меня|мо[йяеи]|ми|мені|мене|мій|моє|i|i'm|we|my|our)\b"
)
_SAID = (
    r"(?:говорил|рассказывал|рассказал|сказал|писал|казав|казал|розповідав|розповідал|розповів|"
    r"розповіл|told|said)\w*(?: (?:тебе|тобі|you|to you))?"
)
_I_SAID = (
    rf"(?:(?:то|те)[\s,]+)?(?:(?:что|що|that|what) )?(?:я|i) (?:(?:тебе|тобі|have|ever) )?{_SAID}"
)
_FORGET = compile_pattern(
    rf"(?:{_PLEASE}[\s,]*)?(?:(?:ты |ти )?(?:можешь|можеш) |(?:can|could) you |i want you to )?"
    rf"(?:{_PLEASE} )?(?:забудь(?:те)?|забыть|забути|"
    rf"forget)(?![\w'-])(?:[\s,]*{_PLEASE}\b)?[\s,:]*"
)
# What stands before the thing to forget: "that …", "about …", "everything I said about …".
_TO_FORGET = compile_pattern(
    rf"(?:(?:все|усе|everything|all)[\s,]+)?(?:{_I_SAID} )?"
    r"(?:про те,? що|о том,? что|про|обо|об|о|about) |(?:что|що|that) |(?:все|усе|all) (?={my}\b)"
)
_EVERYTHING = compile_pattern(
    r"(?:(?:вообще|абсолютно|геть|absolutely) )?(?:все|усе|everything|all)(?:[\s,]+(?:"
    r"обо мне|про меня|про мене|about me|(?:(?:что|що|that) )?(?:(?:ты|ти|you) )?"
    r"(?:(?:обо|про) (?:мне|меня|мене) )?(?:знаешь|помнишь|знаєш|пам'ятаєш|know|remember)|"
    rf"{_I_SAID}))*|(?:(?:обо мне|про меня|про мене)(?: все| усе)?|about me|me)"
)
_AFTER_QUERY = compile_pattern(rf"[\s,]+{_PLEASE}$")
# "Forget it": let us talk of something else.
_NEVER_MIND = compile_pattern(
    r"|(?:(?:об|про|about) )?(?:этом|это|це|it|that|this)|проехали|неважно|"
    r"(?:все|усе|everything|all)\b.*"
)


def is_question(text: str) -> bool:
    """Whether a text asks something, by its mark or its first word.

    "Когда я был маленьким, …" begins like a question and tells something.
    """
    if "?" in text:
        return True
    return _QUESTION.match(text) is not None and not (_CLAUSE.match(text) and "," in text)


@dataclass(frozen=True)
class Statement:
    """A sentence that tells something, without greeting, "запомни" and "а ты?"."""

    start: int
    end: int
    on_request: bool  # "запомни, …": kept whatever it is
    whole: bool  # a question was cut off: only what the rules understand is kept


def read_statement(text: str, start: int, end: int) -> Statement | None:
    """What a sentence of a folded text tells; None when it asks, orders, greets or is empty."""
    if text[start:end].lstrip().startswith("/"):
        return None  # a command of Telegram's
    begin = _skip_openers(text, *narrow(text, start, end))
    if _FORGET.match(text, begin, end):
        return None
    remember = _REMEMBER.match(text, begin, end)
    if remember is not None:
        begin = _skip_openers(text, remember.end(), end)
    asked_back = _ASKED_BACK.search(text, begin, end)
    stop = asked_back.start() if asked_back is not None and remember is None else end
    if is_question(text[begin:stop]) or (remember is None and _REQUEST.match(text, begin, stop)):
        return None
    begin, stop = narrow(text, begin, stop)
    if begin == stop:
        return None
    return Statement(begin, stop, on_request=remember is not None, whole=asked_back is None)


def _skip_openers(text: str, start: int, end: int) -> int:
    while (opener := _OPENER.match(text, start, end)) is not None:
        start = opener.end()
    return start


def tells_something(text: str, *, exclaimed: bool) -> bool:
    """Whether a folded clause that no rule knows says something of the user's world.

    Args:
        text: The clause.
        exclaimed: An exclamation mark follows; few words are then an outcry.
    """
    words = len(text.split())
    if words < 2 or _SMALL_TALK.fullmatch(text) or _YOU.search(text):
        return False
    return not exclaimed or words > 2 or _FIRST_PERSON.search(text) is not None


def forget_request(text: str) -> str | None:
    """What the user wants forgotten, in the user's words; None if nothing is to be forgotten.

    The empty string means everything, and only when the message says nothing else. "Forget it",
    "не забудь" and "I forgot" are no requests to forget.
    """
    folded = fold(text)
    spans = [narrow(folded, *span) for span in sentences(folded)]
    spans = [span for span in spans if _skip_openers(folded, *span) < span[1]]
    for span in spans:
        query = _to_forget(text, folded, span)
        if query or (query == "" and len(spans) == 1):
            return query
    return None


def _to_forget(text: str, folded: str, span: Span) -> str | None:
    start, end = _skip_openers(folded, *span), span[1]
    request = _FORGET.match(folded, start, end)
    if request is None:
        return None
    start = request.end()
    if _EVERYTHING.fullmatch(folded, start, end):
        return ""
    before = _TO_FORGET.match(folded, start, end)
    after = _AFTER_QUERY.search(folded, start, end)
    start = before.end() if before else start
    start, end = narrow(folded, start, after.start() if after else end)
    if _NEVER_MIND.fullmatch(folded, start, end):
        return None
    return " ".join(text[start:end].split())
