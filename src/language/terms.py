"""Search terms: the words of a text as the lexical index knows them.

English words are stemmed (Snowball), Cyrillic ones cut to their first four letters, in which
their forms, and often Russian and Ukrainian, meet ("город" and "города", "подруга" in both).
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache

import snowballstemmer

from src.language.plain_text import word_set

MAX_TEXT = 20_000  # characters of a text that are indexed
MAX_TERM = 40  # letters of one term
PREFIX = 4  # letters of a Cyrillic word
WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
CYRILLIC = re.compile(r"[а-яёіїєґ]")

# Words that say nothing by themselves; they would only make the postings long.
STOP_WORDS = word_set(
    """
    a an the of to in on at for and or is are was were be been am do does did has have had i you he
    she it we they me my mine your yours his her hers their our ours its this that these those with
    as by from what when where who whom whose how which why not if so but about there can could
    will would shall should may might must just also than then too very any some all no yes i'm
    i've i'll it's don't didn't tell know remember said say told и в во не что он на я с со как а
    то все она так его но да ты к у же вы за бы по ее её мне было вот от меня еще ещё нет о из ему
    когда даже ну ли если уже или ни быть был него до вас нибудь вам ведь там потом себя ей они тут
    где есть надо ней для мы тебя их чем была сам чтоб без чего раз тоже себе под будет кто этот
    того потому этого ним здесь этом мой моя моё мое мои моего моей моих моим моём моем мою свой
    своя своё своего своей который которая можно при об про это эта эти какой какая какое какие
    какого какую сколько куда откуда зачем почему расскажи скажи напомни помнишь говорил говорила
    сказал сказала знаешь і й із зі та що ти він вона ми ви вони цей ця ці той як або але чи від
    щоб якщо мені мною тебе тобі його її їх нас нам мій моє мої моєї моїх моєму моїм свій своє є
    була були буде бути вже ще ні де коли хто чому навіщо який яка яке які якого якої скільки
    звідки розкажи нагадай пам'ятаєш казав казала говорив знаєш з мене маю має get got go goes went
    come came take took keep need needs out up down after before over under into off away back
    going
    """
)

_stemmer = snowballstemmer.stemmer("english")
_stemmer_lock = threading.Lock()  # the stemmer works on fields of its own


def terms(text: str) -> list[str]:
    """The search terms of a text, in order, each as often as it occurs."""
    words = WORD.findall(text[:MAX_TEXT].lower().replace("’", "'"))
    return [term for word in words if (term := _term(word))]


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """The term of one lower-case word; empty for a stop word."""
    if word in STOP_WORDS:
        return ""
    if CYRILLIC.search(word):
        return word.replace("ё", "е").replace("'", "")[:PREFIX]
    return stem_english(word.removesuffix("'s"))[:MAX_TERM]


def stem_english(word: str) -> str:
    """What the forms of an English word have in common, by Snowball."""
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))
