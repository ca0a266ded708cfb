"""What the memory knows of relations: one record each, in three languages.

The gate, contradictions, questions, forgetting and the offline model read this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from src.language import endings


@dataclass(frozen=True)
class Relation:
    """A relation between somebody and a value.

    Attributes:
        name: Ours, in English.
        aliases: What models call it in three languages; words of one alias joined by underscores.
        is_single: Whether a subject has one value at a time, so that a new one replaces the old.
        asked: An expression for the questions that ask for it.
        about: Words that name it in a request to forget ("where I live", "my job"); never words
            that name one of its values, such as a cat for a pet.
        importance: Of such a fact by default, 1 to 10.
        ends: An expression for what ends it without a new value.
    """

    name: str
    aliases: str
    is_single: bool = False
    asked: str = ""
    about: str = ""
    importance: int = 5
    ends: str = ""

    @property
    def ends_by_name(self) -> bool:
        """Whether an ending must name what ends (was sold, died): a job or a marriage is one."""
        return not (self.is_single and self.ends in endings.OF_THE_ONLY_ONE)


RELATIONS = (
    Relation(
        "name",
        "first_name full_name real_name is_called called named имя зовут полное_имя звать ім'я "
        "звуть повне_ім'я",
        is_single=True,
        asked=r"как меня зовут|как меня звать|мо[её] имя|як мене (звати|звуть)|мо[єя] ім'я"
        r"|\bmy name\b|\bwho am i\b|\bкто я\b|\bхто я\b",
        about="имя звать кличка ім'я name call",
        importance=10,
    ),
    Relation(
        "nickname",
        "nick username alias прозвище ник никнейм кличка прізвисько нік нікнейм псевдонім",
        is_single=True,
        about="прозвище ник никнейм кличка прізвисько нік nickname nick username",
        importance=9,
    ),
    Relation(
        "age",
        "years_old how_old возраст лет сколько_лет вік років скільки_років",
        is_single=True,
        asked=r"сколько\b.{0,20}\bлет\b|скільки\b.{0,20}\bрок|возраст|\bвік\b|how old|\bage\b",
        about="возраст лет вік рік age old",
        importance=7,
        ends=endings.DIED,
    ),
    Relation(
        "birthday",
        "birthdate birth_date date_of_birth dob born_on birth день_рождения дата_рождения "
        "день_народження дата_народження",
        is_single=True,
        asked=r"д(ень|ня|ню) рожд|д(ень|ня|ню) народж|birthday|\bродил[аи]?с|\bнароди[лв]",
        about="рождение родиться народження народитися birthday born",
        importance=8,
    ),
    Relation(
        "gender",
        "sex пол гендер стать ґендер",
        is_single=True,
        about="пол стать gender sex",
    ),
    Relation(
        "nationality",
        "citizenship citizen_of национальность гражданство національність громадянство",
        is_single=True,
        about="гражданство национальность громадянство національність citizenship nationality",
    ),
    Relation(
        "lives_in",
        "live living living_in lives lives_at live_in residence resides_in reside city home_city "
        "location located_in current_city current_location country_of_residence "
        "place_of_residence moved_to живет живет_в город город_проживания место_жительства "
        "проживает_в проживает переехал_в переехала_в живе живе_в живе_у мешкає мешкає_в "
        "мешкає_у проживає_в місто місце_проживання переїхав_до переїхала_до",
        is_single=True,
        asked=r"где\b.{0,30}жи(в|ть|л)|\bде\b.{0,30}(жив[еу]|жити|мешка)|where\b.{0,30}\bliv|как(ом"
        r"|ой) (город|стран)|як(ому|ій) (міст|країн)|(which|what) (city|town|country)",
        about="жить проживать город мешкати проживати місто live city town home reside residence",
        importance=7,
        ends=f"{endings.MOVED_OUT}|{endings.DIED}",
    ),
    Relation(
        "born_in",
        "birthplace place_of_birth birth_place родился_в родилась_в место_рождения народився_в "
        "народився_у народилася_в народилася_у місце_народження",
        is_single=True,
        asked=r"где\b.{0,20}родил|\bде\b.{0,20}народи|where\b.{0,20}\bborn|\bродом\b|hometown"
        r"|where (?:am i|do i come) from|place of birth|birthplace|место (?:\w+ )?рождения|"
        r"місце (?:\w+ )?народження",
        about="родиться родина народитися born birthplace",
    ),
    Relation(
        "address",
        "home_address street_address адрес домашний_адрес адреса домашня_адреса",
        is_single=True,
        asked=r"\bадрес|\baddress\b",
        about="адрес адреса address",
        importance=7,
    ),
    Relation(
        "works_as",
        "job occupation profession job_title position career role_at_work профессия должность "
        "специальность работает_кем кем_работает работает_как професія посада фах працює_ким "
        "ким_працює працює_як",
        is_single=True,
        asked=r"кем\b.{0,20}(работа|труж)|(?:про|об?) мо(?:ей|ю|єї) (?:работ|робот)|"
        r"about my (?:work|job)"
        r"|(?:какая|яка) .{0,15}(?:работа|робота)|\bким\b.{0,20}працю|професси|професі|"
        r"\bjob\b|for a living|occupation|profession",
        about="работать работа профессия должность специальность працювати робота професія посада "
        "work job profession occupation position career",
        importance=7,
        ends=endings.LEFT_WORK,
    ),
    Relation(
        "works_at",
        "employer employed_by employed_at works_for work_at works_in company workplace "
        "place_of_work job_at место_работы компания работает_в работает_на работодатель "
        "місце_роботи компанія працює_в працює_у працює_на роботодавець",
        is_single=True,
        asked=r"где\b.{0,20}(работа|труж|служ)|\bде\b.{0,20}(працю|робл)|where\b.{0,20}\bwork"
        r"|employer|работодател|роботодав",
        about="работать работа работодатель компания працювати робота роботодавець компанія work "
        "job employer company workplace",
        importance=7,
        ends=endings.LEFT_WORK,
    ),
    Relation(
        "studies_at",
        "student_at university school college attends studies_in учится_в университет школа вуз "
        "место_учебы навчається_в навчається_у вчиться_в вчиться_у університет виш",
        is_single=True,
        asked=r"\bстудент|\bstudent\b|где\b.{0,20}(уч[уиа]|обуча)|\bде\b.{0,20}(навча|вч[уиа])|where\b.{0,20}\bstud",
        about="учиться учёба университет школа вуз вчитися навчатися навчання університет study "
        "university school college",
        importance=7,
        ends=endings.LEFT_SCHOOL,
    ),
    Relation(
        "studies",
        "major field_of_study specialization studying учится_на специализация изучает "
        "спеціалізація вивчає",
        is_single=True,
        about="учиться изучать специализация вчитися вивчати study major",
        ends=endings.LEFT_SCHOOL,
    ),
    Relation(
        "married_to",
        "spouse husband wife marriage муж жена супруг супруга замужем_за женат_на чоловік "
        "дружина заміжня_за одружений_з одружена_з",
        is_single=True,
        asked=r"\bжен[аыуео]|\bмуж(а|у|ем|е)?\b|дружин|чоловік|\bwife\b|husband|married|spouse",
        about="брак жениться замужем женатый шлюб одружитися одружений заміжня marriage married "
        "marry spouse",
        importance=8,
        ends=endings.PARTED,
    ),
    Relation(
        "partner",
        "boyfriend girlfriend dating in_relationship_with engaged_to fiance fiancee парень "
        "девушка партнер партнерша встречается_с жених невеста хлопець дівчина наречений "
        "наречена зустрічається_з",
        is_single=True,
        asked=r"встречаюсь|зустрічаюс|\bпарень\b|\bдевушк|\bхлопець\b|\bдівчин|girlfriend|boyfriend"
        r"|\bdating\b|\bseeing\b|relationship",
        about="отношение встречаться стосунки зустрічатися relationship dating date",
        importance=8,
        ends=endings.PARTED,
    ),
    Relation(
        "email",
        "e_mail email_address mail почта электронная_почта имейл эл_почта пошта електронна_пошта "
        "імейл",
        is_single=True,
        about="почта имейл пошта email mail",
        importance=6,
    ),
    Relation(
        "phone",
        "phone_number telephone mobile mobile_number телефон номер_телефона мобильный "
        "номер_телефону мобільний",
        is_single=True,
        asked=r"телефон|phone",
        about="телефон номер phone number",
        importance=6,
    ),
    Relation(
        "height",
        "рост зріст",
        is_single=True,
        about="рост зріст height tall",
    ),
    Relation(
        "weight",
        "вес вага",
        is_single=True,
        about="вес весить вага важити weight weigh",
    ),
    Relation(
        "shoe_size",
        "foot_size размер_обуви размер_ноги розмір_взуття розмір_ноги",
        is_single=True,
        asked=r"размер\w* (обув|ног|стоп)|розмір\w* (взутт|ног|стоп)|shoe size",
        about="размер обувь розмір взуття shoe size",
    ),
    Relation(
        "clothes_size",
        "clothing_size size размер_одежды размер розмір_одягу розмір",
        is_single=True,
        about="размер одежда розмір одяг clothes size",
    ),
    Relation(
        "diet",
        "dietary_preference eating_style диета питание тип_питания дієта харчування",
        is_single=True,
        asked=r"\bдиет|\bдієт|\bdiet|вегетариан|веган|вегетаріан|vegetarian|vegan",
        about="диета питание дієта харчування diet",
        importance=7,
    ),
    Relation(
        "time_zone",
        "timezone часовой_пояс часовий_пояс",
        is_single=True,
        about="пояс timezone zone",
        importance=7,
    ),
    Relation(
        "native_language",
        "mother_tongue first_language родной_язык рідна_мова",
        is_single=True,
        about="язык мова language",
        importance=7,
    ),
    Relation(
        "car",
        "drives vehicle car_model машина автомобиль авто автомобіль марка_машины марка_авто",
        is_single=True,
        asked=r"машин|автомоб|авто\b|\bcar\b",
        about="машина автомобиль авто автомобіль car vehicle drive",
        ends=endings.PARTED_WITH,
    ),
    Relation(
        "likes",
        "like loves love enjoys enjoy fond_of prefers нравится любит люблю обожает предпочитает "
        "подобається любить обожнює полюбляє віддає_перевагу",
        about="любить нравиться обожать подобатися обожнювати полюбляти like love enjoy adore",
    ),
    Relation(
        "dislikes",
        "dislike hates hate does_not_like doesn't_like don't_like не_любит не_люблю ненавидит "
        "не_нравится терпеть_не_может не_любить ненавидить не_подобається",
        about="нравиться ненавидеть любить любити подобатися ненавидіти like hate dislike love",
    ),
    Relation(
        "has_child",
        "child children son daughter has_son has_daughter kids kid parent_of ребенок дети сын "
        "дочь дочка есть_ребенок имеет_ребенка дитина діти син донька має_дитину",
        asked=r"\bдет(и|ей|ям|ях)\b|ребен|\bдіт(и|ей|ям|ях)\b|дитин|child|\bkids?\b",
        about="ребёнок дети дитина діти child kid",
        importance=8,
    ),
    Relation(
        "has_sibling",
        "sibling siblings brother sister has_brother has_sister брат сестра",
        importance=8,
    ),
    Relation(
        "has_parent",
        "parent parents mother father mom dad has_mother has_father мать мама отец папа родитель "
        "родители мати тато батько батьки",
        about="родители батьки parent",
        importance=8,
    ),
    Relation(
        "has_pet",
        "pet pets cat dog has_cat has_dog owns_pet питомец домашнее_животное кот кошка собака "
        "улюбленець домашня_тварина кіт кішка пес домашній_улюбленець",
        asked=r"питом|домашн\w+ (животн|любим)|собак|кошк|\bкот(а|у|ом|е)?\b|\bкіт\b|кішк|тварин"
        r"|\bпес\b|\bpets?\b|\bdogs?\b|\bcats?\b",
        about="питомец животное улюбленець тварина pet animal",
        importance=6,
        ends=f"{endings.PARTED_WITH}|{endings.DIED}",
    ),
    Relation(
        "has_friend",
        "friend friends friend_of друг подруга друзья дружит_с друзі товариш дружить_з",
        about="друг подруга друзі friend",
        ends=endings.PARTED,
    ),
    Relation(
        "allergic_to",
        "allergy allergies has_allergy has_allergy_to allergic аллергия аллергия_на "
        "есть_аллергия_на алергія алергія_на має_алергію_на",
        asked=r"аллерг|алергі|allerg",
        about="аллергия аллергик алергія алергік allergy allergic",
        importance=9,
        ends=endings.HEALED,
    ),
    Relation(
        "speaks",
        "speaks_language language languages knows_language языки язык говорит_на владеет "
        "владеет_языком мови мова розмовляє володіє_мовою говорить",
        asked=r"язык(а|ах|и|ов)?\b|\bмов(а|и|ою|ами|у)\b|language",
        about="язык говорить владеть мова розмовляти володіти language speak",
    ),
    Relation(
        "owns",
        "own possesses владеет_вещью имеет owner_of має володіє",
        about="владеть володіти own possess",
        ends=endings.PARTED_WITH,
    ),
    Relation(
        "visited",
        "has_visited traveled_to travelled_to has_been_to been_to был_в была_в посетил посетила "
        "ездил_в ездила_в відвідав відвідала був_у була_у їздив_до їздила_до",
        about="поездка поїздка путешествие подорож visit travel trip",
    ),
    Relation(
        "plans",
        "plan plans_to planning intends_to wants_to going_to планирует планы план собирается "
        "хочет планує плани збирається хоче",
        about="план планировать планувати plan",
        ends=endings.CANCELLED,
    ),
    Relation(
        "hobby",
        "hobbies interest interests interested_in pastime хобби увлечение увлечения интересуется "
        "интересы увлекается хобі захоплення цікавиться інтереси захоплюється",
        asked=r"хобби|хобі|hobb|увлека|захоплю|свободн\w+ врем|вільн\w+ час|free time",
        about="хобби увлечение увлекаться хобі захоплення hobby",
        ends=endings.GIVEN_UP,
    ),
    Relation(
        "habit",
        "habits routine привычка привычки распорядок звичка звички розпорядок",
        about="привычка звичка habit",
        ends=endings.GIVEN_UP,
    ),
    Relation(
        "event",
        "events attended happened событие событие_жизни произошло подія сталося",
    ),
    Relation(
        "skill",
        "skills can able_to good_at ability умеет навык навыки умение вміє навичка навички",
        about="навык уметь навичка вміти skill",
    ),
    Relation(
        "condition",
        "medical_condition health_condition diagnosis disease illness has_condition болезнь "
        "диагноз заболевание болеет хвороба діагноз захворювання хворіє",
        about="болезнь диагноз болеть хвороба діагноз хворіти illness disease diagnosis",
        importance=8,
        ends=endings.HEALED,
    ),
    Relation(
        "takes_medicine",
        "medication medications medicine takes_medication takes лекарство лекарства принимает "
        "принимает_лекарство ліки приймає приймає_ліки",
        about="лекарство принимать ліки приймати medicine medication take",
        importance=8,
        ends=endings.HEALED,
    ),
    Relation(
        "knows",
        "knows_person acquainted_with знает знаком_с знакома_с знає знайомий_з знайома_з",
    ),
    Relation(
        "wish",
        "wishes request answer_style style reply_style response_style instruction instructions "
        "preference_how_to_answer communication_style language_of_answers units unit_system "
        "form_of_address call_me addressed_as желание пожелание просьба стиль_ответа стиль "
        "единицы обращение побажання прохання стиль_відповіді одиниці звертання",
        about="пожелание просьба побажання прохання wish preference",
        importance=10,
    ),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
