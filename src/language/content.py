"""What a text is about: its content words, in their dictionary forms."""

from __future__ import annotations

from functools import lru_cache

from src.language.morphology import lemmas, words
from src.language.plain_text import word_set

Lemmas = frozenset[str]

# Words that name nothing by themselves, in their dictionary forms and others.
EMPTY_WORDS = word_set(
    """
    a an the of to in on at for and or is are was were be been am do does did has have had i you he
    she it we they me my mine your his her our their this that these those with as by from what
    when where who whom whose which how why not if so but about there can could will would shall
    should may might must just also than then too very any some all no yes tell know remember say
    please now still ever never really much many more most lot и в во не что он на я с со как а то
    все она так его но да ты к у же вы за бы по ее мне вот от меня еще нет о из ему когда даже ну
    ли если уже или ни быть был него до вас вам ведь там потом себя ей они тут где есть надо для мы
    тебя их чем сам раз тоже себе под кто этот того этого какой этом мой моя мое мои свой своя
    который можно при об про это эта эти сколько куда откуда зачем почему рассказать сказать
    напомнить помнить говорить знать мочь твой наш ваш весь очень сейчас теперь тебе мной нас нам
    чей такой і й із зі та що ти він вона ми ви вони цей ця ці той як або але чи від щоб якщо мені
    мною його її їх мій моє мої свій є бути вже ще ні де коли хто чому навіщо який скільки звідки
    розказати нагадати пам'ятати казати говорити знати з мене мати усе дуже зараз тепер твій тобі
    могти чий такий увесь пожалуйста прошу ласка будь занят занятый занятой делать робити діло дело
    справа поживать поживати doing busy up
    """
)
# "What city", "какой породы": the kind of answer that is wanted, not what it is about.
ANSWER_KINDS = word_set(
    """
    город місто city town страна країна country имя ім'я name год рік year цвет колір color colour
    вид тип kind sort type number номер размер место місце place день day time час
    """
)


@lru_cache(maxsize=4_000)
def content(text: str) -> tuple[Lemmas, ...]:
    """The content words of a text, each as the set of its possible dictionary forms."""
    found = (lemmas(word) for word in words(text) if word.lower() not in EMPTY_WORDS)
    return tuple(forms for forms in found if forms and not forms & EMPTY_WORDS)


def shared(one: str, other: str) -> list[Lemmas]:
    """The content words of ``one`` that ``other`` speaks of as well."""
    there = frozenset[str]().union(*content(other))
    return [forms for forms in content(one) if forms & there]
