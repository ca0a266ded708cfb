"""Kin, friends and pets: the role that a word names, in the three languages."""

from __future__ import annotations

from src.language.morphology import noun_forms

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
