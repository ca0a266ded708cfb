"""The grammar of the offline model: what one clause says, by tables of patterns.

A clause is read in two steps. First its subject: the user ("я", "у меня", "my"), somebody close
("мой брат", "my dog's"), a pronoun or a name. Then what is said of it: the lines of RULES, of
which the first that fits wins. A line is a relation and a regular expression; a space stands for
any white space, ``{fragment}`` for a fragment. Its groups: ``object``; ``third``, a verb form that
is never the user's own ("живёт", "lives"); ``shared``, one that is anybody's ("переехал");
``who``, somebody named after the verb; ``kin``, whom somebody has; ``thing``, of which something
is the favourite; ``subject`` and ``relation`` in general statements. Russian and Ukrainian share
their tables.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

Case = Literal["verb", "noun", "at", "my", "whole"]

# The people and pets around a user, by the relation that having one is. Entries are parted by
# bars; an entry is a word in all its forms, the dictionary form first.
ROLES: dict[str, str] = {
    "has_sibling": """брат брата брату братом брате братові|братья братьев братьям|брати братів|
        братик братика братику|сестра сестры сестре сестру сестрой сестри сестрі сестрою|
        сестры сестер|сестричка сестричку|близнец|близнюк|
        brother|brothers|sister|sisters|sibling|siblings|twin""",
    "has_child": """сын сына сыну сыном|сыновья сыновей сыновьям|син сина сину синові сином|
        сини синів|
        дочь дочери дочерью|дочка дочки дочке дочку дочкой дочці дочкою|
        донька доньки доньці доньку|
        дочери дочерей|ребенок ребенка ребенку|дети детей детям|дитина дитини дитині дитину|
        діти дітей дітям|son|sons|daughter|daughters|child|children|kid|kids|baby""",
    "has_parent": """мама мамы маме маму мамой мами мамі мамою|мать матери|мати матір|
        папа папы папе папу папой|отец отца отцу отцом|тато тата татові татом|
        батько батька батькові|родители родителей родителям|батьки батьків батькам|
        mother|mom|mum|mommy|father|dad|daddy|parents""",
    "married_to": """муж мужа мужу мужем|жена жены жене жену женой|супруг|супруга супруги супругу|
        чоловік чоловіка чоловікові чоловіком|дружина дружини дружині дружину дружиною|
        husband|wife|spouse""",
    "partner": """парень парня парню парнем|девушка девушки девушке девушку девушкой|жених жениха|
        невеста невесты невесте невесту|хлопець хлопця хлопцеві хлопцем|наречений|наречена|
        дівчина дівчини дівчині дівчину дівчиною|boyfriend|girlfriend|partner|fiance|fiancée""",
    "has_friend": """друг друга другу другом другові|друзья друзей друзьям|друзі друзів друзям|
        подруга подруги подруге подругу подругой подрузі|подружка подружки подружку|
        приятель приятеля|товарищ товарища|товариш товариша|friend|friends""",
    "has_pet": """собака собаки собаке собаку собакой собаці|собачка собачку|пес пса псу|
        кот кота коту котом|кіт|кошка кошки кошке кошку|кішка кішки кішці кішку|котик котика|
        котенок котенка|кошеня|щенок щенка|цуценя|попугай попугая|папуга папугу|хомяк хомяка|
        хом'як хом'яка|кролик кролика|рыбка рыбку|рибка рибку|черепаха черепаху|лошадь|
        коты котов|коти котів|собак|кошек|
        dog|dogs|cat|cats|puppy|kitten|parrot|hamster|rabbit|turtle|horse|pet|pets""",
    "family": """бабушка бабушки бабушке бабушку|дедушка дедушки дедушке|дед деда|бабуся бабусі|
        дідусь дідуся|тетя тети тете|тітка тітки|дядя дяди|дядько дядька|внук внука|внучка внучки|
        онук онука|онука онуки|племянник племянника|племянница племянницы|
        grandmother|grandma|grandfather|grandpa|aunt|uncle|cousin|nephew|niece|grandson|
        granddaughter""",
    "acquaintance": """коллега коллеги|колега колеги|начальник начальника|сосед соседа|
        соседка соседки|сусід сусіда|сусідка сусідки|boss|colleague|neighbour|neighbor|roommate""",
}

# Fragments of the patterns; a later one may use those before it.
FRAGMENTS: dict[str, str] = {
    "obj": r"(?P<object>\S.*)",
    "called": r"(?!(?:is )?(?:не|not)\b)(?P<object>[^\s,][^,]*)(?:,.*)?",
    "few": r"(?P<object>[^\s,]+(?: [^\s,]+){0,2}?)",
    "told_first": r"(?:(?:я|мне|мені) )?(?!(?:я|мне|мені|меня|мене)\b)"
    r"(?!.*\b(?:что|що|как|як|где|де|кто|хто|котор\w+|яку|який|яке)\b){few}",
    "cap": r"(?-i:[A-ZА-ЯІЇЄҐÀ-ÖØ-ÞŁŚŠŽČ])[\w'-]*",
    "capitals": r"{cap}(?: {cap}){0,2}",
    "name": r"(?P<object>{capitals})",
    "dash": r"\s*(?:[-–—:=]\s*|\b(?:это|це) )+",
    "is": r"(?:{dash}|'s | (?:(?:є|есть|будет|у меня|у мене|is|are) )?)",
    "in": r"(?:в|во|на|у)",
    "with": r"(?:с|со|з|із|зі)",
    "adjective": r"(?:(?:старш|младш|двоюродн|лучш|родн|бывш|любим|маленьк|покойн|молодш|найкращ|"
    r"рідн|колишн|улюблен)\w+|elder|older|eldest|younger|youngest|little|big|best|ex|late|close)",
    "my": r"(?:мо(?:й|я|е|и|ю|є|ї|его|ей|ему|го|єму|єї|му|їй|их|їх|им|їм)|мій|наш\w{0,3}|my|our)",
    "of_me": r"(?:(?:у|в) (?:меня|мене|нас) )?(?:есть |є )?(?:{my} )?",
    "person": r"(?:{adjective} )?{role}",
    "who": r"(?:у )?(?:{my} )?(?P<who>{person})",
    "be": r"(?:'?m|am|'?re|are|(?P<third>'s|is))",
    "have": r"(?:have(?: got)?|'?ve got|got|(?P<third>has(?: got)?|'s got))(?! no\b)",
    "num": r"(?:\d+|один|одна|дво\w+|две|два|дві|тро\w+|три|четвер\w+|четыре|чотири|much|"
    r"many|one|two|three|four|five|several|some|несколько|кілька|много|багато)",
    "count": r"(?:сто|двадцат|тридцат|сорок|п[я']|шест|сем|восем|девят|десят|один|два|две|три|чет|"
    r"одинад|двадцят|шіст|сім|вісім|дев'ят|чотир|дві)\w*",
    "instrumental": r"(?!(?:лет|дн|вечер|утр|один)\w*\b|зимой|весной|осенью|ночью)"
    r"[\w-]+(?:ом|ем|єм|ой|ей|ою|ею|ым|им)",
    "profession": r"[\w-]*(?:врач|лікар|юрист|программист|програміст|учитель|вчитель|воспитатель|"
    r"преподаватель|викладач|водитель|водій|строитель|писатель|предприниматель|художник|"
    r"инженер|інженер|дизайнер|менеджер|тренер|актер|бухгалтер|парикмахер|пенсионер|пенсіонер|"
    r"фрилансер|фрілансер|волонтер|повар|кухар|музыкант|музикант|студент|аспирант|журналист|"
    r"журналіст|логист|экономист|економіст|таксист|экскурсовод|медбрат|медсестра|актриса|"
    r"учительница|вчителька|продавец|продавець|продавщица|художница|школьник|школьница|"
    r"школяр|повариха|военный|адвокат|стоматолог|психолог|биолог|біолог|геолог|маркетолог|"
    r"физик|фізик|химик|хімік|аналитик|аналітик|механик|электрик|сварщик|тестировщик|"
    r"тестувальник|разработчик|розробник|переводчик|переводчица|перекладач|архитектор|"
    r"архітектор|директор|редактор|доктор)(?:к[аи]|иня)?",
    "trade": r"\w*(?:er|or|ist|ian|eer|ant|yst|nurse|chef|cook|pilot|clerk|coach|student|"
    r"dentist|vet|architect|midwife|mechanic|plumber)",
    "month": r"(?:(?:январ|феврал|апрел|июн|июл|сентябр|октябр|ноябр|декабр)[ьяе]|март[ае]?|"
    r"ма[йяе]|август[ае]?|(?:січ|берез|квіт|трав|черв|лип|серп|верес|жовт|груд)(?:ень|ня|ні)|"
    r"лют(?:ий|ого|ому)|листопад[аі]?|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|"
    r"july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b",
    "date": r"(?:on )?(?:the )?(?P<object>(?:\d|{month}).*)",
    "town": r"(?P<object>(?!\d)\S.*)",
    "lives": r"(?:живу|живем|живемо|проживаю|мешкаю|мешкаємо|"
    r"(?P<third>живет|живут|проживает|живе|живуть|мешкає|мешкають))",
    "works": r"(?:работаю|работаем|подрабатываю|тружусь|працюю|працюємо|(?P<third>работает|"
    r"работают|працює|працюють)|(?P<shared>устроил(?:ся|ась)|влаштува(?:вся|лася|лась)))",
    "likes": r"(?:люблю|любим|любимо|обожаю|обожнюю|полюбляю|предпочитаю|(?P<third>любит|любят|"
    r"обожает|любить|люблять|обожнює|полюбляє)|(?P<shared>нравится|нравятся|подобається|"
    r"подобаються|полюбил[аи]?|полюби(?:в|ла)))",
    "hates": r"(?:ненавижу|ненавиджу|терпеть не могу|терпіти не можу|не переношу|не выношу|"
    r"(?P<third>ненавидит|ненавидить)|(?P<shared>разлюбил[аи]?)|не (?:очень |дуже |особо |"
    r"сильно )?(?:люблю|любим|любимо|обожаю|любит|любят|любить|люблять|нравится|нравятся|"
    r"подобається|подобаються))",
    "not": r"(?:do not|don'?t|never|(?P<third>does not|doesn'?t))",
    "wear_size": r"(?P<object>\d{2}(?:[.,]5)?)(?:-?\w{1,2})?",
}

# Verbs: they need no subject in Russian and Ukrainian.
VERB = r"""
name        (?P<shared>зовут|звать|звати|звуть|кличут|называют) \
(?!меня\b|мене\b)(?:не [^\s,]+,? а )?{called}
name        (?:{be} (?:called|named)|go by) {called}
birthday    (?:(?P<shared>родил(?:ся|ась|ись)|народи(?:вся|лася|лась))|was born|were born) {date}
birthday    (?:(?P<shared>родил(?:ся|ась)|народи(?:вся|лася|лась)) [ву]|was born in) {date}
born_in     (?P<shared>родил(?:ся|ась|ись)|народи(?:вся|лася|лась))(?: (?:и|і|та) \w+)? {in} {town}
born_in     (?:(?:was|were) )?born (?:and raised )?in {town}
born_in     (?:родом (?:из|с|со|з|із|зі)|(?:{be} )?originally from|come from) {town}
address     {lives} (?:по адресу|за адресою):? {obj}
address     {lives} (?:на|по) (?P<object>(?:улиц|ул\.|просп|вулиц|вул\.|переул|бульв).*)
address     (?:live|(?P<third>lives)) at {obj}
lives_in    {lives} (?:здесь |тут )?{in} (?P<object>[^\s,][^,]*?)(?: {with} .*)?(?:,.*)?
lives_in    {lives} (?P<object>(?:под|біля|возле|недалеко от) .+)
lives_in    (?P<shared>пере(?:ехал[аи]?|їха(?:в|ла|ли)|брал(?:ся|ась)|бра(?:вся|лася|лась))) \
(?:жить |жити )?(?:(?:из|з|із|зі) \S+ )?(?:в|во|на|до|у) {obj}
lives_in    (?:live|(?P<third>lives|is living|'s living)|'?m living|am living|'?m based|am based|\
(?:'?ve|have) (?:lived|been living)) in (?P<object>[^\s,][^,]*?)(?: with .*)?(?:,.*)?
lives_in    (?:(?:'?ve|have|has|'s) )?(?:just |recently )?(?P<shared>moved|relocated) \
(?:back )?(?:from \S+ )?to {obj}
works_as    {works} (?P<object>(?:{instrumental} )?{instrumental})(?: .*)?
works_as    (?:по профессии|по специальности|за фахом|за професією) {obj}
works_as    (?:work|(?P<third>works)|'?m working|am working) as (?:an? )?(?P<object>\S.*?)(?: \
(?:at|in|for) .*)?
works_at    {works} (?:на работу )?{in} {obj}
works_at    (?:work|(?P<third>works)|'?m working|am working|(?P<shared>got a job)) (?:at|for|\
in) {obj}
studies_at  (?:учусь|обучаюсь|вчуся|вчусь|навчаюся|навчаюсь|(?P<third>учится|учатся|вчиться|\
навчається)|(?P<shared>поступил[аи]?|вступи(?:в|ла|ли))) (?:в|во|на|у|до) {obj}
studies_at  (?:study|(?P<third>studies)|'?m studying|am studying|'?m a student|am a student) \
(?:at|in) {obj}
married_to  (?P<shared>женат[аы]?|женился|замужем|вышла замуж|одружен(?:ий|а|і)|\
одружи(?:вся|лася|лась)|заміжня|вийшла заміж) (?:на|за|з|із|зі) {obj}
married_to  (?:'?m|am|is|got|(?P<shared>'s)) married to {obj}
married_to  (?P<object>(?P<shared>(?:не )?(?:женат[аы]?|замужем|женил(?:ся|ись)|вышла замуж|\
одружен(?:ий|а|і)|одружи(?:вся|лася|лись)|заміжня|вийшла заміж)|в разводе|развел(?:ся|ась|ись)|\
разведен[аы]?|розлуч(?:ений|ена|ився|илася|илась)|холост|неодружен(?:ий|а)|незаміжня))
married_to  (?:{be}|got) (?P<object>(?:not )?(?:married|divorced|single|engaged|\
widowed))(?: with .*)?
partner     (?:встречаюсь|зустрічаюся|зустрічаюсь|в отношениях|у стосунках|\
(?P<third>встречается|зустрічається)) {with} {obj}
partner     {be} (?:dating|engaged to|in a relationship with) {obj}
has_friend  (?:дружу|дружим|товаришую) {with} {obj}
has_friend  {be} friends with {obj}
allergic_to (?:страдаю )?(?:\w+(?:ая|на) )?(?:аллерги[яей]+|алергія) на {obj}
allergic_to (?:{be} )?(?:\w+ly )?allergic to {obj}
allergic_to {have} (?:an? )?(?:\w+ )?allergy to {obj}
allergic_to {have} an? (?P<object>\w+) allergy
allergic_to (?:маю|(?P<third>має)) алергію на {obj}
has         (?:маю|маємо|(?P<third>має|мають)) (?P<object>(?:[\w-]+ ){0,2}(?P<kin>{role})\b.*)
dislikes    {hates},? {obj}
dislikes    {not} (?:really |much )?(?:like|love|enjoy) {obj}
dislikes    (?:hate|dislike|detest|can'?t stand|cannot stand|(?P<third>hates|dislikes)) {obj}
dislikes    {be} not (?:an? )?(?:big |huge )?fan of {obj}
likes       {likes},? {obj}
likes       (?:болею|уболіваю|вболіваю) за {obj}
likes       (?:like|love|adore|enjoy|prefer|(?P<third>likes|loves|adores|enjoys|prefers)) {obj}
likes       {be} (?:an? )?(?:big |huge )?(?:fan of|fond of|crazy about) {obj}
speaks      (?:говорю|разговариваю|розмовляю|спілкуюся|(?P<third>говорит|говорят|розмовляє|\
говорить)) \
(?P<object>по-\S+.*|на \S+(?: \S+)? (?:язык|мов).*|\S+[сц]ькою.*)
speaks      (?:знаю|владею|володію|(?P<third>знает|владеет|володіє|знає)) \
(?P<object>\S+(?:[сц]кий|[сц]ким|[сц]ьку|[сц]ькою)\b.*)
speaks      (?:can )?(?:speak|(?P<third>speaks)) {obj}
car         (?:вожу|езжу на (?:машине )?|їжджу на |(?:ездит|їздить) на )\s*(?P<object>{cap}.*)
car         (?:езжу|їжджу) на (?P<object>(?!рабо|робо|метро|автоб|велос|поез|потя|дач|учеб|трамв|\
маршр|электр|електр|само|море|такс|машин).+)
car         (?:drive|(?P<third>drives)) (?:an? )?{obj}
diet        (?P<object>не (?:ем|їм|употребляю|вживаю|(?P<third>ест|едят|їсть|їдять)) .+)
diet        не (?P<object>пью (?:молоко|алкоголь|кофе)|п'ю (?:молоко|алкоголь|каву))
diet        (?P<object>{not} eat .+)
diet        (?:сижу на|{be} on) (?P<object>.*(?:диете|дієті|кето|diet|keto))
hobby       (?:увлекаюсь|занимаюсь|захоплююся|захоплююсь|займаюся|займаюсь|\
(?P<third>увлекается|занимается|захоплюється|займається)) {obj}
hobby       (?:играю|граю|(?P<third>играет|грає)) (?P<object>(?:на|в|во|у) .+)
hobby       (?:{be} into|play|(?P<shared>plays)) {obj}
plans       (?:планирую|собираюсь|собираемся|намерен[аы]?|мечтаю|хочу|хотим|планую|плануємо|\
збираюся|збираюсь|мрію|(?P<third>планирует|собирается|мечтает|хочет|планує|збирається|хоче)) \
(?P<object>(?:не )?[\w'-]+(?:ть|ти|ться|тися|тись|чь|йти)\b.*)
plans       (?:переезжаю|переїжджаю) (?:в|во|на|до|у) {obj}
plans       (?:want|wanna|plan|hope|intend|would like|'?d like|{be} (?:planning|going|\
hoping)) to {obj}
visited     (?P<shared>(?:по)?бывал[аи]?|посетил[аи]?|(?:с|по)?ездил[аи]?|летал[аи]?|\
відвіда(?:в|ла|ли)|побува(?:в|ла|ли)|з?'?їзди(?:в|ла|ли)|літа(?:в|ла|ли)) \
(?:(?:в|во|на|у|до) )?{obj}
visited     (?P<shared>был[аи]?|бу(?:в|ла|ли)) {in} (?P<object>{cap}.*)
visited     (?:(?:'?ve|have|has) )?(?:(?P<shared>visited|went to|been to|travell?ed to)) {obj}
shoe_size   (?:ношу|(?P<third>носит)) {wear_size} (?:размер|розмір)(?: обуви| взуття)?
shoe_size   wear (?:a )?size (?P<object>\d+(?:[.,]5)?)(?: shoes?)?
habit       (?P<object>(?:не )?(?:курю|палю|пью|п'ю|(?P<third>курит|палить|пьет))|\
(?P<shared>(?:бросил[аи]?|кинул[аи]?|кинув) (?:курить|пить|палити|пити)))
habit       (?P<object>(?:встаю|ложусь|просыпаюсь|прокидаюся|прокидаюсь|лягаю) .+)
habit       (?P<object>(?:{not} )?(?:smoke|drink)(?: alcohol)?|\
(?:quit|stopped) (?:smoking|drinking))
habit       (?P<object>(?:wake up|get up|go to bed|go to sleep) .+)
owns        (?:own|(?P<third>owns)) (?:an? )?{obj}
"""

# Predicates without a verb: they need a subject.
NOUN = r"""
age         (?:(?:исполнилось|исполнился|виповнилося|виповнилось|лет|почти|майже) )*\
(?P<object>(?:\d{1,3}|{count}(?: {count})?)\
(?: (?:лет|годик\w*|год[а]?|рок\w*|рік|месяц\w*|місяц\w*))?)
age         (?:{be}|turned) (?P<object>\d{1,3}(?:[ -]?(?:years?|yrs?|months?)[ -]old)?)
age         {be} (?P<object>[a-z]+(?:[- ][a-z]+)? years old)
born_in     (?:из|{be} from) {town}
born_in     (?:із|зі|з) (?P<object>{cap}.*)
diet        (?:{dash})?(?:{be} (?:an? )?)?(?P<object>(?:строг\w+ |strict )?(?:веган|вегетариан|\
вегетаріан|сыроед|vegan|vegetarian|pescatarian)\w*)
diet        на (?P<object>диете|дієті|кето)
allergic_to {be} (?P<object>\w+)[- ]intolerant
works_as    (?:{dash})?(?:\w+(?:ий|ый|ая|а) )?\
(?P<object>{profession}(?: [\w-]+(?<!л)(?:и|ы|а|я|ів|ий))?)\
(?: (?:в|во|на|у|по|из|з|та|и) .*)?
works_as    {be} an? (?P<object>(?:\w+ ){0,2}{trade})(?: (?:at|in|for|from|by) .*)?
likes       (?:фанат(?:ка)?|поклонни(?:к|ца)) {obj}
has         {have} (?:an? )?(?P<object>(?:[\w-]+ ){0,2}(?P<kin>{role})\b(?! allergy).*)
owns        {have} an? (?!question|idea|problem|request|feeling|headache|cold|look|lot|bit){obj}
name        (?:{dash}|{be} )?(?P<object>(?!(?:\w+ish|america|ukrainian|russian|german|french|\
italian|canadian|australian|indian|chinese|japanese|catholic|christian|muslim|jewish)\b)\
{cap}(?: {cap})?)\
(?: (?:из|із|з|from) .*|,.*)?
"""

# What somebody has: "у меня …", "I have …".
HAVING = r"""
allergic_to (?:есть |є )?(?:\w+(?:ая|на|а) )?(?:аллергия|алергія) на {obj}
allergic_to (?:есть |є )?(?:непереносимость|непереносимість) {obj}
shoe_size   {wear_size} (?:размер|розмір)(?: обуви| ноги| взуття)?
birthday    (?:день рождения|день народження|др) (?:в |у )?{date}
name        (?:имя|ім'я){is}{obj}
favourite   (?:сам\w+ )?(?:любим(?:ый|ая|ое|ые)|улюблен(?:ий|а|е|і)) (?P<thing>[\w-]+){is}{obj}
car         (?:есть |є )?(?:\w+ая |\w+а )?(?:машина|автомобиль|автомобіль|авто|тачка)\
(?:{dash}| )(?P<object>{cap}.*)
car         (?:есть |є )?(?P<object>(?:\w+ая )?(?:машина|автомобиль|автомобіль|авто|тачка))
speaks      (?:родной язык|рідна мова){is}{obj}
has         (?:есть |є )?(?P<object>(?:(?:{num}|{adjective}|\w+(?:ый|ая|ий|а)) )*(?P<kin>{role})\
(?: (?:по имени|по кличке|на имя|на ім'я))?(?: {capitals})?)
has         (?:есть|є) (?P<object>(?:\w+ ){0,2}(?P<kin>{role})\b.*)
owns        (?:есть|є) (?!вопрос|питан|иде[яи]|ідея|план|просьб|прохан|врем|час|\
проблем|дел[оа]){obj}
"""

# What is said of something of somebody's: "мой адрес …", "my brother's name …".
MY = r"""
favourite   (?:сам\w+ |най)?(?:любим(?:ый|ая|ое|ые)|улюблен(?:ий|а|е|і)) (?!{role}\b)\
(?P<thing>[\w-]+(?: [\w-]+)??)(?: {who})?{dash}{obj}
favourite   (?:сам\w+ |най)?(?:любим(?:ый|ая|ое|ые)|улюблен(?:ий|а|е|і)) (?!{role}\b)\
(?P<thing>[\w-]+)(?: {who})? {obj}
favourite   (?:all-time )?favou?rite (?!{role}\b)(?P<thing>[\w' -]+?)(?: is | are |'s | - |\
\s?[:=—–]\s?){obj}
name        (?:имя|ім'я)(?: {who})?{is}{called}
name        (?:full |first )?name{is}{called}
age         (?:возраст|вік|age){is}(?P<object>\d.*)
birthday    (?:день рождени[яе]|день народження|дата рождения|дата народження|др)(?: {who})?{is}\
(?:в |во |у )?{obj}
birthday    (?:birthday|date of birth|bday){is}(?:on |in )?(?:the )?{obj}
address     (?:домашний |домашня )?адреса?(?:{dash}| )(?P<object>(?=\D*\d|ул|вул|просп).+)
address     (?:home )?address{is}{obj}
phone       (?:номер(?: телефон[ау])?|телефон|мобильный|мобільний|phone(?: number)?|number)\
{is}(?P<object>\+?\d[\d\s()-]{4,})
email       (?:e-?mail(?: address)?|имейл|емейл|(?:электронная )?почта|(?:електронна )?пошта)\
{is}(?P<object>\S+@\S+)
works_as    (?:профессия|специальность|должность|професія|посада){is}{obj}
works_as    (?:profession|occupation|job)(?:'s | is |: )(?:an? )?{obj}
car         (?:машина|автомобиль|автомобіль|авто|тачка){dash}{obj}
car         (?:машина|автомобиль|автомобіль|авто|тачка) (?P<object>{cap}.*)
car         car(?:'s | is |: )(?:an? )(?!bit|mess|wreck|problem){obj}
shoe_size   (?:размер (?:обуви|ноги)|розмір (?:взуття|ноги)){is}(?P<object>\d.*)
shoe_size   shoe size{is}(?P<object>\d.*)
hobby       (?:хобби|хобі|увлечение|захоплення|hobby|hobbies){is}{obj}
speaks      (?:родной язык|рідна мова){is}{obj}
speaks      (?:native language|mother tongue){is}{obj}
born_in     (?:родной город|рідне місто){is}{obj}
born_in     (?:hometown|home town){is}{obj}
"""

# Whole clauses in an order of their own, and general statements.
WHOLE = r"""
name        (?:зовут|звать|звати|звуть) (?:меня|мене) {called}
name        (?:зовите|зови|называй|клич) (?:меня|мене) {few}
name        (?:you can )?call me (?!tomorrow|later|back|when|at\b|if\b|on\b|maybe|again|asap){few}
lives_in    (?:живу|мешкаю) (?:я|мы|ми) {in} {obj}
age         (?P<object>\d{1,3} (?:лет|год[а]?|рок\w*|рік)) (?:мне|мені)
birthday    (?P<object>\d{1,2}(?:[./]| )\w+|{month} \w+)(?:{dash}| (?:is )?)\
(?:(?:у|в) (?:меня|мене) |{my} )(?:день рождения|день народження|др|birthday)
dislikes    {told_first} (?:(?:я|мне|мені) )?\
(?:не (?:очень )?(?:люблю|нравится|подобається)|ненавижу|ненавиджу|терпеть не могу)
likes       {told_first} (?:(?:я|мне|мені) )?\
(?:(?:очень|дуже) )?(?:люблю|обожаю|обожнюю|нравится|подобається)
favourite   {few}{dash}(?:{my} )(?:любим\w+|улюблен\w+) (?!{role}\b)(?P<thing>[\w-]+(?: [\w-]+)?)
favourite   {few} (?:is|are) my favou?rite (?!{role}\b)(?P<thing>[\w -]+)
name        {name}{dash}(?:{my}) (?P<who>{person})
name        {name} is (?:my|our) (?P<who>{person})
general     (?!(?:this|that|it|there|my|our|one)\b)(?P<subject>[\w'-]+(?: [\w'-]+){0,3}) is \
(?:an? |the )?(?P<relation>(?!kind|sort|lot|one|out|because)[\w-]+) of {obj}
general     (?P<subject>{capitals}) is (?P<object>{capitals})'s (?P<relation>\w+)
general     (?!{my}\b)(?P<subject>[\w'-]+(?: [\w'-]+){0,2})(?:\s+[-–—]\s*(?:(?:это|це) )?|\
\s*[–—]\s*(?:(?:это|це) )?| (?:это|це) )(?P<relation>[\w-]+) (?P<object>{cap}.*)
general     (?!{my}\b)(?P<subject>[\w'-]+(?: [\w'-]+){0,2}) [-–—] (?:(?:это|це) )?\
(?P<relation>(?!\w+(?:ый|ий|ій|ой|ая|яя|ое|ее|ые|ие|на|ва|ка|ра|ла|не|ве)\b|\w{1,3}\b)[\w-]+) \
(?P<object>\w+(?:ы|и|а|я|у|ю|ов|ев|ей|ів|ії|ой))
"""

_FRAGMENT = re.compile(r"\{([a-z_]+)\}")
RULES: dict[Case, str] = {"verb": VERB, "noun": NOUN, "at": HAVING, "my": MY, "whole": WHOLE}


@cache
def rules(case: Case) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The rules of a case in their order: the first word of the line, and its pattern."""
    lines = RULES[case].replace("\\\n", "").strip().splitlines()
    parted = (line.split(maxsplit=1) for line in lines)
    return tuple((relation, compile_pattern(pattern)) for relation, pattern in parted)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern with fragments, deaf to case."""
    while (expanded := _FRAGMENT.sub(_fragment, pattern)) != pattern:
        pattern = expanded
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


@cache
def role_names() -> dict[str, str]:
    """Every form of every role, and the dictionary form of it: "брата" is "брат"."""
    entries = [entry for entries in _roles().values() for entry in entries]
    # The first entry of a form wins: "дочери" is of one daughter rather than the daughters.
    return {form: entry[0] for entry in reversed(entries) for form in entry}


@cache
def role_relations() -> dict[str, str]:
    """Every form of every role, and the key of ROLES under which it stands."""
    roles = _roles().items()
    return {form: key for key, entries in roles for entry in entries for form in entry}


def _roles() -> dict[str, list[list[str]]]:
    return {key: [entry.split() for entry in text.split("|")] for key, text in ROLES.items()}


def _fragment(match: re.Match[str]) -> str:
    return f"(?:{'|'.join(role_names())})" if match[1] == "role" else FRAGMENTS[match[1]]
