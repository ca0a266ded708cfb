"""Ordinary things that people tell an assistant or ask it, per language.

The mean of their embeddings is what all such texts share, whatever they are about.
"""

from __future__ import annotations

import re

from src.storage.embedding_repo import Form
from src.texts import Language

# Written one after the other; each ends with its mark.
_TEXTS: dict[tuple[Language, Form], str] = {
    ("ru", "statement"): """
Сегодня была хорошая погода, и мы долго гуляли. Мне нравится слушать музыку по вечерам. Вчера я
ходил в магазин за продуктами. У меня на работе много дел. Мы с семьёй собираемся в отпуск. Я
купил новый телефон на прошлой неделе. Мой друг живёт в другом городе. Завтра у меня встреча с
врачом. Я люблю читать книги перед сном. Мы давно не виделись с родителями. Спасибо большое за
помощь! Я начал учить английский язык. Наш кот опять разбудил меня рано утром. Подскажи,
пожалуйста, что приготовить на ужин. Меня зовут так же, как моего деда.
""",
    ("ru", "question"): """
Где я работаю? Как зовут моего друга? Когда у меня встреча? Что я люблю есть? Сколько мне лет?
Куда мы ездили летом? Какая у меня машина? Что я купил в магазине? Кто мне звонил? Какой у меня
размер одежды? Где лежат документы? Что говорил врач? Какие книги мне нравятся? Когда день
рождения у мамы? На каком языке я говорю? Почему я опоздал? Чем я занимаюсь по вечерам? Что
подарить сестре? Во сколько начинается урок? С кем я живу?
""",
    ("uk", "statement"): """
Сьогодні гарна погода, тож ми довго гуляли. Мені подобається слухати музику ввечері. Учора я
ходила до крамниці по продукти. На роботі в мене багато справ. Ми з родиною збираємося у
відпустку. Минулого тижня я купив новий телефон. Мій друг живе в іншому місті. Завтра в мене
зустріч із лікарем. Люблю читати книжки перед сном. Ми давно не бачилися з батьками. Дуже дякую
за допомогу! Я почала вивчати англійську мову. Наш кіт знову розбудив мене рано-вранці. Порадь,
будь ласка, що приготувати на вечерю. Мене звати так само, як мого діда.
""",
    ("uk", "question"): """
Де я працюю? Як звати мого друга? Коли в мене зустріч? Що я люблю їсти? Скільки мені років?
Куди ми їздили влітку? Яка в мене машина? Що я купив у крамниці? Хто мені телефонував? Який у
мене розмір одягу? Де лежать документи? Що казав лікар? Які книжки мені подобаються? Коли день
народження в мами? Якою мовою я розмовляю? Чому я запізнився? Чим я займаюся вечорами? Що
подарувати сестрі? О котрій починається урок? З ким я живу?
""",
    ("en", "statement"): """
The weather was nice today, so we went for a long walk. I like listening to music in the
evening. Yesterday I went to the shop for groceries. There is a lot to do at work. My family
and I are going on holiday. I bought a new phone last week. My friend lives in another city. I
have an appointment with the doctor tomorrow. I love reading books before going to sleep. We
have not seen our parents for a long time. Thank you very much for your help! I have started to
learn a new language. Our cat woke me up early again this morning. Please tell me what to cook
for dinner. I have the same name as my grandfather.
""",
    ("en", "question"): """
Where do I work? What is my friend's name? When is my appointment? What do I like to eat? How
old am I? Where did we go in summer? What car do I have? What did I buy at the shop? Who called
me? What is my clothes size? Where are the documents? What did the doctor say? Which books do I
like? When is my mother's birthday? Which language do I speak? Why was I late? What do I do in
the evenings? What should I give my sister? What time does the lesson start? Who do I live
with?
""",
}
GENERIC_TEXTS = {
    key: tuple(re.split(r"(?<=[.?!]) ", " ".join(texts.split()))) for key, texts in _TEXTS.items()
}
