"""Which relation a question asks for: "где я живу?" asks for ``lives_in``.

A fact is indexed with its relation as one more term, and a question searches for it. So "I moved
to Lviv" answers "where do I live?" although no word is the same.
"""

from __future__ import annotations

import re

# Per relation, how questions name it in Russian, Ukrainian and English.
PATTERNS = {
    "name": r"как меня зовут|как меня звать|мо[её] имя|як мене (звати|звуть)|мо[єя] ім'я"
    r"|\bmy name\b|\bwho am i\b|\bкто я\b|\bхто я\b",
    "age": r"сколько\b.{0,20}\bлет\b|скільки\b.{0,20}\bрок|возраст|\bвік\b|how old|\bage\b",
    "birthday": r"д(ень|ня|ню) рожд|д(ень|ня|ню) народж|birthday|\bродил[аи]?с|\bнароди[лв]",
    "lives_in": r"где\b.{0,30}жи(в|ть|л)|\bде\b.{0,30}(живе|жити|мешка)|where\b.{0,30}\bliv"
    r"|как(ом|ой) (город|стран)|як(ому|ій) (міст|країн)|(which|what) (city|town|country)",
    "born_in": r"где\b.{0,20}родил|\bде\b.{0,20}народи|where\b.{0,20}\bborn",
    "address": r"\bадрес|\baddress\b",
    "works_at": r"где\b.{0,20}(работа|труж|служ)|\bде\b.{0,20}(працю|робл)|where\b.{0,20}\bwork"
    r"|employer|работодател|роботодав",
    "works_as": r"кем\b.{0,20}работа|\bким\b.{0,20}працю|професси|професі|\bjob\b|for a living"
    r"|occupation|profession",
    "studies_at": r"где\b.{0,20}(уч[уиа]|обуча)|\bде\b.{0,20}(навча|вч[уиа])|where\b.{0,20}\bstud",
    "married_to": r"\bжен[аыуео]|\bмуж(а|у|ем|е)?\b|дружин|чоловік|\bwife\b"
    r"|husband|married|spouse",
    "has_child": r"\bдет(и|ей|ям|ях)\b|ребен|\bдіт(и|ей|ям|ях)\b|дитин|child|\bkids?\b",
    "has_pet": r"питом|домашн\w+ (животн|любим)|собак|кошк|\bкот(а|у|ом|е)?\b|\bкіт\b|кішк|тварин"
    r"|\bпес\b|\bpets?\b|\bdogs?\b|\bcats?\b",
    "allergic_to": r"аллерг|алергі|allerg",
    "speaks": r"язык(а|ах|и|ов)?\b|\bмов(а|и|ою|ами|у)\b|language",
    "car": r"машин|автомоб|авто\b|\bcar\b",
    "phone": r"телефон|phone",
    "diet": r"\bдиет|\bдієт|\bdiet|вегетариан|веган|вегетаріан|vegetarian|vegan",
    "hobby": r"хобби|хобі|hobb|увлека|захоплю|свободн\w+ врем|вільн\w+ час|free time",
    "shoe_size": r"размер\w* (обув|ног|стоп)|розмір\w* (взутт|ног|стоп)|shoe size",
}
ASKED = {relation: re.compile(pattern, re.IGNORECASE) for relation, pattern in PATTERNS.items()}
MAX_QUESTION = 300  # characters; a longer text is no question for one relation


def relation_term(relation: str) -> str:
    """The search term of a relation; no word has an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """The relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    return [relation_term(name) for name, pattern in ASKED.items() if pattern.search(text)]
