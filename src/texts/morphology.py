"""Words of a text: the terms of the lexical index, dictionary forms and parts of speech."""

from __future__ import annotations

import re
import threading
from functools import cache, lru_cache
from typing import Any

import snowballstemmer

from src.texts.plain_text import word_set

# Search terms: the words of a text as the lexical index knows them.
#
# English words are stemmed (Snowball), Cyrillic ones cut to their first four letters, in which
# their forms, and often Russian and Ukrainian, meet ("город" and "города", "подруга" in both).

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


# Dictionary forms and parts of speech, for telling whether two texts speak of the same thing.
#
# Russian and Ukrainian by pymorphy3's dictionaries (36 MB for both, loaded when a Cyrillic word is
# first looked at), English by the Snowball stemmer and a table of irregular forms. Each word is
# looked up in both dictionaries: many short texts are neither surely the one nor the other.

HYPHENATED_WORD = re.compile(r"[^\W_]+(?:['-][^\W\d_]+)*")
MAX_WORDS = 400  # of a text that are looked at
NAMES = frozenset({"Name", "Surn", "Patr", "Geox"})  # as OpenCorpora tags them
# What a name that no dictionary knows may end with: "Кеша", "Кешу", "Кешей".
ENDING = re.compile(r"(?:ами|ями|ові|еві|ого|его|ому|ему|ой|ей|ою|ею|ом|ем|єм|ам|ям|ах|ях|ів|ов|"
                    r"[аяуюыиіїеєойь])$")  # fmt: skip
IRREGULAR = {
    form: base
    for line in (
        "go went gone,buy bought,teach taught,think thought,have has had,do did done,get got",
        "sell sold,tell told,say said,see saw seen,take took taken,come came,give gave given",
        "eat ate eaten,drink drank drunk,drive drove driven,write wrote written,meet met",
        "speak spoke spoken,leave left,break broke broken,lose lost,find found,know knew known",
        "grow grew grown,fly flew flown,run ran,swim swam swum,sing sang sung,win won",
        "wear wore worn,child children,wife wives,man men,woman women,person people,foot feet",
        "tooth teeth,mouse mice,bake baker bakery,teach teacher,favourite favorite,die died dying",
    )
    for base, *forms in (entry.split() for entry in line.split(","))
    for form in forms
}  # fmt: skip


def words(text: str) -> list[str]:
    """The words of a text as written, the first MAX_WORDS of them."""
    straight = text.replace("’", "'").replace("ʼ", "'")
    return [match[0] for match in HYPHENATED_WORD.finditer(straight)][:MAX_WORDS]


@lru_cache(maxsize=20_000)
def lemmas(word: str) -> frozenset[str]:
    """The dictionary forms that a word may have; of a name also what is left without its ending.

    Two words speak of the same thing when they share one.
    """
    lower = word.lower().replace("ё", "е")
    if not CYRILLIC.search(lower):
        base = IRREGULAR.get(lower.removesuffix("'s"), lower.removesuffix("'s"))
        return frozenset({stem_english(base)})
    forms = set(dictionary_forms(lower))
    if not forms or word[:1].isupper():
        forms.add("~" + (ENDING.sub("", lower) if len(lower) > 3 else lower))
    return frozenset(forms)


@lru_cache(maxsize=20_000)
def dictionary_forms(lower: str) -> frozenset[str]:
    """The dictionary forms of a Russian or Ukrainian word in lower case; none of unknown words."""
    return frozenset(parse.normal_form.replace("ё", "е") for parse in _parses(lower))


@lru_cache(maxsize=20_000)
def noun_forms(word: str) -> frozenset[str]:
    """The dictionary forms of a word that may be a noun: "маю" is a verb, and no mother."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return lemmas(word)
    nouns = (parse for parse in _parses(lower) if "NOUN" in parse.tag or "ADJF" in parse.tag)
    return frozenset(parse.normal_form.replace("ё", "е") for parse in nouns)


@lru_cache(maxsize=20_000)
def nominatives(lower: str) -> frozenset[str]:
    """The names of people and places of which a word may be a form, each in the nominative."""
    found = set()
    for parse in _parses(lower):
        if NAMES & parse.tag.grammemes and "Fixd" not in parse.tag:
            form = parse.inflect({"nomn"})
            found.add((form or parse).word.replace("ё", "е"))
    return frozenset(found)


@lru_cache(maxsize=20_000)
def parts_of_speech(word: str) -> frozenset[str]:
    """What a Russian or Ukrainian word may be, in OpenCorpora's terms: VERB, NOUN, 1per and such.

    Empty for words that no dictionary knows, and for English.
    """
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return frozenset()
    return frozenset(str(grammeme) for parse in _parses(lower) for grammeme in parse.tag.grammemes)


@lru_cache(maxsize=20_000)
def best_parts(word: str) -> frozenset[str]:
    """The likeliest part of speech of a word in each language that knows it; empty: none does."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return frozenset()
    found = (analyzer.parse(lower) for analyzer in _analyzers())
    return frozenset(str(parses[0].tag.POS or "") for parses in found if parses)


def _parses(lower: str) -> list[Any]:
    return [parse for analyzer in _analyzers() for parse in analyzer.parse(lower)]


@cache
def _analyzers() -> tuple[Any, ...]:
    from pymorphy3 import MorphAnalyzer, units

    found = []
    for language in ("ru", "uk"):
        analyzer = MorphAnalyzer(lang=language, units=[[units.DictionaryAnalyzer()]])
        # Guessing unknown words is not wanted, and takes a quarter of the memory.
        analyzer.dictionary.prediction_suffixes_dawgs.clear()
        found.append(analyzer)
    return tuple(found)
