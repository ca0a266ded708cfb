"""Relations and subjects of facts in one vocabulary, and which relations hold one value.

Models name the same relation in many ways and in the user's language. What is known gets one
English name; the rest stays as written and is taken to hold many values, so that a rule alone
never retires a fact whose meaning it does not know.
"""

from __future__ import annotations

import re

from src.memory.facts import CandidateFact
from src.memory.plain_text import normalise, plain, word_set

# One value at a time: a new one replaces the old.
_SINGLE = {
    "name": "first_name full_name real_name is_called called named имя зовут полное_имя звать "
    "ім'я звуть повне_ім'я",
    "nickname": "nick username alias прозвище ник никнейм кличка прізвисько нік нікнейм псевдонім",
    "age": "years_old how_old возраст лет сколько_лет вік років скільки_років",
    "birthday": "birthdate birth_date date_of_birth dob born_on birth день_рождения "
    "дата_рождения день_народження дата_народження",
    "gender": "sex пол гендер стать ґендер",
    "nationality": "citizenship citizen_of национальность гражданство національність громадянство",
    "lives_in": "live living living_in lives lives_at live_in residence resides_in reside city "
    "home_city location located_in current_city current_location country_of_residence "
    "place_of_residence moved_to живет живет_в город город_проживания место_жительства "
    "проживает_в проживает переехал_в переехала_в живе живе_в живе_у мешкає мешкає_в мешкає_у "
    "проживає_в місто місце_проживання переїхав_до переїхала_до",
    "born_in": "birthplace place_of_birth birth_place родился_в родилась_в место_рождения "
    "народився_в народився_у народилася_в народилася_у місце_народження",
    "address": "home_address street_address адрес домашний_адрес адреса домашня_адреса",
    "works_as": "job occupation profession job_title position career role_at_work профессия "
    "должность специальность работает_кем кем_работает работает_как професія посада фах "
    "працює_ким ким_працює працює_як",
    "works_at": "employer employed_by employed_at works_for work_at works_in company workplace "
    "place_of_work job_at место_работы компания работает_в работает_на работодатель "
    "місце_роботи компанія працює_в працює_у працює_на роботодавець",
    "studies_at": "student_at university school college attends studies_in учится_в университет "
    "школа вуз место_учебы навчається_в навчається_у вчиться_в вчиться_у університет виш",
    "studies": "major field_of_study specialization studying учится_на специализация изучает "
    "спеціалізація вивчає",
    "married_to": "spouse husband wife marriage муж жена супруг супруга замужем_за женат_на "
    "чоловік дружина заміжня_за одружений_з одружена_з",
    "partner": "boyfriend girlfriend dating in_relationship_with engaged_to fiance fiancee парень "
    "девушка партнер партнерша встречается_с жених невеста хлопець дівчина наречений наречена "
    "зустрічається_з",
    "email": "e_mail email_address mail почта электронная_почта имейл эл_почта пошта "
    "електронна_пошта імейл",
    "phone": "phone_number telephone mobile mobile_number телефон номер_телефона мобильный "
    "номер_телефону мобільний",
    "height": "рост зріст",
    "weight": "вес вага",
    "shoe_size": "foot_size размер_обуви размер_ноги розмір_взуття розмір_ноги",
    "clothes_size": "clothing_size size размер_одежды размер розмір_одягу розмір",
    "diet": "dietary_preference eating_style диета питание тип_питания дієта харчування",
    "time_zone": "timezone часовой_пояс часовий_пояс",
    "native_language": "mother_tongue first_language родной_язык рідна_мова",
    "car": "drives vehicle car_model машина автомобиль авто автомобіль марка_машины марка_авто",
}
# Many values side by side: none retires another.
_MANY = {
    "likes": "like loves love enjoys enjoy fond_of prefers нравится любит люблю обожает "
    "предпочитает подобається любить обожнює полюбляє віддає_перевагу",
    "dislikes": "dislike hates hate does_not_like doesn't_like don't_like не_любит не_люблю "
    "ненавидит не_нравится терпеть_не_может не_любить ненавидить не_подобається",
    "has_child": "child children son daughter has_son has_daughter kids kid parent_of ребенок "
    "дети сын дочь дочка есть_ребенок имеет_ребенка дитина діти син донька має_дитину",
    "has_sibling": "sibling siblings brother sister has_brother has_sister брат сестра",
    "has_parent": "parent parents mother father mom dad has_mother has_father мать мама отец папа "
    "родитель родители мати тато батько батьки",
    "has_pet": "pet pets cat dog has_cat has_dog owns_pet питомец домашнее_животное кот кошка "
    "собака улюбленець домашня_тварина кіт кішка пес домашній_улюбленець",
    "has_friend": "friend friends friend_of друг подруга друзья дружит_с друзі товариш дружить_з",
    "allergic_to": "allergy allergies has_allergy has_allergy_to allergic аллергия аллергия_на "
    "есть_аллергия_на алергія алергія_на має_алергію_на",
    "speaks": "speaks_language language languages knows_language языки язык говорит_на владеет "
    "владеет_языком мови мова розмовляє володіє_мовою говорить",
    "owns": "own possesses владеет_вещью имеет owner_of має володіє",
    "visited": "has_visited traveled_to travelled_to has_been_to been_to был_в была_в посетил "
    "посетила ездил_в ездила_в відвідав відвідала був_у була_у їздив_до їздила_до",
    "plans": "plan plans_to planning intends_to wants_to going_to планирует планы план собирается "
    "хочет планує плани збирається хоче",
    "hobby": "hobbies interest interests interested_in pastime хобби увлечение увлечения "
    "интересуется интересы увлекается хобі захоплення цікавиться інтереси захоплюється",
    "habit": "habits routine привычка привычки распорядок звичка звички розпорядок",
    "event": "events attended happened событие событие_жизни произошло подія сталося",
    "skill": "skills can able_to good_at ability умеет навык навыки умение вміє навичка навички",
    "condition": "medical_condition health_condition diagnosis disease illness has_condition "
    "болезнь диагноз заболевание болеет хвороба діагноз захворювання хворіє",
    "takes_medicine": "medication medications medicine takes_medication takes лекарство лекарства "
    "принимает принимает_лекарство ліки приймає приймає_ліки",
    "knows": "knows_person acquainted_with знает знаком_с знакома_с знає знайомий_з знайома_з",
}
_SUBJECTS = {
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
    "friend": "friend друг друга другу другом друже",
    "boss": "boss начальник начальника начальнику начальником шеф шефа начальникові",
}
# Words before a subject that add nothing: "my brother", "брат пользователя" is "brother".
_OWN = word_set(
    "my our the user's users мой моя мое моего моей моему моим мою наш наша пользователя",
    "мій моє мого моєї моєму моїм моєю користувача",
)
_AUXILIARIES = ("user_", "users_", "my_", "is_", "has_", "have_", "пользователь_", "користувач_")
_FAVOURITE = re.compile(r"(?:(?:his|her|their)_)?(?:favou?rite|любим[а-я]+|улюблен[а-яіїє]+)_(.+)")
THING_LETTERS = 5  # of each word of a favourite thing, so that case endings make no difference


def _written(relation: str) -> str:
    """A relation in lower case, its words joined by underscores, without apostrophes."""
    letters = plain(relation).replace("ё", "е").replace("'", "")
    return re.sub(r"[\W_]+", "_", letters).strip("_")


_ALIASES = {
    _written(alias): name
    for names in (_SINGLE, _MANY)
    for name, aliases in names.items()
    for alias in (name, *aliases.split())
}
_PEOPLE = {form: name for name, forms in _SUBJECTS.items() for form in forms.split()}


def canonical_relation(relation: str) -> str:
    """The relation's name in our vocabulary, or as written (lower case, underscores).

    A favourite thing is a relation of its own: "улюблене місто" is ``favourite_місто``.
    """
    written = _written(relation)
    bare = written
    while bare not in _ALIASES and bare.startswith(_AUXILIARIES):
        bare = bare.split("_", 1)[1]
    if bare in _ALIASES:
        return _ALIASES[bare]
    favourite = _FAVOURITE.fullmatch(bare)
    if favourite is None:
        return written
    thing = favourite[1].replace("colour", "color")
    return "favourite_" + "_".join(word[:THING_LETTERS] for word in thing.split("_"))


def holds_many(relation: str) -> bool:
    """Whether a subject may have several values of the relation; true of unknown ones."""
    name = canonical_relation(relation)
    return name not in _SINGLE and not name.startswith("favourite_")


def canonical_subject(subject: str) -> str:
    """ "user" for the person himself, an English word for kin, else the normalised name."""
    words = normalise(subject).split()
    told = [word.removesuffix("'s") for word in words if word not in _OWN] or words
    return " ".join(_PEOPLE.get(word, word) for word in told)


def is_update(*, new: CandidateFact, old_subject: str, old_relation: str, old_object: str) -> bool:
    """Whether the new fact replaces an old one by rule alone.

    True when both say a different value of the same single-valued relation of the same subject.
    A brother or a cat of another name is another one: only the user's own name is replaced.
    When each of them holds in the world is for the caller to compare.
    """
    subject, relation = canonical_subject(new.subject), canonical_relation(new.relation)
    if relation == "name" and subject != "user":
        return False
    return (
        subject == canonical_subject(old_subject)
        and relation == canonical_relation(old_relation)
        and not holds_many(relation)
        and normalise(new.object) != normalise(old_object)
    )
