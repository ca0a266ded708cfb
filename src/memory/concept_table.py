"""The table of concepts: everyday words of Russian, Ukrainian and English that mean the same.

A line is a concept: its name, then Russian | Ukrainian | English; a line that begins with spaces
goes on with the one before. ``concepts.py`` reads ``собак``: a stem with any ending of nouns and
adjectives; ``работ~``: of verbs as well; ``жен-а``, ``дом-``, ``остр-ый``: declined like that word;
``муж:,а,у``: муж, мужа, мужу only. English: ``dog`` with its plural, ``plan~`` with verb forms.
A stem that both Cyrillic languages share may stand in one column only. Words that the languages
disagree about ("лист", "луна", "родина") are left out, but for forms that can be only one of them.
"""

from __future__ import annotations

CONCEPTS = """
# Family and people
mother | мам мамин мамочк матер мать: | мам мамин матус матір матер мати: | mother mom mum mommy
father | отец: отц пап папин | батько батьк:а,у,ові,ом тато: тат:а,ові,ом татус | father dad daddy
parents | родител | батьк:и,ів,ам,ами,ах | parent
child | ребёнок ребёнк дет:и,ей,ям,ьми,ях детк | дитин діт дітк малюк | child children kid baby
son | сын- сынок: сынк сыночк сынов:ья,ей,ьям | син:,а,у,ом,ові,и,ів,ам,ами синочк | son
daughter | дочь: дочер дочк дочек | доньк донечк дочк дочок дочц доньц | daughter
brother | брат- брать:я,ев,ям,ями,ях братик | брат:,а,у,ом,ові,ів,ам братик | brother
sister | сестр сестёр сестричк | сестр сестер сестричк | sister
grandmother | бабушк бабушек бабул | бабус бабц | grandmother grandma granny
grandfather | дедушк дед- | дідус дід- | grandfather grandpa granddad
grandchild | внук внучк внучек | онук онучк | grandson granddaughter grandchild grandchildren
uncle | дяд дядьк | дяд дядьк | uncle
aunt | тёт:я,и,е,ю,ей,ь тётк | тітк тіт:ці тітоньк | aunt auntie
cousin | двоюродн кузен кузин | двоюрідн кузен кузин | cousin
nephew | племянник | племінник небож | nephew
niece | племянниц | племінниц небог | niece
relative | родственник родственниц родн:я,и,ю,ёй | родич родичк | relative
family | семь:я,и,е,ю,ёй,ям,ях семей: | сім':я,ї,ю,єю,ям,ях родин:и,ою,і | family
wife | жен:а,ы,е,у,ой,ою,ам | дружин | wife wives
husband | муж:,а,у,ем,е,ья,ей,ьям | чоловік | husband
fiance | жених невест | наречен | fiance fiancé fiancee fiancée groom bride
mother_in_law | тёщ свекров | тещ свекрух | mother-in-law
father_in_law | тест:ь,я,ю,ем свёкор свёкр | тест:ь,я,ю,ем свекор свекр | father-in-law
godparent | крёстн крестник | хрещен хрещеник | godmother godfather godson goddaughter
friend | друг:,а,ом друзь друзей подруг подружк приятел | друз:і,ів,ям,ями подруг товариш | friend
girlfriend | девушк девушек | дівчин | girlfriend
boyfriend | парень парн:я,ю,ем,е,и,ей | хлоп:ець,ця,цю,цем,ці,ців | boyfriend
neighbour | сосед соседк | сусід сусідк сусід:ці | neighbour neighbor
colleague | коллег сотрудник сотрудниц | колег співробітник співробітниц | colleague coworker
boss | начальник начальниц босс шеф | начальник керівник керівниц шеф бос:,ом | boss
guest | гост:ь,я,ю,ем,и,ей,ям,ями | гість: гост:я,ю,ем,і,ей,ям,ями | guest
name | имя: имен:и,ем зовут звать: назвал кличк | ім'я: імен:і,ем звуть звати: назва:в,ла,ли |
  name~
surname | фамили | прізвищ | surname
# Animals
pet | питомец питомц | улюбленець улюбленц | pet
dog | собак собачк пёс: пс:а,у,ом,ы,ов щенок щенк щенят | собац пес: пс:а,и,ів цуцен | dog puppy
cat | кот кошк кошек кошач котёнок котёнк котят | кіт: кот кішк кішок кішц кошен | cat kitten
hamster | хомяк хомячк | хом'як хом'ячк | hamster
parrot | попуга попугайчик | папуг папу:зі | parrot
rabbit | кролик | кролик кріль: крол | rabbit bunny
fish | рыб рыбк | риб рибк | fish
bird | птиц птичк | птах пташк птиц | bird
horse | лошад лошадк конь: кон:я,ю,ём,и,ей | кінь: кон:я,ю,ем,і,ей | horse pony
chicken | куриц курятин | курк курятин курч:а курчат | chicken hen
animal | животн звер | тварин звір | animal
vet | ветеринар | ветеринар | vet veterinarian
# Home and places
home | дом:,а,у,ом,е,ой,ах,ов домик | дім: дом:у,ом,і,ів вдома додому будинок будинк | home house
apartment | квартир | квартир | apartment flat
room | комнат | кімнат | room
kitchen | кухн кухон | кухн кухон | kitchen
garage | гараж | гараж | garage
dacha | дач | дач | dacha cottage
floor | этаж | поверх:у,и,ів,ом повер:сі | floor storey
door | двер | двер | door
window | окн окон: | вікн вікон: | window
sofa | диван | диван | sofa couch
bed | кроват кроватк | ліжк ліжок: ліжечк | bed
table | стол- столик | стіл: стол- столик | table desk
chair | стул:,а,у,ом,е стуль кресл кресел | стілець стільц крісл крісел | chair armchair
wardrobe | шкаф | шаф-а | wardrobe closet cupboard
box | коробк коробок | коробк короб:ці | box
fridge | холодильник | холодильник | fridge refrigerator
key | ключ ключик | ключ ключик | key
address | адрес | адрес | address
street | улиц переул:ок переулк проспект | вулиц провул:ок провулк проспект | street avenue
district | район | район | district neighbourhood neighborhood
city | город:,а,у,ом,е,ам,ах,ов,ами городск | міст-о міськ | city town
village | деревн деревен сёл: село: сел:е,ом | сел:о,і,ом,ах селищ | village
country | стран | країн | country
sea | мор:е,я,ю,ем,ей,ям,ях | мор:е,я,ю,ем,і,ів | sea
mountain | гор:а,ы,ах,ам,ами | гор:а,и,ах,ам,ами гір: | mountain
move | переезд переезжа~ переех~ перееду | переїзд переїжджа~ переїх~ переїду | move~ relocate~
repair | ремонт ремонтиру~ почини~ чин:ю,ит,ить,ил | ремонт ремонту~ лагод~ полагод~ | repair~ fix~
# Work
work | работ~ работник труд~ | прац працю~ працівник робот:а,и,у,ою,і труд~ | work~ job worker
profession | професси специальност | професі фах- | profession occupation
business | бизнес предпринимател | бізнес підприємець підприємц | business entrepreneur
company | компани фирм | компані фірм | company firm
office | офис | офіс | office
salary | зарплат | зарплат зарплатн | salary wage paycheck
interview | собеседовани | співбесід | interview
dismissal | уволи~ увольня~ уволен | звільни~ звільня~ звільнен звільненн | fired: dismiss~ resign~
vacation | отпуск- каникул | відпустк відпуст:ці канікул | vacation holiday
pension | пенси пенсионер | пенсі пенсіонер | pension pensioner retire~ retirement
teacher | учител учительниц преподавател | вчител учител викладач репетитор | teacher tutor
doctor | врач доктор | лікар лікарк доктор | doctor physician
nurse | медсестр медсестёр | медсестр медсестер | nurse
engineer | инженер | інженер | engineer
programmer | программист разработчик | програміст розробник | programmer developer
lawyer | юрист адвокат | юрист адвокат | lawyer attorney
accountant | бухгалтер | бухгалтер бухгалтерк | accountant
chef | повар- | кухар кухарк | chef
driver | водител шофёр | воді:й,я,ю,єм,ї,їв шофер | driver
plumber | сантехник | сантехнік | plumber
hairdresser | парикмахер парикмахерск | перукар перукарк перукарн | hairdresser barber
army | арми солдат военн | армі солдат військов | army soldier military
psychologist | психолог психотерапевт | психолог психотерапевт | psychologist psychotherapist
# Study and languages
study | учи~ уч:у,усь,ат,атся учёб изуч~ обуч~ | вчи~ вч:у,уся,ать навч~ вивч~ | study~ learn~
  learnt
teach | препода~ | виклада~ | teach~ taught
student | студент студентк | студент студентк | student
pupil | ученик учениц школьник школьниц | учень: учн:я,ю,ем,і,ів,ям учениц школяр школярк | pupil
school | школ | школ шкіл: | school
university | университет институт вуз | університет інститут виш:,у,і | university college
kindergarten | детсад садик- | дитсад садоч:ок садочк | kindergarten preschool
exam | экзамен зачёт | екзамен іспит залік | exam examination
lesson | урок заняти | урок занятт | lesson
course | курс- | курс- | course
language | язык | мов-а | language
english | английск | англійськ | english
german | немецк | німецьк | german
french | французск | французьк | french
spanish | испанск | іспанськ | spanish
polish | польск | польськ | polish
ukrainian | украинск | українськ | ukrainian
russian | русск российск | російськ | russian
# Health and the body
hospital | больниц поликлиник клиник | лікарн лікарень поліклінік клінік | hospital clinic
dentist | стоматолог дантист | стоматолог дантист | dentist
cardiologist | кардиолог | кардіолог | cardiologist
eye_doctor | окулист офтальмолог | окуліст офтальмолог | ophthalmologist optometrist
pediatrician | педиатр | педіатр | pediatrician paediatrician
allergy | аллерги аллергик | алергі алергік | allergy allergic
diabetes | диабет диабетик | діабет діабетик | diabetes diabetic
pill | таблетк таблеток лекарств | таблетк пігулк лік:и,ів,ами | pill medicine medication
pressure | давлени гипертони | тиск:,у,ом гіпертоні | pressure hypertension
glasses | очк:ов,ами,ам,ах | окуляр | glasses: eyeglasses
tooth | зуб зубн | зуб зубн | tooth teeth toothache
pain | боль: бол:и,ью,ей,ит,ят | біль: бол:ю,ем,ить,ять | pain ache~ hurt~ painful headache
ill | болезн боле:ю,ет,ем,ют,ть заболе~ больн-ой | хвор~ захвор~ хвороб | ill sick illness disease
flu | грипп простуд простуди~ | грип застуд застуди~ | flu influenza
fever | температур | температур | fever temperature
head | голов головк | голов голів: | head
hand | рук-а | рук-а ру:ці | hand arm
leg | ног | ног но:зі ніг: | leg foot feet
eye | глаз- | око: очі: очей: очима: | eye
pregnant | беременн беременност | вагітн вагітніст вагітност | pregnant pregnancy
operation | операци прооперир~ | операці прооперу~ | operation surgery
injury | травм | травм | injury injure~ trauma
vaccine | вакцин прививк прививок | вакцин щепленн | vaccine vaccination vaccinate~
diet | диет | дієт | diet
weight | вес:,а,ом,у,ит,ил вешу: похуд~ | ваг:а,и,у,ою важ:у,ить,иш схуд~ | weight weigh~
height | рост:,а,у,ом | зріст: зрост | height tall
smoke | кур:ю,ит,ить,ил,ила,ят курени сигарет | курінн сигарет кур:иш,ити,ив пал:ю,ить,ити,ив |
  smoke~
alcohol | алкогол | алкогол | alcohol
insurance | страховк страховани застрахов~ | страхуванн страховк застрахов~ | insurance insure~
sleep | сп:ать,лю,ит,ят,ал,ала сон: сн:а,у,ом | сп:ати,лю,ить,ав сн:у,ом | sleep~ slept asleep
wake | просн~ просыпа~ вста~ | прокида~ прокин~ вста~ | wake~ woke woken awake
tired | устал устава~ устаю | втом~ стоми~ втомлен | tired exhausted
stress | стресс | стрес | stress stressful
# Food and drink
food | еда: еды: едой: еде: пищ продукт- | їж:а,і,у,ею продукт- | food
eat | съе:л,ла,ли,м,ст,сть куша~ едим едят | їсти їсть їдять їв: їла: їли: з'їв | eat~ ate eaten
drink | пить: пь:ю,ёт,ют,ешь,ем | пити: п':ю,є,ють,єш,ємо | drink~ drank drunk
breakfast | завтрак завтрака~ | снідан:ок сніданк сніда~ | breakfast
lunch | обед- обеда~ | обід- обіда~ | lunch
dinner | ужин ужина~ | вечер:я,і,ю,ею вечеря~ | dinner supper
cook | готови:ть,т,л,ла,ли,м,шь готов:лю,ят | готу:ю,є,ють,ємо,єш,вати,вав,вала | cook~
recipe | рецепт | рецепт | recipe
tasty | вкусн | смачн | tasty delicious
spicy | остр-ый | гостр-ий | spicy
vegetarian | вегетариан:ец вегетарианц веган | вегетаріан:ець вегетаріанц веган | vegetarian vegan
restaurant | ресторан | ресторан | restaurant
cafe | кафе: кофейн:я,ю,и,е | кафе: кав'ярн | cafe café
coffee | кофе: | кав-а | coffee
tea | ча:й,я,ю,ем,е | ча:й,ю,єм,ї | tea
milk | молок молочн | молок молочн | milk dairy
water | вод-а | вод-а | water
beer | пив-о | пив-о | beer
meat | мяс мясн | м'яс м'ясн | meat
egg | яйц яиц: | яйц яєць: | egg
cheese | сыр- | сир:,у,ом,и,ів | cheese
bread | хлеб | хліб | bread
sugar | сахар | цукор: цукр | sugar
potato | картофел картошк | картопл | potato potatoes
onion | лук:,ом луковиц | цибул | onion
vegetable | овощ | овоч | vegetable
fruit | фрукт | фрукт | fruit
apple | яблок | яблук | apple
orange | апельсин оранжев | апельсин помаранч помаранчев | orange
mushroom | гриб | гриб | mushroom
nut | орех орешк | горіх горішк | nut walnut hazelnut
peanut | арахис | арахіс | peanut
honey | мёд- | мед- | honey
chocolate | шоколад шоколадк | шоколад шоколадк | chocolate
cake | торт тортик пирог пирожк | торт тортик пиріг: пирог тістечк | cake pie
ice_cream | морожен:ое,ого,ым | морозив | ice-cream icecream
candy | конфет сладост сладк | цукерк цукерок солодощ солодк | candy sweet
pizza | пицц | піц | pizza
# Transport and travel
car | машин автомобил авто: | машин автомобіл авто: автівк | car automobile
bus | автобус маршрутк | автобус маршрутк маршрут:ці | bus minibus
train | поезд- электричк | поїзд потяг:,а,у,ом,и,ів електричк | train:,s
taxi | такси: таксист | таксі: таксист | taxi cab
plane | самолёт | літак | plane:,s airplane aircraft
flight | рейс перелёт полёт лета:ть,ю,ет,ем,л лет:ит,ят,ел,ела,ели,еть | рейс переліт політ польот
  лети:ть,мо летять летів літа:ти,ю,є | flight fly~ flew flown
ticket | билет | квиток квитк | ticket
airport | аэропорт | аеропорт летовищ | airport
station | вокзал станци | вокзал станці | station
bicycle | велосипед | велосипед | bicycle bike
parking | парковк паркинг припарков~ | парковк паркінг паркува~ припаркува~ | parking parked
drive | вожу: води:ть,т,л,ла рул:ь,я,ём | воджу: води:ти,в,ш керм:о,а,ом | drive~ drove driven
licence | водительск удостоверени | водійськ посвідченн | licence license
accident | авари дтп: | аварі дтп: | accident crash~
wheel | колёс: колес шин-а | колес коліс: шин-а | wheel tyre tire:
trip | поездк поездок путешеств~ путешестви | поїздк подорож~ мандр~ | trip journey travel~
hotel | отел гостиниц | готел | hotel hostel
passport | паспорт загранпаспорт | паспорт | passport
visa | виз-а | віз-а | visa
suitcase | чемодан багаж | валіз багаж | suitcase luggage baggage
abroad | заграниц границ | закордон кордон | abroad border
museum | музе | музе | museum
theatre | театр | театр | theatre theater
concert | концерт | концерт | concert
# Money
money | деньг денег: наличн | грош:і,ей,ам,има,ах готівк | money cash
price | цен-а стои~ стоимост | цін-а вартіст вартост кошту~ | price cost~
pay | плати~ оплат~ заплати~ платёж платеж | плат-а сплат~ заплати~ платіж | pay~ paid payment
rent | аренд~ снима:ю,ет,ем,ют,ть,ешь | оренд~ знім:аю,ає,аємо,ають,ати | rent~ tenant landlord
debt | долг:,а,у,ом,и,ов,ами задолж~ | борг- заборгу~ | debt owe~
lend | одолж~ одалжива~ взаймы | позич~ | lend~ lent borrow~
loan | кредит ипотек | кредит іпотек позик | loan credit mortgage
tax | налог | податок податк | tax
save | копи:ть,т,м,л,ла коплю накопи~ сбережени | заощад~ заощадж~ накопич~ | save~ savings
bank | банк | банк | bank
card | карт карточк | карт картк карт:ці | card:,s
expensive | дорог:ой,ая,ое,ие,ого,их дорого дороже | дорог:ий,і,ого,их дорого дорожч | expensive
cheap | дешёв дешевле | дешев дешевш | cheap cheaper
income | доход- заработок заработк зарабатыва~ | дохід доход- заробітк заробля~ | income earn~
# Shopping, clothes, things
shop | магазин супермаркет | магазин крамниц супермаркет | shop:,s,ping store:,s supermarket
buy | купи~ купл:ю,ен,ена покуп~ покупк | купи~ купу~ купл:ю,ять,ений придба~ покупк | buy~ bought
sell | прода~ продаж | прода~ продаж | sell~ sold sale:,s
order | заказ~ заказыва~ закаж | замов~ замовл~ замовленн | order~
delivery | достави~ доставк курьер | достави~ доставк кур'єр | deliver~ delivery courier
mail | почт:а,у,е,ой,ы | пошт-а | mail email e-mail
clothes | одежд | одяг | clothes clothing
shoes | обув ботинок ботинк кроссовк туфл | взутт черевик кросівк туфл чобот | shoe boot:,s sneaker
size | размер | розмір | size
jacket | куртк пальто | куртк пальто | jacket coat
trousers | брюк джинс штан:ы,ов,ах,ами | штан:и,ів,ах,ами джинс | trousers pants jeans
bag | сумк сумок: | сумк сум:ці | bag handbag
backpack | рюкзак | рюкзак наплічник | backpack rucksack
wallet | кошел:ёк,ек кошельк | гаманець гаманц | wallet purse
wear | носи~ ношу: | носи~ ношу: | wear~ wore worn
phone | телефон смартфон айфон | телефон смартфон айфон | phone smartphone iphone
computer | компьютер ноутбук | комп'ютер ноутбук | computer laptop
internet | интернет вайфай | інтернет вайфай | internet wifi wi-fi
number | номер | номер | number
tv | телевизор | телевізор | tv television
camera | камер фотоаппарат | камер фотоапарат | camera
photo | фото: фотк фотограф фотографи | фотк фотограф фотографі світлин | photo photographer
  picture
document | документ | документ | document
# Free time
hobby | хобби: увлечени увлека~ | хобі: захопленн | hobby
music | музык музыкант | музик музикант | music musician
song | песн песен: | пісн пісен | song
guitar | гитар | гітар | guitar
piano | пианино фортепиано | піаніно фортепіано | piano
sing | петь: пою: поют: пел: пела: певец певиц | співа~ співак співачк | sing~ sang sung singer
dance | танц танец: танцева~ танцу~ | танц танець танцюва~ танцю~ | dance~ dancer
film | фильм кино: кинотеатр | фільм кіно: кінотеатр | film movie cinema
series | сериал | серіал | series
book | книг книжк книжек | книг кни:зі книжк книжок книж:ці | book:,s
read | чита~ прочита~ | чита~ прочита~ | read~ reader
write | писа~ написа~ пиш~ напиш~ | писа~ написа~ пиш~ напиш~ | write~ wrote written
game | игр-а игра~ сыгра~ | гр:а,и,у,ою,і,ати,аю,ає,ають,ав,ала,али ігри: ігор: | game play~
chess | шахмат | шах:и,ів,ам,ами,ах | chess
football | футбол футболист | футбол футболіст | football soccer
sport | спорт спортсмен | спорт спортсмен | sport athlete
gym | спортзал тренажёрн | спортзал тренажерн | gym
training | тренирова~ трениру~ тренировк | тренува~ трену~ тренуванн | training workout
run | бег:,а,ом,у бега~ пробежк марафон | біг:,у,ом біга~ марафон | run~ ran runner jog~ marathon
swim | плава~ плавани | плава~ плаванн | swim~ swam swum swimmer
ski | лыж | лиж:і,ах,ами | ski:,s,ing
yoga | йог-а | йог-а | yoga
draw | рисова~ рису:ю,ет,ют рисунок рисунк | малюва~ малю:ю,є,ють малюнк | draw~ drew drawn paint~
knit | вяза~ вяж:у,ет,ут | в'яза~ в'яж:у,е,уть | knit~
garden | сад- огород | сад- город:і | garden
flower | цвет:ы,ов,ами,ок,ах цветк | квіт:и,ів,ами,ах квітк | flower
fishing | рыбалк удочк | риболовл рибалк вудк | fishing
collect | коллекци коллекциониру~ | колекці колекціону~ | collect~ collection
dream | мечт~ снит:ся снил:ся,ась,ось присни~ | мрі~ сни:ться насни~ | dream~ dreamt
# Celebrations and stages of life
born | роди~ рожден рождени рожда~ | народи~ народжен народженн | born birth birthday
age | возраст | вік:,у,ом | age
young | молод-ой | молод-ий | young
younger | младш младше моложе | молодш | younger youngest
older | старш старше | старш | older elder eldest oldest
wedding | свадьб свадеб | весілл весільн | wedding
marry | жени~ женат замуж: замужем брак- | одруж~ одружен заміж: заміжн шлюб | marry~ marriage
divorce | развод- развед:ён,ена,ены развел:ся,ась,ись | розлуч~ розлучен розлученн | divorce~
anniversary | годовщин юбиле | річниц ювіле | anniversary
die | умер:,ла,ли,ло умира~ смерт | помер:,ла,ли помира~ смерт | die: dies: died: dying: dead death
gift | подарок подарк подари~ дари:ть,т,л,ла | подарунок подарунк подару~ дарува~ | gift present:,s
party | вечеринк вечеринок | вечірк вечірок | party
celebrate | праздник праздну~ праздничн | свят-о святку~ | celebrate~ celebration
invite | пригласи~ приглаша~ приглашени | запроси~ запрошу~ запрошенн | invite~ invitation
christmas | рождеств | різдв | christmas xmas
# Time and weather
morning | утр:о,а,у,ом,ам | ран:ок,ку,ком,ці,ки вранці уранці зранку | morning
evening | вечер:,а,у,ом,ам,ов | вечір: вечор ввечері увечері | evening tonight
night | ноч:ь,и,ью,ей,ам ночн | ніч: ніччю: ноч:і,ей,ами нічн вночі: уночі: | night
time | врем:я,ени,енем час:,а,у,ом,е,ы,ов,ам | час:,у,ом,і,и,ів годин | time:,s hour
week | недел | тиждень тижн | week
month | месяц | місяц | month
year | год:,а,у,ом,е,ы,ов,ам лет: | рік: рок:у,и,ів,ом,ам ро:ці літ: | year
weekend | выходн | вихідн | weekend
monday | понедельник | понеділок понеділк | monday
tuesday | вторник | вівторок вівторк | tuesday
wednesday | сред:а,у,ы,ам | серед:а,у,и,ою,ам | wednesday
thursday | четверг | четвер четверг | thursday
friday | пятниц | п'ятниц | friday
saturday | суббот | субот | saturday
sunday | воскресень | неділ | sunday
january | январ | січень січн | january
february | феврал | лют:ий,ого,ому | february
march | март:,а,е,у | березень березн | march
april | апрел | квітень квітн | april
may | ма:й,я,е | травень травн | may:
june | июн | червень червн | june
july | июл | липень липн | july
august | август | серпень серпн | august
september | сентябр | вересень вересн | september
october | октябр | жовтень жовтн | october
november | ноябр | листопад | november
december | декабр | грудень грудн | december
spring | весн вёсен: | весн навесні | spring
summer | лет:о,а,у,ом | літ:о,а,у,ом,ку влітку улітку | summer
autumn | осен осенн | осін осінню осен:і восени | autumn
winter | зим-а зимн | зим-а взимку узимку | winter
weather | погод | погод | weather
rain | дожд | дощ | rain~ rainy
snow | снег | сніг | snow~ snowy
sun | солнц солнечн | сонц сонячн | sun sunny
hot | жар:а,ы,е,у,ой,ко жарк | спек:а,и,у,ою спекотн | hot heat
cold | холод холодн | холод холодн | cold
# What people do and feel
live | жив:у,ёт,ём,ут,ёшь жи:л,ла,ли,ть прожива~ | жив:у,е,емо,уть жи:в,ти мешка~ | live~ reside~
like | нрави~ понрави~ люби~ люб:лю,ят любим любов:ь,и,ью обожа~ предпочита~ | люби~ люб:лю,лять
  улюблен подоба~ сподоба~ любов: | like~ love~ adore~ enjoy~ favorite favourite prefer~
hate | ненавид~ ненавиж ненавист | ненавид~ ненавидж ненавист | hate~ dislike~
fear | бо:юсь,ится,ятся,яться,ялся,ялась страх:,а,у,ом страшн |
  бо:юся,юсь,їться,яться,ятися,явся,ялася страх:,у,ом страшн | fear~ afraid scared scare~
want | хоч:у,ешь,ет хот:им,ят,ел,ела,ели,еть | хоч:у,еш,е,емо,уть хот:іти,ів,іла | want~ wish~
speak | говор~ разговарива~ разговор | говор~ розмовля~ розмов | speak~ spoke spoken talk~
call | звон~ позвон~ звонок звонк | дзвон~ подзвон~ дзвінок дзвінк телефону~ | call~
visit | навест~ навеща~ посещ~ посети~ | відвід~ навіда~ | visit~
meet | встреч~ встрет~ познаком~ совещани | зустрі~ зустріч~ зустрін~ познайом~ нарад | meet~ met
arrive | приех~ приезж~ приезд приед прибы~ | приїх~ приїжд~ приїзд приїд прибу~ | arrive~ arrival
leave | уех~ уезжа~ уед:у,ет,ем,ут отъезд | виїх~ виїжджа~ від'їзд від'їжджа~ | leave~ left depart~
lose | потеря~ теря~ утеря~ | загуб~ втрат~ | lose~ lost loss
find | най:ти,ду,дёт,дём нашёл: нашл:а,и,о отыска~ | знай:ти,ду,де,демо,шов,шла,шли | find~ found
keep | лежи~ лежа~ наход:ится,ятся хран~ спрята~ прята~ прячу | лежи~ лежа~ знаход:иться,яться
  зберіга~ схова~ захова~ хова~ | keep~ kept hide~ hid hidden lie: lies: lying
break | слома~ сломан разби~ разбит | злама~ зламан полама~ розби~ розбит | break~ broke broken
start | нача~ начн~ начина~ начал | поча~ почн~ початок почина~ початк | start~ begin~ began begun
stop | бросил бросить бросаю переста~ прекрат~ | кинув кинути припин~ переста~ | stop~ quit:,s
cancel | отмен~ отменя~ | скасу~ скасува~ відмін~ | cancel~
postpone | перенес~ отлож~ откладыва~ | перенес~ відкла~ відклада~ | postpone~ reschedule~
win | выигр~ выигрыва~ победи~ побед | вигра~ перемог~ перемож | win~ won winner victory
help | помог~ помога~ помощ помочь | допомог~ допомага~ | help~
plan | план- планирова~ планиру~ | план- планува~ плану~ | plan~
promise | обеща~ обещани пообеща~ | обіця~ пообіця~ обіцянк | promise~
forget | забы~ забуд~ забыва~ | забу~ забуд~ забува~ | forget~ forgot forgotten
walk | гуля~ погуля~ прогулк | гуля~ погуля~ прогулянк | walk~
# Properties
colour | цвет:,а,у,ом,е | колір: кольор | colour color
red | красн | червон | red
blue | голуб-ой син:ий,его,ему,их,яя,юю,ее,ие | блакитн син:ій,ього,іх,я,ьої,ю,є,і,іми | blue
green | зелён | зелен | green
yellow | жёлт | жовт | yellow
black | чёрн | чорн | black
white | бел-ый | біл-ий | white
grey | сер-ый | сір-ий | grey gray
brown | коричнев | коричнев | brown
pink | розов | рожев | pink
big | больш-ой огромн | велик-ий величезн | big bigger biggest large huge
small | маленьк небольш | маленьк невелик невеличк | small smaller smallest tiny
new | нов | нов | new newer
old | стар | стар | old
"""
