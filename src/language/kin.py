"""Kin, friends and pets: the role that a word names, in the three languages."""

from __future__ import annotations

from src.language.morphology import noun_forms

KIN = {
    form: name
    for line in (
        "mother мать мама мати матір матуся mom mum mother",
        "father отец папа батько тато dad father",
        "parents родители батьки parents",
        "brother брат brother",
        "sister сестра сестричка sister",
        "son сын син son",
        "daughter дочь дочка донька daughter",
        "child ребенок дети дитина діти близнец близнецы двойняшка близнюк двійнята малыш малюк "
        "child children kid kids twin twins baby toddler",
        "wife жена супруга дружина wife",
        "husband муж супруг чоловік husband",
        "ex бывший бывшая колишній колишня ex",
        "partner парень девушка невеста жених хлопець дівчина наречений наречена crush "
        "boyfriend girlfriend fiance fiancee partner",
        "grandmother бабушка бабуля бабуся grandmother grandma granny",
        "grandfather дедушка дед дідусь дід grandfather grandpa прадед прадід",
        "aunt тетя тітка aunt",
        "uncle дядя дядько uncle",
        "cousin кузен кузина племянник племянница племінник племінниця cousin nephew niece",
        "friend друг подруга приятель товарищ товариш кореш кум кума friend mate buddy pal",
        "neighbour сосед соседка сусід сусідка neighbour neighbor roommate flatmate housemate",
        "boss начальник начальница шеф босс директор boss manager",
        "colleague коллега колега colleague coworker workmate",
        "landlord хозяин хозяйка landlord landlady",
        "teacher учитель учительница вчитель teacher",
        "pet собака пес кот кошка кіт кішка попугай папуга хомяк черепаха лошадь конь кінь щенок "
        "котенок dog cat parrot hamster tortoise horse puppy kitten rabbit pet",
    )
    for name, *forms in (line.split(),)
    for form in forms
}


def kin_of(word: str) -> str | None:
    """The role that a word names: "сестры" is ``sister``; None for other words."""
    lower = word.lower().replace("ё", "е").removesuffix("'s")
    if lower in KIN:
        return KIN[lower]
    return next((KIN[form] for form in sorted(noun_forms(word)) if form in KIN), None)
