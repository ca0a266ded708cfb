"""Words by their lemmas: what a text is about, whom it names, whether two mean one thing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from src.reading.relations import BY_NAME
from src.texts.morphology import (
    CYRILLIC,
    STOP_WORDS,
    WORD,
    dictionary_forms,
    lemmas,
    nominatives,
    noun_forms,
    stem_english,
    words,
)
from src.texts.plain_text import plain, word_set

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


# Who a fact may be about, in all their forms: an inflected word is looked up as it stands, so that
# "тату" is a tattoo, and no father.
_PEOPLE = {
    "user": "user i me my myself mine пользователь пользователя пользователю пользователем "
    "пользовательница я меня мне мной мною користувач користувача користувачу користувачеві "
    "користувачем користувачка мене мені",
    "mother": "mother mom mum mommy мать матери матерью мама мамы маме маму мамой мати матір "
    "матері матір'ю мами мамі мамою",
    "father": "father dad daddy отец отца отцу отцом папа папы папе папу папой тато тата татові "
    "татом батько батька батькові батьком",
    "parents": "parents родители родителей родителям родителями батьки батьків батькам батьками",
    "brother": "brother брат брата брату братом брате братові",
    "sister": "sister сестра сестры сестре сестру сестрой сестри сестрі сестрою",
    "son": "son сын сына сыну сыном сыне син сина синові сином",
    "daughter": "daughter дочь дочери дочерью дочка дочки дочке дочку дочкой дочці дочкою донька "
    "доньки доньці доньку донькою",
    "wife": "wife жена жены жене жену женой супруга дружина дружини дружині дружину дружиною",
    "husband": "husband муж мужа мужу мужем супруг чоловік чоловіка чоловікові чоловіком",
    "grandmother": "grandmother grandma granny бабушка бабушки бабушке бабушку бабушкой бабуся "
    "бабусі бабусю бабусею",
    "grandfather": "grandfather grandpa дедушка дедушки дедушке дедушку дедушкой дед деда дідусь "
    "дідуся дідусеві дідусем дід діда",
    "aunt": "aunt auntie тетя тети тете тетю тетей тітка тітки тітці тітку тіткою",
    "uncle": "uncle дядя дяди дяде дядю дядей дядько дядька дядькові дядьком",
    "ex": "ex бывший бывшего бывшему бывшим бывшем бывшая бывшей бывшую колишній колишнього "
    "колишньому колишнім колишня колишньої колишній колишню колишньою",
    "friend": "friend друг друга другу другом друже",
    "boss": "boss начальник начальника начальнику начальником шеф шефа начальникові",
}
# More words for them, and others, in their dictionary forms.
_ROLES = (
    "father отец тато",
    "sister сестричка",
    "wife супруга",
    "husband супруг",
    "child ребенок дети дитина діти близнец близнецы двойняшка близнюк двійнята малыш малюк child "
    "children kid kids twin twins baby toddler",
    "partner парень девушка невеста жених хлопець дівчина наречений наречена crush boyfriend "
    "girlfriend fiance fiancee partner",
    "grandmother бабуля",
    "grandfather прадед прадід",
    "cousin кузен кузина племянник племянница племінник племінниця cousin nephew niece",
    "friend подруга приятель товарищ товариш кореш кум кума mate buddy pal",
    "neighbour сосед соседка сусід сусідка neighbour neighbor roommate flatmate housemate",
    "boss начальница босс директор manager",
    "colleague коллега колега colleague coworker workmate",
    "landlord хозяин хозяйка landlord landlady",
    "teacher учитель учительница вчитель teacher",
    "dog собака пес песик щенок цуценя лабрадор овчарка такса пудель корги коргі спаниель "
    "спанієль терьер тер'єр хаски хаскі бульдог дворняга dog puppy labrador retriever poodle "
    "corgi spaniel terrier husky bulldog beagle dachshund collie greyhound mutt",
    "cat кот кошка котенок котик кіт кішка кошеня cat kitten kitty tomcat",
    "parrot попугай папуга parrot budgie",
    "hamster хомяк хом'як hamster",
    "tortoise черепаха tortoise turtle",
    "horse лошадь конь кінь пони поні horse pony mare",
    "rabbit кролик кріль rabbit bunny",
    "pet питомец улюбленець pet",
)
ANIMALS = frozenset({"dog", "cat", "parrot", "hamster", "tortoise", "horse", "rabbit"})
PEOPLE = {form: name for name, forms in _PEOPLE.items() for form in forms.split()}
KIN = {form: name for form, name in PEOPLE.items() if name != "user"} | {
    form: name for line in _ROLES for name, *forms in (line.split(),) for form in forms
}


def kin_of(word: str) -> str | None:
    """The role that a word names: "сестры" is ``sister``; None for other words."""
    lower = word.lower().replace("ё", "е").removesuffix("'s")
    if lower in KIN:
        return KIN[lower]
    return next((KIN[form] for form in sorted(noun_forms(word)) if form in KIN), None)


MAX_WORDS = 4  # of a name
LATIN = {
    "а": "a", "б": "b", "в": "v", "г": "g", "ґ": "g", "д": "d", "е": "e", "ё": "e", "є": "ie",
    "ж": "zh", "з": "z", "и": "i", "і": "i", "ї": "i", "й": "i", "к": "k", "л": "l", "м": "m",
    "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
    "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "i", "ь": "", "э": "e",
    "ю": "iu", "я": "ia", "'": "", "-": "",
}  # fmt: skip
SPELLINGS = (("yo", "io"), ("yu", "iu"), ("ya", "ia"), ("ye", "ie"), ("y", "i"), ("h", "g"),
             ("ii", "i"))  # fmt: skip


def same_name(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case ending, alphabet or spelling of letters.

    A form that is a name itself is no ending of another one: "Валерия" is a woman, although it
    may be a form of "Валерий". Short forms ("Саша" for Александр) may be somebody else.
    """
    ones, others = words(one), words(other)
    if not 0 < len(ones) == len(others) <= MAX_WORDS:
        return False
    if not (ones[0][:1].isupper() and others[0][:1].isupper()):
        return False
    return all(_same_word(a.lower(), b.lower()) for a, b in zip(ones, others, strict=True))


def _same_word(one: str, other: str) -> bool:
    return (
        one == other
        or _is_form(one, other)
        or _is_form(other, one)
        or (one.isascii() != other.isascii() and _latin(one) == _latin(other))
    )


def _is_form(form: str, base: str) -> bool:
    """Whether ``form`` is ``base`` in another case, and no name of its own."""
    word, wanted = form.replace("ё", "е"), base.replace("ё", "е")
    names = nominatives(word)
    return wanted in names and word not in names


def _latin(word: str) -> str:
    """The word in Latin letters, in one of the spellings that are in use."""
    latin = "".join(LATIN.get(letter, letter) for letter in word)
    latin = latin.replace("kh", "x").replace("zh", "j").replace("shch", "w").replace("sh", "w")
    latin = latin.replace("ch", "c")
    for spelling, letters in SPELLINGS:
        latin = latin.replace(spelling, letters)
    return latin


# Words by their lemmas: whether two texts speak of the same thing, in three languages.
#
# The search cuts words to four letters, which finds more; whoever decides what is deleted or does
# not hold any more needs to know that "карате" is no "карандаш". Cyrillic words are looked up in
# the dictionaries of Russian and of Ukrainian, and count as equal when they share a lemma in
# either.

MIN_STEM = 3  # letters of a name without its case ending

# Beside the search's stop words: what only colours a statement.
FILLERS = word_set(
    """
    очень теперь сейчас снова опять больше уже просто совсем вообще сильно немного иногда часто
    обычно всегда никогда действительно правда мной нами наш наша наше наши нашего нашей нам нас
    дуже тепер зараз знову більше вже зовсім взагалі трохи іноді зазвичай завжди ніколи справді
    наші нашого нашої нею ним ними має мають мав мала мали honestly frankly finally guess news one
    ones the that which simply anyway though either честно честно-говоря наконец кстати вообще-то
    чесно нарешті загалом знаєш знаешь anymore longer never always often sometimes usually really
    again still already much many lot now then today just actually ever only own has having being
    there here us our ours i'd we're we've we'll you're he's she's they're isn't aren't wasn't
    doesn't can't cannot won't no none нету нема немає имею имеет имеем имеется имеются является
    являюсь являются хочу хочет называется которого которые которая которых котрий котра котрі whom
    who's what's that's there's
    """
)
# Forms of one word of which a stemmer knows nothing; British spelling as American.
ENGLISH = {
    "children": "child", "men": "man", "women": "woman", "wives": "wife", "mice": "mouse",
    "feet": "foot", "teeth": "tooth", "knives": "knife", "ran": "run", "ate": "eat",
    "eaten": "eat", "bought": "buy", "drove": "drive", "drank": "drink", "sang": "sing",
    "swam": "swim", "wrote": "write", "written": "write", "spoke": "speak", "taught": "teach",
    "met": "meet", "wore": "wear", "grew": "grow", "flew": "fly", "rode": "ride", "slept": "sleep",
    "sold": "sell", "lost": "lose", "won": "win", "built": "build", "broke": "break",
    "broken": "break", "born": "birth", "married": "marry", "divorced": "divorce",
    "colour": "color", "colours": "color", "favourite": "favorite", "favourites": "favorite",
    "neighbour": "neighbor", "neighbours": "neighbor", "grey": "gray", "theatre": "theater",
    "mum": "mom", "mummy": "mom",
}  # fmt: skip
# A root whose vowel goes in other cases, which the dictionaries of the other language miss.
CASE_ENDING = re.compile(
    r"(?:ами|ями|ого|его|ому|ему|ой|ей|ою|ею|єю|ом|ем|єм|ым|им|ах|ях|ів|ов|ев|[аяуюеєиіїыйоь])$"
)


@dataclass(frozen=True)
class Word:
    """A word of a text that says something.

    Attributes:
        text: As it was written, in lower case.
        lemmas: The words of which it may be a form; for kin also ``@mother``, in any language.
        is_name: Whether it was written with a capital letter, not only to begin a sentence.
        start: Where it begins in the text.
        end: Where it ends.
    """

    text: str
    lemmas: frozenset[str]
    is_name: bool
    start: int
    end: int

    @property
    def is_kin(self) -> bool:
        """Whether it names a relative, a friend, a boss."""
        return any(lemma.startswith("@") for lemma in self.lemmas)


def content_words(text: str) -> list[Word]:
    """The words of a text without those that say nothing by themselves, in order."""
    words = []
    for match in WORD.finditer(text.replace("’", "'").replace("ʼ", "'")):
        written = match.group()
        lemmas = word_lemmas(written.lower())
        if lemmas:
            before = text[: match.start()].rstrip(" \t«\"'(*_")
            begins = not before or before[-1] in ".!?\n"
            is_name = written[0].isupper() and not (begins and not written.isupper())
            words.append(Word(written.lower(), lemmas, is_name, match.start(), match.end()))
    return words


def lemmas_of(text: str) -> frozenset[str]:
    """The lemmas of all words of a text."""
    return frozenset(lemma for word in content_words(text) for lemma in word.lemmas)


@lru_cache(maxsize=256)
def lemmas_about(relation: str) -> frozenset[str]:
    """The lemmas of the words that name a relation of the table."""
    known = BY_NAME.get(relation)
    words = known.about.split() if known else ()
    return frozenset(lemma for word in words for lemma in word_lemmas(word))


@lru_cache(maxsize=50_000)
def word_lemmas(word: str) -> frozenset[str]:
    """The lemmas of one lower-case word; none for a word that says nothing."""
    word = plain(word)
    if word in STOP_WORDS or word in FILLERS or word in EMPTY_WORDS:
        return frozenset()
    if not CYRILLIC.search(word):
        bare = word.removesuffix("'s")
        lemmas = {stem_english(ENGLISH.get(bare, bare))}
    else:
        lemmas = _cyrillic_lemmas(word.replace("ё", "е"))
    if lemmas & EMPTY_WORDS:
        return frozenset()
    person = PEOPLE.get(word.removesuffix("'s").replace("ё", "е"))
    if person == "user":
        return frozenset()
    return frozenset(lemmas | ({f"@{person}"} if person else set()))


def _cyrillic_lemmas(word: str) -> set[str]:
    """As the dictionaries know it; of a name or slang, whose cases differ, the beginning."""
    if known := dictionary_forms(word):
        return set(known)
    stem = CASE_ENDING.sub("", word)
    return {f"{stem}-" if len(stem) >= MIN_STEM else word}
