"""Numbers that are written as words, in Russian, Ukrainian and English."""

from __future__ import annotations

from collections.abc import Iterable

# The forms of a number after ``normalise``; "семью" is left out: it is a family more often.
_CARDINALS = {
    0: "ноль нуль ноля нуля zero",
    1: "один одна одно одни одного одной одному одну одним одном одне однієї одній однією one",
    2: "два две двух двум двумя двое двоих дві двох двом двома двоє two",
    3: "три трех трем тремя трое троих трьох трьом трьома троє three",
    4: "четыре четырех четырем четверо четверых чотири чотирьох чотирьом четверо four",
    5: "пять пяти пятью пятеро пятерых п'ять п'яти п'ятьох п'ятеро five",
    6: "шесть шести шестью шестеро шість шести шістьох шестеро six",
    7: "семь семи семеро сім семи сімох семеро seven",
    8: "восемь восьми восемью восьмеро вісім восьми вісьмох восьмеро eight",
    9: "девять девяти девятью дев'ять дев'яти дев'ятьох nine",
    10: "десять десяти десятью десяти десятьох ten",
    11: "одиннадцать одиннадцати одинадцять одинадцяти eleven",
    12: "двенадцать двенадцати дванадцять дванадцяти twelve",
    13: "тринадцать тринадцати тринадцять тринадцяти thirteen",
    14: "четырнадцать четырнадцати чотирнадцять чотирнадцяти fourteen",
    15: "пятнадцать пятнадцати п'ятнадцять п'ятнадцяти fifteen",
    16: "шестнадцать шестнадцати шістнадцять шістнадцяти sixteen",
    17: "семнадцать семнадцати сімнадцять сімнадцяти seventeen",
    18: "восемнадцать восемнадцати вісімнадцять вісімнадцяти eighteen",
    19: "девятнадцать девятнадцати дев'ятнадцять дев'ятнадцяти nineteen",
    20: "двадцать двадцати двадцять двадцяти twenty",
    30: "тридцать тридцати тридцять тридцяти thirty",
    40: "сорок сорока forty",
    50: "пятьдесят пятидесяти п'ятдесят п'ятдесяти fifty",
    60: "шестьдесят шестидесяти шістдесят шістдесяти sixty",
    70: "семьдесят семидесяти сімдесят сімдесяти seventy",
    80: "восемьдесят восьмидесяти вісімдесят вісімдесяти eighty",
    90: "девяносто девяноста дев'яносто дев'яноста ninety",
    100: "сто ста",
    200: "двести двухсот двісті двохсот",
    300: "триста трехсот трьохсот",
    400: "четыреста четырехсот чотириста чотирьохсот",
    500: "пятьсот пятисот п'ятсот п'ятисот",
    600: "шестьсот шестисот шістсот шестисот",
    700: "семьсот семисот сімсот семисот",
    800: "восемьсот восьмисот вісімсот восьмисот",
    900: "девятьсот девятисот дев'ятсот дев'ятисот",
}
# The beginnings of ordinal numbers; an ending of up to four letters follows.
_ORDINALS = {
    1: "перв перш first",
    2: "втор друг second",
    3: "трет third",
    4: "четверт fourth",
    5: "пят п'ят fifth",
    6: "шест шост sixth",
    7: "седьм сьом seventh",
    8: "восьм eighth",
    9: "девят дев'ят ninth",
    10: "десят tenth",
    11: "одиннадцат одинадцят eleventh",
    12: "двенадцат дванадцят twelfth",
    13: "тринадцат тринадцят thirteenth",
    14: "четырнадцат чотирнадцят fourteenth",
    15: "пятнадцат п'ятнадцят fifteenth",
    16: "шестнадцат шістнадцят sixteenth",
    17: "семнадцат сімнадцят seventeenth",
    18: "восемнадцат вісімнадцят eighteenth",
    19: "девятнадцат дев'ятнадцят nineteenth",
    20: "двадцат двадцят twentieth",
    30: "тридцат тридцят thirtieth",
    40: "сороков fortieth",
    50: "пятидесят п'ятдесят fiftieth",
}
# What multiplies the number before it, and where the next larger multiplier begins.
_SCALES = {
    (100, 1_000): "hundred",
    (
        1_000,
        10**6,
    ): "тысяча тысячи тысяч тысячу тысяче тыс тисяча тисячі тисяч тисячу тис thousand",
    (10**6, 10**9): "миллион миллиона миллионов млн мільйон мільйона мільйонів million",
}
CARDINALS = {word: value for value, words in _CARDINALS.items() for word in words.split()}
ORDINALS = {stem: value for value, stems in _ORDINALS.items() for stem in stems.split()}
SCALES = {word: scale for scale, words in _SCALES.items() for word in words.split()}
MAX_ENDING = 4  # letters of an ordinal after its beginning ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number counts no thousands


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """The words, with numbers in digits: "двадцать пять тысяч" and "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Read "первое" and "fifth" as well.
    """
    read: list[str] = []
    number: int | None = None
    for word in words:
        if word in SCALES:
            if number is None and read and read[-1].isdecimal() and len(read[-1]) <= MAX_DIGITS:
                number = int(read.pop())
            number = _scaled(number or 1, *SCALES[word])
            continue
        part = _value(word, ordinals=ordinals)
        if number is not None and part is not None and _continues(number, part):
            number += part
            continue
        if number is not None:
            read.append(str(number))
        number = part
        if part is None:
            read.append(word)
    return read if number is None else [*read, str(number)]


def _value(word: str, *, ordinals: bool) -> int | None:
    """The number that a word says by itself."""
    value = CARDINALS.get(word)
    if value is not None or not ordinals:
        return value
    ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
    return next((ORDINALS[word[:end]] for end in ends if word[:end] in ORDINALS), None)


def _continues(number: int, part: int) -> bool:
    """Whether ``part`` fills the zeros at the end of ``number``: 20 and 5, but not 2 and 3."""
    return number > 0 and part > 0 and number % 10 ** len(str(part)) == 0


def _scaled(number: int, scale: int, ceiling: int) -> int:
    """2 thousand; in 2,000,003 thousand the 3 alone is multiplied."""
    above, below = divmod(number, ceiling)
    return above * ceiling + (below or 1) * scale
