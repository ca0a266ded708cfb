"""What the memory knows of relations: one record each, in three languages, and questions for them.

The gate, contradictions, questions, forgetting and the offline model read this table.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

# How things end without a new value, in three languages: expressions for the relation table.
#
# They are read in lower case, with "е" for "ё".

PARTED = (
    r"\bразвел(?:ся|ась|ись)\b|\bразвод(?:е|имся|ится|ятся)\b|\bразвод\b|\bрасста(?:л|емся|юсь)\w*"
    r"|\bразошлись\b|\bразъехались\b|\bразбежались\b|\bбольше не (?:вместе|женат\w*|замужем)"
    r"|\bразругались\b|\bне дружим\b|\bне общаемся\b|\bdivorc\w+|\b(?:broke|broken|split) up\b"
    r"|\bseparated\b|\b(?:not|no longer|aren't) (?:together|married|friends)\b"
    r"|\bleft (?:me|him|her)\b"
    r"|\bрозлучи\w+|\bрозійшл\w+|\bрозста(?:л|єм|ємо)\w*|\bбільше не (?:разом|одружен\w+|заміжня)"
)
LEFT_WORK = (
    r"\bувол(?:ил|ьня|ен)\w*"
    r"|\bуш(?:ел|ла|ли) (?:с|из|со) (?:\w+ )?(?:работы|компании|фирмы|должности)"
    r"|\b(?:бросил|потерял|оставил)а? (?:\w+ )?работу|\bсократили\b|\bна пенси[июя]\b"
    r"|\bбезработн\w+|\bбольше (?:\w+ )?не работа\w+"
    r"|\b(?:quit|left|lost) (?:my|his|her|the|that) (?:\w+ )?(?:job|work)"
    r"|\bi(?:'ve)? (?:just )?quit(?: (?:last|yesterday|today)\b|[.,!]|$)|\bresigned\b"
    r"|\bretired\b|\bunemployed\b"
    r"|\b(?:was|got|been) (?:fired|laid off|sacked)|\bno longer work\w*"
    r"|\bwork\w* there (?:any|no) ?more"
    r"|\bзвільни\w+|\bпіш(?:ов|ла|ли) з (?:\w+ )?(?:роботи|компанії|фірми)"
    r"|\b(?:кинув|втратив|залишив)(?:ла)?"
    r" роботу|\b(?:кинула|втратила|залишила) роботу|\bскоротили\b|\bна пенсі[їю]\b|\bбезробітн\w+"
)
LEFT_SCHOOL = (
    r"\b(?:о|за)кончил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж|академию)"
    r"|\bотчислил\w*|\bбросил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж)"
    r"|\bgraduated\b|\bdropped out\b|\b(?:finished|left) (?:school|university|college)"
    r"|\b(?:за)?кінчи\w+ (?:\w+ )?(?:універ\w*|виш|інститут|школу|навчання|коледж)|\bвідрахували\b"
    r"|\bкинул?[ав]\w* (?:універ\w*|виш|інститут|школу|навчання|коледж)"
)
PARTED_WITH = (
    r"\bпродал\w*|\bпродан\w*|\bотдал\w*|\bпотерял\w*|\bвыбросил\w*|\bразбил\w*|\bукрали\b"
    r"|\bугнали\b|\bпропал\w*|\bсбежал\w*|\bsold\b|\bgave (?:\w+ )?(?:\w+ )?away\b|\blost\b"
    r"|\bthrew (?:\w+ )?away\b"
    r"|\bstolen?\b|\bcrashed\b|\btotall?ed\b|\bran away\b|\bпрода(?:в|ла|ли|но)\b|\bвідда(?:в|ла|"
    r"ли)\b|\bзагуби\w+|\bвтратил?\w*|\bвикину\w+|\bрозби(?:в|ла|ли)\b|\bвкрали\b|\bвтік(?:ла)?\b"
)
DIED = (
    r"\bумер(?:ла|ли|ло)?\b|\bпогиб(?:ла|ли)?\b|\bскончал(?:ся|ась)\b|\bне стало\b|\bумирает\b"
    r"|\bусыпили\b|\bdied\b|\bpassed away\b|\bis dead\b|\bput (?:\w+ )?to sleep\b"
    r"|\bпомер(?:ла|ли)?\b|\bзагину(?:в|ла|ли)\b|\bприспали\b"
)
MOVED_OUT = (
    r"\b(?:съехал|уехал|переехал|выехал)\w* из\b|\bmoved (?:out of|away from|from)\b|\bleft\b"
    r"|\b(?:виїха|переїха|поїха)(?:в|ла|ли) (?:з|із|зі)\b|\bбольше не живу?\w*"
    r"|\bбільше не живу?\w*"
)
HEALED = (
    r"\bпрошл[аои]\b|\bпрошел\b|\bвылечил\w*|\bвыздоров\w+|\bпоправил(?:ся|ась)\b|\bперерос\w*"
    r"|\brecovered\b|\bcured\b|\bhealed\b|\boutgr[eo]wn?\b|\bis gone\b|\bминул[аои]\b|\bодужа\w+"
    r"|\bвилікува\w+"
)
CANCELLED = (
    r"\bотмен(?:ил|ен)\w*|\bпередумал\w*|\bсорвал(?:ся|ась|ось|ись)\b|\bcancel\w+"
    r"|\bcalled (?:it )?off\b|\bchanged my mind\b|\bскасу\w+|\bскасован\w*|\bпередума(?:в|ла|ли)\b"
)
GIVEN_UP = (
    r"\b(?:за)?бросил\w*|\bперестал\w*|\bзавязал\w*|\bgave up\b|\bgiven up\b|\bquit\b|\bstopped\b"
    r"|\bкину(?:в|ла|ли)\b|\bпереста(?:в|ла|ли)\b|\bзакину(?:в|ла|ли)\b"
)
FINISHED = r"\b(?:о|за)кончил\w*|\bзакінчи(?:в|ла|ли)\b|\bfinished\b|\bgraduated\b"
# Who has one at a time needs not say which.
OF_THE_ONLY_ONE = (PARTED, LEFT_WORK, LEFT_SCHOOL)


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
        return not (self.is_single and self.ends in OF_THE_ONLY_ONE)


RELATIONS = (
    Relation("name", is_single=True, importance=10,
        aliases="first_name full_name real_name is_called called named имя зовут полное_имя звать "
                "ім'я звуть повне_ім'я",
        about="имя звать кличка ім'я name call",
        asked=r"как меня зовут|как меня звать|мо[её] имя|як мене (звати|звуть)|мо[єя] ім'я|"
              r"\bmy name\b|\bwho am i\b|\bкто я\b|\bхто я\b"),
    Relation("nickname", is_single=True, importance=9,
        aliases="nick username alias прозвище ник никнейм кличка прізвисько нік нікнейм псевдонім",
        about="прозвище ник никнейм кличка прізвисько нік nickname nick username"),
    Relation("age", is_single=True, importance=7, ends=DIED,
        aliases="years_old how_old возраст лет сколько_лет вік років скільки_років",
        about="возраст лет вік рік age old",
        asked=r"сколько\b.{0,20}\bлет\b|скільки\b.{0,20}\bрок|возраст|\bвік\b|how old|\bage\b"),
    Relation("birthday", is_single=True, importance=8,
        aliases="birthdate birth_date date_of_birth dob born_on birth день_рождения дата_рождения "
                "день_народження дата_народження",
        about="рождение родиться народження народитися birthday born",
        asked=r"д(ень|ня|ню) рожд|д(ень|ня|ню) народж|birthday|\bродил[аи]?с|\bнароди[лв]"),
    Relation("gender", is_single=True,
        aliases="sex пол гендер стать ґендер",
        about="пол стать gender sex"),
    Relation("nationality", is_single=True,
        aliases="citizenship citizen_of национальность гражданство національність громадянство",
        about="гражданство национальность громадянство національність citizenship nationality"),
    Relation("lives_in", is_single=True, importance=7, ends=f"{MOVED_OUT}|{DIED}",
        aliases="live living living_in lives lives_at live_in residence resides_in reside city "
                "home_city location located_in current_city current_location country_of_residence "
                "place_of_residence moved_to живет живет_в город город_проживания "
                "место_жительства проживает_в проживает переехал_в переехала_в живе живе_в живе_у "
                "мешкає мешкає_в мешкає_у проживає_в місто місце_проживання переїхав_до "
                "переїхала_до",
        about="жить проживать город мешкати проживати місто live city town home reside residence",
        asked=r"где\b.{0,30}жи(в|ть|л)|\bде\b.{0,30}(жив[еу]|жити|мешка)|where\b.{0,30}\bliv|"
              r"как(ом|ой) (город|стран)|як(ому|ій) (міст|країн)|(which|what) (city|town|"
              r"country)"),
    Relation("born_in", is_single=True,
        aliases="birthplace place_of_birth birth_place родился_в родилась_в место_рождения "
                "народився_в народився_у народилася_в народилася_у місце_народження",
        about="родиться родина народитися born birthplace",
        asked=r"где\b.{0,20}родил|\bде\b.{0,20}народи|where\b.{0,20}\bborn|\bродом\b|hometown|"
              r"where (?:am i|do i come) from|place of birth|birthplace|место (?:\w+ )?рождения|"
              r"місце (?:\w+ )?народження"),
    Relation("address", is_single=True, importance=7,
        aliases="home_address street_address адрес домашний_адрес адреса домашня_адреса",
        about="адрес адреса address",
        asked=r"\bадрес|\baddress\b"),
    Relation("works_as", is_single=True, importance=7, ends=LEFT_WORK,
        aliases="job occupation profession job_title position career role_at_work профессия "
                "должность специальность работает_кем кем_работает работает_как професія посада "
                "фах працює_ким ким_працює працює_як",
        about="работать работа профессия должность специальность працювати робота професія посада "
              "work job profession occupation position career",
        asked=r"кем\b.{0,20}(работа|труж)|(?:про|об?) мо(?:ей|ю|єї) (?:работ|робот)|"
              r"about my (?:work|job)|(?:какая|яка) .{0,15}(?:работа|робота)|\bким\b.{0,20}працю|"
              r"професси|професі|\bjob\b|for a living|occupation|profession"),
    Relation("works_at", is_single=True, importance=7, ends=LEFT_WORK,
        aliases="employer employed_by employed_at works_for work_at works_in company workplace "
                "place_of_work job_at место_работы компания работает_в работает_на работодатель "
                "місце_роботи компанія працює_в працює_у працює_на роботодавець",
        about="работать работа работодатель компания працювати робота роботодавець компанія work "
              "job employer company workplace",
        asked=r"где\b.{0,20}(работа|труж|служ)|\bде\b.{0,20}(працю|робл)|where\b.{0,20}\bwork|"
              r"employer|работодател|роботодав"),
    Relation("studies_at", is_single=True, importance=7, ends=LEFT_SCHOOL,
        aliases="student_at university school college attends studies_in учится_в университет "
                "школа вуз место_учебы навчається_в навчається_у вчиться_в вчиться_у університет "
                "виш",
        about="учиться учёба университет школа вуз вчитися навчатися навчання університет study "
              "university school college",
        asked=r"\bстудент|\bstudent\b|где\b.{0,20}(уч[уиа]|обуча)|\bде\b.{0,20}(навча|вч[уиа])|"
              r"where\b.{0,20}\bstud"),
    Relation("studies", is_single=True, ends=LEFT_SCHOOL,
        aliases="major field_of_study specialization studying учится_на специализация изучает "
                "спеціалізація вивчає",
        about="учиться изучать специализация вчитися вивчати study major"),
    Relation("married_to", is_single=True, importance=8, ends=PARTED,
        aliases="spouse husband wife marriage муж жена супруг супруга замужем_за женат_на чоловік "
                "дружина заміжня_за одружений_з одружена_з",
        about="брак жениться замужем женатый шлюб одружитися одружений заміжня marriage married "
              "marry spouse",
        asked=r"\bжен[аыуео]|\bмуж(а|у|ем|е)?\b|дружин|чоловік|\bwife\b|husband|married|spouse"),
    Relation("partner", is_single=True, importance=8, ends=PARTED,
        aliases="boyfriend girlfriend dating in_relationship_with engaged_to fiance fiancee "
                "парень девушка партнер партнерша встречается_с жених невеста хлопець дівчина "
                "наречений наречена зустрічається_з",
        about="отношение встречаться стосунки зустрічатися relationship dating date",
        asked=r"встречаюсь|зустрічаюс|\bпарень\b|\bдевушк|\bхлопець\b|\bдівчин|girlfriend|"
              r"boyfriend|\bdating\b|\bseeing\b|relationship"),
    Relation("email", is_single=True, importance=6,
        aliases="e_mail email_address mail почта электронная_почта имейл эл_почта пошта "
                "електронна_пошта імейл",
        about="почта имейл пошта email mail"),
    Relation("phone", is_single=True, importance=6,
        aliases="phone_number telephone mobile mobile_number телефон номер_телефона мобильный "
                "номер_телефону мобільний",
        about="телефон номер phone number",
        asked=r"телефон|phone"),
    Relation("height", is_single=True,
        aliases="рост зріст",
        about="рост зріст height tall"),
    Relation("weight", is_single=True,
        aliases="вес вага",
        about="вес весить вага важити weight weigh"),
    Relation("shoe_size", is_single=True,
        aliases="foot_size размер_обуви размер_ноги розмір_взуття розмір_ноги",
        about="размер обувь розмір взуття shoe size",
        asked=r"размер\w* (обув|ног|стоп)|розмір\w* (взутт|ног|стоп)|shoe size"),
    Relation("clothes_size", is_single=True,
        aliases="clothing_size size размер_одежды размер розмір_одягу розмір",
        about="размер одежда розмір одяг clothes size"),
    Relation("diet", is_single=True, importance=7,
        aliases="dietary_preference eating_style диета питание тип_питания дієта харчування",
        about="диета питание дієта харчування diet",
        asked=r"\bдиет|\bдієт|\bdiet|вегетариан|веган|вегетаріан|vegetarian|vegan"),
    Relation("time_zone", is_single=True, importance=7,
        aliases="timezone часовой_пояс часовий_пояс",
        about="пояс timezone zone"),
    Relation("native_language", is_single=True, importance=7,
        aliases="mother_tongue first_language родной_язык рідна_мова",
        about="язык мова language"),
    Relation("car", is_single=True, ends=PARTED_WITH,
        aliases="drives vehicle car_model машина автомобиль авто автомобіль марка_машины "
                "марка_авто",
        about="машина автомобиль авто автомобіль car vehicle drive",
        asked=r"машин|автомоб|авто\b|\bcar\b"),
    Relation("likes",
        aliases="like loves love enjoys enjoy fond_of prefers нравится любит люблю обожает "
                "предпочитает подобається любить обожнює полюбляє віддає_перевагу",
        about="любить нравиться обожать подобатися обожнювати полюбляти like love enjoy adore"),
    Relation("dislikes",
        aliases="dislike hates hate does_not_like doesn't_like don't_like не_любит не_люблю "
                "ненавидит не_нравится терпеть_не_может не_любить ненавидить не_подобається",
        about="нравиться ненавидеть любить любити подобатися ненавидіти like hate dislike love"),
    Relation("has_child", importance=8,
        aliases="child children son daughter has_son has_daughter kids kid parent_of ребенок дети "
                "сын дочь дочка есть_ребенок имеет_ребенка дитина діти син донька має_дитину",
        about="ребёнок дети дитина діти child kid",
        asked=r"\bдет(и|ей|ям|ях)\b|ребен|\bдіт(и|ей|ям|ях)\b|дитин|child|\bkids?\b"),
    Relation("has_sibling", importance=8,
        aliases="sibling siblings brother sister has_brother has_sister брат сестра"),
    Relation("has_parent", importance=8,
        aliases="parent parents mother father mom dad has_mother has_father мать мама отец папа "
                "родитель родители мати тато батько батьки",
        about="родители батьки parent"),
    Relation("has_pet", importance=6, ends=f"{PARTED_WITH}|{DIED}",
        aliases="pet pets cat dog has_cat has_dog owns_pet питомец домашнее_животное кот кошка "
                "собака улюбленець домашня_тварина кіт кішка пес домашній_улюбленець",
        about="питомец животное улюбленець тварина pet animal",
        asked=r"питом|домашн\w+ (животн|любим)|собак|кошк|\bкот(а|у|ом|е)?\b|\bкіт\b|кішк|тварин|"
              r"\bпес\b|\bpets?\b|\bdogs?\b|\bcats?\b"),
    Relation("has_friend", ends=PARTED,
        aliases="friend friends friend_of друг подруга друзья дружит_с друзі товариш дружить_з",
        about="друг подруга друзі friend"),
    Relation("allergic_to", importance=9, ends=HEALED,
        aliases="allergy allergies has_allergy has_allergy_to allergic аллергия аллергия_на "
                "есть_аллергия_на алергія алергія_на має_алергію_на",
        about="аллергия аллергик алергія алергік allergy allergic",
        asked=r"аллерг|алергі|allerg"),
    Relation("speaks",
        aliases="speaks_language language languages knows_language языки язык говорит_на владеет "
                "владеет_языком мови мова розмовляє володіє_мовою говорить",
        about="язык говорить владеть мова розмовляти володіти language speak",
        asked=r"язык(а|ах|и|ов)?\b|\bмов(а|и|ою|ами|у)\b|language"),
    Relation("owns", ends=PARTED_WITH,
        aliases="own possesses владеет_вещью имеет owner_of має володіє",
        about="владеть володіти own possess"),
    Relation("visited",
        aliases="has_visited traveled_to travelled_to has_been_to been_to был_в была_в посетил "
                "посетила ездил_в ездила_в відвідав відвідала був_у була_у їздив_до їздила_до",
        about="поездка поїздка путешествие подорож visit travel trip"),
    Relation("plans", ends=CANCELLED,
        aliases="plan plans_to planning intends_to wants_to going_to планирует планы план "
                "собирается хочет планує плани збирається хоче",
        about="план планировать планувати plan"),
    Relation("hobby", ends=GIVEN_UP,
        aliases="hobbies interest interests interested_in pastime хобби увлечение увлечения "
                "интересуется интересы увлекается хобі захоплення цікавиться інтереси "
                "захоплюється",
        about="хобби увлечение увлекаться хобі захоплення hobby",
        asked=r"хобби|хобі|hobb|увлека|захоплю|свободн\w+ врем|вільн\w+ час|free time"),
    Relation("habit", ends=GIVEN_UP,
        aliases="habits routine привычка привычки распорядок звичка звички розпорядок",
        about="привычка звичка habit"),
    Relation("event",
        aliases="events attended happened событие событие_жизни произошло подія сталося"),
    Relation("skill",
        aliases="skills can able_to good_at ability умеет навык навыки умение вміє навичка "
                "навички",
        about="навык уметь навичка вміти skill"),
    Relation("condition", importance=8, ends=HEALED,
        aliases="medical_condition health_condition diagnosis disease illness has_condition "
                "болезнь диагноз заболевание болеет хвороба діагноз захворювання хворіє",
        about="болезнь диагноз болеть хвороба діагноз хворіти illness disease diagnosis"),
    Relation("takes_medicine", importance=8, ends=HEALED,
        aliases="medication medications medicine takes_medication takes лекарство лекарства "
                "принимает принимает_лекарство ліки приймає приймає_ліки",
        about="лекарство принимать ліки приймати medicine medication take"),
    Relation("knows",
        aliases="knows_person acquainted_with знает знаком_с знакома_с знає знайомий_з знайома_з"),
    Relation("wish", importance=10,
        aliases="wishes request answer_style style reply_style response_style instruction "
                "instructions preference_how_to_answer communication_style language_of_answers "
                "units unit_system form_of_address call_me addressed_as желание пожелание просьба "
                "стиль_ответа стиль единицы обращение побажання прохання стиль_відповіді одиниці "
                "звертання",
        about="пожелание просьба побажання прохання wish preference"),
)  # fmt: skip
BY_NAME = {relation.name: relation for relation in RELATIONS}


# Which relation a question asks for: "где я живу?" asks for ``lives_in``.
#
# A fact is indexed with its relation as one more term, and a question searches for it. So "I moved
# to Lviv" answers "where do I live?" although no word is the same.

ASKED = {r.name: re.compile(r.asked, re.IGNORECASE) for r in RELATIONS if r.asked}
MAX_QUESTION = 300  # characters; a longer text is no question for one relation


def relation_term(relation: str) -> str:
    """The search term of a relation; no word has an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """The relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    return [relation_term(name) for name, pattern in ASKED.items() if pattern.search(text)]


def endings_of(terms: Collection[str]) -> list[str]:
    """Expressions for how these relations end, where none needs to be named: a job, a marriage."""
    return [
        relation.ends
        for relation in RELATIONS
        if relation_term(relation.name) in terms and relation.ends and not relation.ends_by_name
    ]
