"""Random requests to forget, over thirty stored facts each, that must delete no wrong fact.

    python -m tests.attacks.forgetting [--n 200] [--seed 1] [--untyped]

Half of the requests mean a stored fact, with other words where the table has some. The other half
mean a fact that was never stored, often beside one that shares a word with it. Prints one JSON
line {"requests", "destroyed", "missed", "asked"}. The exit status is 1 when a wrong fact was
deleted or more than a tenth of the meant facts were not forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from src.memory.forget_matching import Statement, choose_best, is_meant, read_request
from tests.attacks.frame import run_attack

FACTS = 30  # stored facts per request
MISSES = 0.1  # share of meant facts that need not be forgotten


@dataclass(frozen=True)
class Kind:
    """A kind of fact: its sentence, requests to forget it, and its values.

    Values are pairs (``told`` form, request form). In ``requests``, ``{0}`` is the told form and
    ``{1}`` the request form.
    """

    told: str
    requests: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    relation: str = "other"
    subject: str = "user"


def same(*values: str) -> tuple[tuple[str, str], ...]:
    """Return values with equal forms in fact and request."""
    return tuple((value, value) for value in values)


KINDS = (
    Kind("I play {}", ("Forget that I play {0}", "forget about {0}"),
         same("football", "chess", "tennis", "the violin", "poker", "golf", "the drums"), "hobby"),
    Kind("I live in {}", ("Forget that I live in {0}",),
         same("Oslo", "Bergen", "Paris", "New York", "Lyon"), "lives_in"),
    Kind("My favourite color is {}", ("Forget that my favorite color is {0}",),
         same("green", "blue", "red", "yellow"), "favourite_color"),
    Kind("I have a {}", ("Forget that I have a {0}", "Forget my {0}"),
         same("dog", "cat", "parrot", "motorbike", "boat", "hamster", "piano"), "owns"),
    Kind("I am allergic to {}", ("Forget that I'm allergic to {0}", "Forget my {0} allergy"),
         same("nuts", "pollen", "shellfish", "dogs", "penicillin"), "allergic_to"),
    Kind("My brother works as a {}", ("Forget that my brother works as a {0}",),
         same("pilot", "nurse", "cook", "driver"), "works_as", "brother"),
    Kind("I work as a {}", ("Forget that I work as a {0}",),
         same("teacher", "plumber", "dentist", "lawyer"), "works_as"),
    Kind("I like {}", ("Forget that I like {0}", "Forget that I love {0}"),
         same("jazz", "opera", "sushi", "hiking", "thunderstorms", "old maps"), "likes"),
    Kind("My sister's birthday is {}", ("Forget my sister's birthday",),
         same("3 May"), "birthday", "sister"),
    Kind("My birthday is {}", ("Forget my birthday",), same("7 June"), "birthday"),
    Kind("Я люблю {}", ("Забудь, что я люблю {0}", "Забудь про {0}"),
         (("джаз", "джаз"), ("оперу", "оперу"), ("карате", "карате"), ("борщ", "борщ"),
          ("шахматы", "шахматы"), ("рыбалку", "рыбалку")), "likes"),
    Kind("У меня есть {}", ("Забудь, что у меня есть {0}", "Забудь моего {1}"),
         (("кот", "кота"), ("попугай", "попугая"), ("мотоцикл", "мотоцикл"),
          ("конь", "коня")), "owns"),
    Kind("Я живу в {}", ("Забудь, что я живу в {0}",),
         (("Омске", "Омске"), ("Минске", "Минске"), ("Твери", "Твери"), ("Риге", "Риге")),
         "lives_in"),
    Kind("Моя сестра живёт в {}", ("Забудь, что моя сестра живёт в {0}",),
         (("Перми", "Перми"), ("Омске", "Омске"), ("Казани", "Казани")), "lives_in", "sister"),
    Kind("Я работаю {}", ("Забудь, что я работаю {0}",),
         (("поваром", "поваром"), ("ветеринаром", "ветеринаром"), ("юристом", "юристом")),
         "works_as"),
    Kind("У меня аллергия на {}", ("Забудь про мою аллергию на {0}",),
         (("орехи", "орехи"), ("кошек", "кошек"), ("пыльцу", "пыльцу")), "allergic_to"),
    Kind("У меня много {}", ("Забудь про мои {1}",),
         (("карандашей", "карандаши"), ("пластинок", "пластинки"), ("марок", "марки")), "owns"),
    Kind("Я курю {}", ("Забудь, что я курю {0}",), same("трубку", "сигары")),
    Kind("Я не ем {}", ("Забудь, что я не ем {0}",), same("мясо", "рыбу", "сахар")),
    Kind("Я ем {}", ("Забудь, что я ем {0}",), same("творог", "кашу", "мёд")),
    Kind("Моего пса зовут {}", ("Забудь, как зовут моего пса", "Забудь кличку моего пса"),
         same("Рекс"), "name", "pet"),
    Kind("Мене звати {}", ("Забудь, як мене звати",), same("Олеся"), "name"),
    Kind("Я граю на {}", ("Забудь, що я граю на {0}",),
         (("гітарі", "гітарі"), ("скрипці", "скрипці"), ("бандурі", "бандурі"))),
    Kind("Мій син навчається в {}", ("Забудь, що мій син навчається в {0}",),
         (("Празі", "Празі"), ("Одесі", "Одесі")), "studies_at", "son"),
    Kind("Я боюся {}", ("Забудь, що я боюся {0}",),
         (("собак", "собак"), ("висоти", "висоту"), ("павуків", "павуків"))),
    Kind("Маю {}", ("Забудь, що я маю {0}",),
         (("собаку", "собаку"), ("дачу", "дачу"), ("човен", "човен"))),
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A stored fact and a request that means it."""

    told: Statement
    request: str


def everything(rng: random.Random, *, typed: bool = True) -> list[Stored]:
    """Return all facts of the table, each with one of its requests.

    Args:
        rng: Chooses the requests.
        typed: False for facts as careless models store them: without a relation, with the whole
            text as object, and possibly with the object as subject.
    """
    facts = []
    for kind in KINDS:
        for value, form in kind.values:
            text = kind.told.format(value)
            fact = Statement(text, kind.subject, kind.relation, value)
            if not typed:
                subject = value if kind.subject == "user" else kind.subject
                fact = Statement(text, rng.choice([kind.subject, subject]), "other", text)
            request = rng.choice(kind.requests).format(value, form)
            facts.append(Stored(fact, request))
    return facts


def attack(
    n: int,
    seed: int,
    chosen: Callable[[str, Sequence[Statement]], list[int]],
    *,
    typed: bool = True,
) -> dict[str, object]:
    """Make ``n`` requests, half of which mean a stored fact; returns the report.

    Args:
        n: Number of requests.
        seed: Seed of the random choices.
        chosen: Returns the indexes of the facts that a request certainly means.
        typed: See ``everything``.
    """
    rng = random.Random(seed)
    destroyed: list[str] = []
    missed: list[str] = []
    asked = 0
    for number in range(n):
        pool = everything(rng, typed=typed)
        rng.shuffle(pool)
        meant = pool.pop()
        is_there = number % 2 == 0
        facts = _without_rivals(pool, meant)[: FACTS - is_there]
        facts += [meant] if is_there else []
        rng.shuffle(facts)
        hits = [facts[place] for place in chosen(meant.request, [f.told for f in facts])]
        wrong = [hit.told.text for hit in hits if hit is not meant]
        if len(hits) == 1 and wrong:
            destroyed.append(f"{meant.request} -> {wrong[0]}")
        elif len(hits) > 1:
            asked += 1
        elif is_there and not hits:
            missed.append(f"{meant.request} ({meant.told.text})")
    return {"requests": n, "destroyed": destroyed, "missed": missed, "asked": asked}


def _without_rivals(pool: Sequence[Stored], meant: Stored) -> list[Stored]:
    """Return the facts whose request differs from that of ``meant``."""
    return [stored for stored in pool if stored.request != meant.request]


def by_rules(request: str, facts: Sequence[Statement]) -> list[int]:
    """Choose facts as ``Forgetter.forget_about`` does among current facts."""
    read = read_request(request)
    chosen = choose_best(read, [fact for fact in facts if is_meant(read, fact)])
    return [number for number, fact in enumerate(facts) if fact in chosen]


def main(n: int, seed: int, untyped: bool) -> dict[str, object]:
    """Make ``n`` requests, by the rules of the bot."""
    report = attack(n, seed, by_rules, typed=not untyped)
    return {**report, "too_many": len(list(report["missed"])) > MISSES * n / 2}  # type: ignore[call-overload]


if __name__ == "__main__":
    options = {"--n": 200, "--seed": 1, "--untyped": False}
    run_attack(main, options, wrong=["destroyed", "too_many"])
