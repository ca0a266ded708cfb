"""The expressions behind ``instruction_text``: how orders to an assistant are worded.

Written in lower case; "…" stands for anything in the same sentence, not far. Groups of a language
come in the same order: cancelled rules, standing orders, another role, reveal, send, run, answer
when asked, hide from the user, new rules, trusted sources, orders told in the third person.
"""

from __future__ import annotations

# At the beginning of a clause; spaces are single in the text that is searched.
_START = r"(?:^|[\n.!?:;,(\"'>*-] ?|\b(?:and|then|but|so|please|you|must|should|that|to) )"
# English imperatives look like "I ignore": the person before the verb tells them apart.
_NOT_TOLD = "".join(
    rf"(?<!\b{person}{adverb} )"
    for person in ("i", "we", "they")
    for adverb in ("", " often", " always", " never", " usually", " sometimes", " just", " can")
)
_CLAUSE = (
    r"(?:^|[\n.!?:;,(\"'>*-] ?|\b(?:please|then|so|пожалуйста|запомни|будь ласка|запам'ятай) )"
)
_TE = "(?:те)?"  # the plural of an imperative, Russian and Ukrainian
# Russian and Ukrainian imperatives of most verbs, and nouns that end like them.
_BY_ENDING = (
    r"(?!николай|случай|трамвай|попугай|урожай|врожай|обычай|звичай|китай|дунай|сарай|каравай"
    r"|коровай|уругвай|парагвай)[а-яєіґ']{3,15}(?:ай|яй|уй|юй)(?:те|ся|тесь|теся)?\b"
)

ANY_LANGUAGE = (
    # tags, brackets and headings of chat formats, blocks of memories, the time label
    r"<\s*/?\s*(?:[\w-]{1,20}[_-])?(?:system|user|assistant|human|memor\w+|instructions?|tool\w*"
    r"|function\w*|prompt|context|quotes?|sys|im_\w+|память|пам'ять|инструкц\w+|інструкц\w+"
    r"|систем\w+)\b",
    r"<\||\|>|<<sys",
    r"\[\s*/?\s*(?:inst|system|memor\w+|tool|assistant|user|память|пам'ять|систем\w+"
    r"|текущее время|поточний час|current time)\b",
    r"(?<!#)#{2,}\s*(?:instructions?|system|response|human|assistant|user|input|инструкци\w+"
    r"|систем\w+|задани\w+|інструкці\w+|завдання|ответ|відповідь)\b",
    # a speaker's name before a line
    r"(?:^|[\n.!?>\])] ?)(?:system|assistant|developer|tool|система|системн\w+ \w+|ассистент"
    r"|асистент|разработчик|розробник)\s*:",
    r"\n(?:user|human|пользователь|користувач)\s*:",
    r"(?:^|[\n.!?>] ?)(?:memory|fact|воспоминание|память|факт"
    r"|спогад)\s*[#№(=]?\s*(?:id\s*=?\s*)?\d+\s*[:)\]]",
    # "end of memories", "system override:"
    r"\b(?:begin|end|start) (?:of )?(?:the )?"
    r"(?:system|memor|prompt|instruction|user|context|quote)",
    r"\b(?:конец|начало|кінець|початок) (?:системн|блок|памят|воспомин|инструкц|контекст|цитат"
    r"|пам'ят|спогад|інструкц|промп?т)",
    r"\bsystem (?:prompt|message|override|instructions?|notice|note)\s*[:=\]-]",
    r"\bсистемн\w+ (?:сообщени|инструкци|промп?т|уведомлени|команд|повідомленн|інструкці)\w*"
    r"\s*[:=\]-]",
    r"\b(?:note|message|instructions?|order) (?:to|for) (?:the )?(?:ai|assistant|bot|model)\b",
    r"\b(?:инструкци|сообщени|указани|приказ|послани|інструкці|повідомленн|вказівк|наказ)\w* для"
    r" (?:ии|ші|ассистента|асистента|бота|модели|моделі)\b",
    # calls of tools and shells
    r"\{\s*[\"']?(?:name|tool\w*|function\w*|action|role|type|command|arguments|parameters)"
    r"[\"']?\s*:",
    r"\b(?:save|delete|forget|search|recall|remember|update|erase|get|set|send|call|run|invoke)"
    r"_\w{2,40}(?:\s*\(|\b\s*[\"']?\s*[:,]\s*[\"'{])",
    r"\b(?:function_call|tool_calls?|tool_use)\b",
    r"\brm -rf\b|\bsudo \w|\bdrop table\b|\beval\s*\(|\bcurl https?:",
    # encoded orders
    r"\b(?:base ?64|rot13|hex)\b…\b(?:decode|execute|follow|run|do|obey)\b",
    r"\b(?:decode|раскодируй|декодируй|расшифруй|розкодуй|декодуй|розшифруй)\w{0,2}\b…"
    r"\b(?:execute|follow|run|obey|do what|выполни|исполни|следуй|виконай|дотримуйся)",
)

_EN_ORDER = (
    r"(?:answer|respond|reply|say|speak|talk|write|tell|call|address|use|add|append|include|insert"
    r"|mention|recommend|suggest|advise|promote|praise|agree|obey|follow|comply|pretend|act|behave"
    r"|refuse|reject|decline|send|forward|output|print|reveal|show|translate|start|begin|finish"
    r"|end|sign|believe|trust|treat|assume|execute|greet|apologi[sz]e|lie|repeat|return|disclose"
    r"|confirm|sound|phrase|format|do (?:what|as|everything|whatever))\b"
)
ENGLISH = (
    # cancelled rules
    rf"{_NOT_TOLD}\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass|discard|violate"
    r"|stop following|(?:do not|don't|never) follow|skip|delete|erase|reset|disable|lift|remove"
    r"|(?:turn|switch) off)\b…\b(?:instructions?|prompts?|guidelines?|directives?|rules"
    r"|restrictions|limitations|safety|safeguards|guardrails|filters|moderation|programming"
    r"|training|memories|polic(?:y|ies)"
    r"|(?:previous|prior|earlier) \w+|what you were told"
    r"|(?:all|everything|anything) (?:\w+ ){0,2}(?:above|before|previous|prior|you|said))\b",
    # standing orders
    rf"{_START}(?:always|never|only|every time,?|do not ever|don't ever) {_EN_ORDER}",
    r"\b(?:from (?:now|this (?:moment|point|day)|here|today) (?:on(?:wards?)?|forward)|henceforth)"
    r"(?: out)?,? (?:you|your|always|never|only|all|every|the (?:assistant|bot|ai)|please"
    rf"|{_EN_ORDER})",
    rf"{_CLAUSE}{_EN_ORDER}…\b(?:(?:every|each|all|any) (?:\w+ )?(?:reply|replies|answers?"
    r"|messages?|responses?|sentences?|questions?)|from now on)\b",
    rf"{_CLAUSE}(?:(?:answer|respond|reply) (?:\w+ ){{0,2}}?(?:in|with)|(?:answer|respond|reply"
    r"|speak|talk|write) (?:\w+ ){0,2}?(?:only|like|as))\b",
    rf"\b(?:whatever|no matter what|any question)\b…{_NOT_TOLD}\b{_EN_ORDER}",
    r"\byou(?:'ll| will| shall| must| should| have to| need to| are to| can only| may only)"
    rf"(?: now| always| never| only| not)* (?:{_EN_ORDER}|always|never|only)",
    r"\byou(?:'ll| will| shall| must)(?: now| always| never| only| not)* be\b",
    r"\b(?:before|after|in|with) (?:each|every) (?:\w+ )?(?:answer|reply|response)\b",
    r"\b(?:replies|reply|answers?|responses?) (?:are to|must|shall|have to|has to|need to"
    r"|should (?:always|only|never|be|end|start|begin|include|contain))\b",
    # another role
    r"\byou(?: are|'re) (?:now|no longer|not (?:an?|bound|allowed)|an? |the |my |free\b|dan\b"
    r"|in \w+ mode|(?:required|obliged|allowed|instructed|forbidden|supposed|going) to)",
    r"\byour (?:new |only |real |true |system )*(?:name|role|task|job|persona|identity|goal"
    r"|purpose|instructions?|rules|prompt) (?:is|are|will be)\b",
    r"\byour new (?:name|role|task|rules?|instructions?|persona|identity)\b",
    rf"{_NOT_TOLD}\b(?:act|behave|respond|answer|reply|speak|talk|write) (?:as|like)"
    r" (?:if|though|an? |the |my |dan\b)",
    rf"{_NOT_TOLD}\b(?:pretend|imagine|role-?play|simulate|impersonate)\b"
    r"(?: as| to be| being| that)? (?:you|your|an? |the |dan\b)",
    rf"{_NOT_TOLD}\b(?:enable|enter|activate|switch to|turn on)\b…"
    r"\b(?:developer|debug|admin|god|dan|jailbreak|sudo|unrestricted|root) mode\b",
    r"\b(?:developer|debug|admin|god|jailbreak|root) mode (?:is )?(?:on|enabled|activated)\b",
    r"\b(?:restrictions|limitations|filters|limits|safeguards)\b…\b(?:lifted|removed|off"
    r"|disabled)\b",
    r"\bi am your (?:new |real |only )*(?:creator|developer|owner|admin|administrator|master"
    r"|god)\b",
    rf"{_NOT_TOLD}\b(?:play|take|assume) the (?:part|role) of\b",
    r"\bdo anything now\b|\bdo (?:what|whatever|as) (?:it|he|she|they|i) (?:says?|tells?)\b",
    r"\bstop (?:being|acting)\b…\b(?:assistant|bot|ai|polite|helpful)\b",
    r"\b(?:allow(?:s|ed)?|authori[sz]e[sd]?|permit(?:s|ted)?) you\b",
    rf"{_NOT_TOLD}\b(?:mention|admit|say|reveal)\b…\byou(?: are|'re) (?:a |an )?(?:bot|ai"
    rf"|assistant)",
    # reveal
    rf"{_NOT_TOLD}\b(?:reveal|show|print|repeat|output|display|disclose|expose|leak|dump|list"
    r"|recite|share|tell me|give me|write down)\b…\b(?:other users?"
    r"|(?:words|text|messages?|everything|lines) above"
    r"|(?:system|hidden|initial|secret|your) (?:\w+ )?(?:prompts?|instructions?|rules|messages?"
    r"|configuration|settings|secrets?|keys?|tokens?|memor(?:y|ies)))",
    # send
    rf"{_START}(?:always |never |now |also )*(?:send|forward|e-?mail|upload|transmit|leak|post)\b"
    r"[^.!?\n]{1,80}?\b(?:to|at|on)\b",
    rf"{_NOT_TOLD}\b(?:send|forward|e-?mail|upload|transmit|leak)\b[^!?\n]{{0,80}}?"
    r"(?:https?://|www\.|\w@\w)",
    # run
    rf"{_NOT_TOLD}\b(?:run|execute|call|invoke|trigger) (?:the |this |that |following |an? |my )*"
    r"(?:\w+ )?(?:commands?|tools?|functions?|code|scripts?|shell|sql|quer(?:y|ies)|plugins?)\b",
    # answer when asked
    r"\b(?:if|when|whenever|each time|every time) (?:the )?(?:user|users|someone|anyone|somebody"
    r"|anybody|people|i|he|she|they) (?:asks?|says?|writes?|mentions?|requests?|types?)\b"
    rf"[^.!?\n]{{0,80}}?{_NOT_TOLD}\b(?:say|answer|reply|respond|tell|recommend|suggest|output"
    r"|print|pretend|give|send|mention|refuse|claim)\b",
    r"\bto (?:anyone|everyone|anybody) who asks\b",
    # hide from the user
    r"(?<!\bi )(?<!\bwe )\b(?:do not|don't|never) (?:tell|inform|warn|notify|alert"
    r"|(?:mention|reveal) (?:this|it|that) to) (?:the )?(?:users?|owner|admins?)\b",
    # new rules
    r"\b(?:rules|instructions|restrictions|policies|limits) (?:no longer|do not|don't) apply\b",
    r"\b(?:new|updated?) (?:system )?(?:tasks?|rules?|instructions?|directives?|polic(?:y|ies)"
    r"|orders?)\s*:",
    # trusted sources
    rf"{_START}(?:treat|consider|regard|trust)\b…"
    r"\b(?:trusted|trustworthy|reliable|authoritative)\b",
    # in the third person
    r"(?:^|[\n.!?:,] ?|\b(?:the|this) )(?:assistant|chatbot|bot|ai|model) (?:must|should|shall"
    r"|has to|is to|needs to|is (?:now|required|allowed|obliged|forbidden)|always|never"
    r"|will (?:now|always|never))\b",
    r"\b(?:wants?|asks?|asked|requests?|requested|instructs?|instructed|told|tells|orders?|ordered"
    r"|expects?) (?:you|the (?:assistant|bot|ai|model)|assistant) (?:to|not to|never to|always to)"
    r" (?!remember|note|remind|not forget|save|keep)\w",
)

_RU_ORDER = (
    r"(?:отвечай|ответь|говори|скажи|пиши|называй|обращайся|используй|употребляй|добавляй|вставляй"
    r"|упоминай|рекомендуй|советуй|предлагай|соглашайся|слушайся|слушай|подчиняйся|притворяйся"
    r"|представляйся|веди себя|отказывай|отказывайся|отправляй|присылай|показывай|раскрывай"
    r"|начинай|заканчивай|завершай|подписывай|подписывайся|хвали|верь|доверяй|считай|выполняй"
    r"|ставь|делай|ври|лги|повторяй|переводи|сообщай|спрашивай|извиняйся|матерись|ругайся|молчи"
    r"|будь|действуй|скрывай|вызывай|запускай|проверяй|цитируй|шути|играй|отрицай|подтверждай"
    rf"|выдавай|применяй|следуй){_TE}\b"
)
_RU_ALWAYS = (
    r"(?:всегда|никогда|постоянно|кажд\w+ раз|отныне|впредь|теперь|только|исключительно"
    r"|обязательно|навсегда|при (?:люб|кажд)\w+ \w+|на люб\w+ \w+"
    r"|с (?:этого момента|этой минуты|сегодняшнего дня|этого дня)|(?:во|на) все\w* \w+"
    r"|(?:в|на) кажд\w+ \w+)"
)
RUSSIAN = (
    # cancelled rules
    rf"(?<!не )\b(?:забудь|забывай|(?:про)?игнорируй|отбрось|отмени|сбрось|обойди|нарушай|нарушь"
    rf"|удали|сотри|отключи|выключи|сними|убери|не (?:следуй|соблюдай|обращай внимания|учитывай"
    rf"|выполняй)){_TE}\b…\b(?:инструкци|правил|указани|промп?т|ограничени|запрет|настройк|команд"
    r"|директив|контекст|обучени|выше|предыдущ|прежн|все\b|всю\b|воспоминани|памят|роль|фильтр)",
    r"\b(?:забыть|(?:про)?игнорировать|отменить|обойти|не следовать|не соблюдать)\b…"
    r"\b(?:инструкци|указани|промп?т|системн)",
    # standing orders
    rf"\b{_RU_ALWAYS}[\s,:-]+(?:[\w-]{{1,20}}[\s,]+){{0,3}}?{_RU_ORDER}",
    rf"\b{_RU_ORDER}[^.!?\n]{{0,40}}?\b{_RU_ALWAYS}",
    rf"\b(?:всегда|постоянно|впредь|отныне|исключительно),? (?:не )?{_BY_ENDING}",
    rf"\bотвечай{_TE}\b|\bподчиняйся\b",
    rf"{_CLAUSE}(?:не )?{_RU_ORDER}…\b(?:ответ|сообщени|реплик|предложени)",
    rf"\b(?:ответ|сообщени|реплик)\w*[\s,:-]+(?:[\w-]{{1,20}} ){{0,2}}?{_RU_ORDER}",
    rf"\b(?:говори|пиши){_TE} (?:со мной |мне |все )*(?:как|только|по-\w+|на \w+ском|в стиле"
    r"|стихами|капсом|голосом)",
    r"\bотвечать (?:следует|нужно|надо|необходимо|исключительно)\b",
    r"\b(?:перед|после|в|с) кажд\w+ (?:\w+ )?ответ(?!ствен)",
    r"\bвсегда (?:\w+ ){0,2}?отвечать (?:как|в стиле|на \w+ском|по-|только|кратко|коротко"
    r"|стихами)",
    r"\bотныне\b(?!,? (?:я|мы|у меня|у нас|мне|нам|мой|моя|мое|наш\w*|(?:не )?буд(?:у|ем))\b)",
    # another role
    r"\b(?:теперь,? ты|ты,? теперь|ты отныне|с этого (?:момента|дня),? ты|впредь,? ты)\b"
    r"(?! (?:знаешь|в курсе|понимаешь|помнишь))",
    r"\bты (?:больше |уже )?не (?:ассистент|бот\b|ии\b|помощник|языков|обязан|долж|огранич|чат)",
    r"\bчто ты (?:бот|ии|ассистент|модель|программа)\b",
    r"\b(?:разреш|позвол|прика|повел)\w+ тебе\b",
    r"\bты - ?\w|\bты (?:должен|должна|обязан|обязана|станешь)\b",
    r"\bты будешь (?:всегда |теперь |мне )*(?:отвеч|говор|пис|назыв|действ|игра|дела|моим|моей"
    r"|выполн|подчин|звать|вести|притвор|помога|пират|служ|рекоменд)",
    r"\bтво[яеи] (?:нов\w+ |единственн\w+ |главн\w+ )*(?:роль|задач|цель|личность|имя|инструкци"
    r"|правил)|\bтебя (?:теперь )?зовут\b",
    rf"\b(?:прими|возьми){_TE} (?:на себя )?роль\b",
    rf"\b(?:притворись|представь{_TE},? (?:себе,? )?что ты|(?:с|по)?играй{_TE} роль"
    rf"|веди{_TE} себя (?:как|так)|действуй{_TE} как)\b",
    rf"\b(?:включи|активируй|перейди|войди|переключись){_TE}\b…\bрежим",
    r"\bрежим (?:отладки|разработчика|администратора|бога) (?:включ|актив)",
    r"\bограничени\w+ (?:снят|отключ|отмен)",
    r"\bтвой (?:новый |настоящий )?(?:создатель|хозяин|разработчик|администратор|владелец)\b",
    # reveal
    rf"\b(?:покажи|раскрой|выведи|повтори|напечатай|перечисли|расскажи|сообщи|назови|выдай"
    rf"|процитируй|скинь|дай){_TE}\b…\b(?:промп?т|системн\w+ (?:сообщен|инструк|подсказ)"
    r"|(?:сво|тво)\w+ (?:\w+ )?(?:инструкци|правил|настройк|ключ|памят|указани|команд)"
    r"|текст выше|все,? что выше|(?:api|апи).?ключ|других пользовател|воспоминани)",
    # send
    rf"\b(?:отправь|отправляй|пересылай|скинь|скидывай|сливай|загрузи|выгрузи|опубликуй"
    rf"|передавай){_TE}\b[^.!?\n]{{1,80}}?(?:\b(?:на|в|во|по|мне)\b|http|@)",
    r"\b(?:перешли|вышли|пошли)\b[^!?\n]{0,80}?(?:https?:|\w@\w)",
    rf"\bперешли{_TE}\b…\b(?:сообщени|переписк|данны|воспоминани|истори|листуванн|повідомленн)",
    # run
    rf"\b(?:выполни|выполняй|запусти|запускай|вызови|вызывай|исполни|исполняй|используй){_TE}"
    r" (?:\w+ ){0,3}?(?:команд|код|скрипт|функци|инструмент|запрос|программ|sql|bash|shell|tool"
    r"|метод|плагин|save_|delete_)",
    # answer when asked
    r"\b(?:если|когда)\b[^.!?\n]{0,50}?\b(?:спрос|спраш|попрос|напиш|упомян|скаж)\w*"
    rf"[^.!?\n]{{0,60}}?(?:{_RU_ORDER}|\b(?:порекомендуй|посоветуй|назови|напиши"
    rf"|предложи){_TE}\b)",
    r"\bвсем,? кто (?:спро|спра|попро)",
    # hide from the user
    rf"\b(?:не (?:говори|сообщай|рассказывай|показывай){_TE}|скрывай{_TE}|скрой{_TE})\b…"
    r"\bпользовател",
    # new rules
    r"\b(?:правила|ограничения|инструкции|запреты) (?:больше |уже |теперь )?не действ",
    r"\bнов\w+ (?:задач|задани|правил|инструкци|указани|директив|установк|приказ)\w*\s*:",
    # trusted sources
    rf"\b(?:считай|доверяй){_TE}\b…\b(?:источник|доверенн|надежн|авторитетн)",
    # in the third person
    r"\bассистент\w{1,2} (?:запрещ|разреш|следует|нужно|надо|нельзя|велен|приказ)",
    r"(?:^|[\n.!?:,] ?)(?:ассистент|бот|ии|модель|помощник)\b,? (?:долж\w+|обязан\w*|всегда"
    r"|никогда|теперь|отныне|будет)\b",
    r"\bпользовател\w+ (?:просит|требует|хочет|приказ\w+|велит|велел\w*)\b[^.!?\n]{0,40}?"
    r"\b(?:всегда|никогда|отвечать|игнорировать|притворяться|забыть все)\b",
)

_UK_ORDER = (
    r"(?:відповідай|говори|кажи|скажи|пиши|називай|звертайся|використовуй|вживай|додавай|вставляй"
    r"|згадуй|рекомендуй|радь|пропонуй|погоджуйся|слухайся|слухай|підкоряйся|прикидайся|поводься"
    r"|відмовляй|відмовляйся|надсилай|відправляй|показуй|розкривай|починай|закінчуй|завершуй"
    r"|підписуй|хвали|вір|довіряй|вважай|виконуй|став|роби|бреши|повторюй|перекладай|повідомляй"
    r"|питай|вибачайся|лайся|мовчи|будь|дій|приховуй|викликай|запускай|перевіряй|цитуй|жартуй|грай"
    rf"|заперечуй|підтверджуй|застосовуй|дотримуйся){_TE}\b"
)
_UK_ALWAYS = (
    r"(?:завжди|ніколи|постійно|щоразу|кожн\w+ раз\w*|віднині|відтепер|надалі|тепер|лише|тільки"
    r"|виключно|(?:при|на) будь-як\w+ \w+|обов'язково|назавжди|з (?:цього моменту|цієї миті"
    r"|цієї хвилини|сьогоднішнього дня)"
    r"|[ву] (?:всіх|усіх|кожн\w+) \w+)"
)
UKRAINIAN = (
    # cancelled rules
    rf"(?<!не )\b(?:забудь|забувай|(?:про)?ігноруй|відкинь|скасуй|скинь|обійди|порушуй|знехтуй"
    rf"|видали|зітри|вимкни|зніми|прибери|не (?:дотримуйся|зважай|враховуй|виконуй"
    rf"|слухай)){_TE}\b…\b(?:інструкці|правил|вказівк|промп?т|обмежен|заборон|налаштуван|команд"
    r"|директив|контекст|навчан|вище|попередн|все\b|усе\b|всю\b|спогад|пам'ят|роль|фільтр)",
    r"\b(?:забути|(?:про)?ігнорувати|скасувати|обійти|не дотримуватися)\b…"
    r"\b(?:інструкці|вказівк|промп?т|системн)",
    # standing orders
    rf"\b{_UK_ALWAYS}[\s,:-]+(?:[\w'-]{{1,20}}[\s,]+){{0,3}}?{_UK_ORDER}",
    rf"\b{_UK_ORDER}[^.!?\n]{{0,40}}?\b{_UK_ALWAYS}",
    rf"\b(?:завжди|постійно|надалі|віднині|відтепер|виключно),? (?:не )?{_BY_ENDING}",
    rf"\bвідповідай{_TE}\b|\bпідкоряйся\b",
    rf"{_CLAUSE}(?:не )?{_UK_ORDER}…\b(?:відповід|повідомленн|реплік|реченн)",
    rf"\b(?:відповід|повідомленн|реплік)\w*[\s,:-]+(?:[\w'-]{{1,20}} ){{0,2}}?{_UK_ORDER}",
    rf"\b(?:говори|пиши){_TE} (?:зі мною |мені |все )*(?:як|лише|тільки|по-\w+|\w+ською|[ву] стилі"
    r"|віршами|капсом)",
    r"\bвідповідати (?:слід|треба|потрібно|лише|тільки|виключно)\b",
    r"\b(?:перед|після|в|у|з) кожн\w+ (?:\w+ )?відповідд?[ію]",
    r"\b(?:віднині|відтепер)\b(?!,? (?:я|ми|[ву] мене|[ву] нас|мені|нам|мій|моя|моє|мої|наш\w*"
    r"|буду|не \w+(?:тиму|ю))\b)",
    # another role
    r"\b(?:тепер,? ти|ти,? тепер|ти віднині|з цього моменту,? ти|надалі,? ти)\b"
    r"(?! (?:знаєш|в курсі|розумієш|пам'ятаєш))",
    r"\bти (?:більше |вже )?не (?:асистент|бот\b|ші\b|помічник|мовн|зобов|повин|обмежен|чат)",
    r"\bщо ти (?:бот|ші|асистент|модель|програма)\b",
    r"\b(?:дозвол|нака)\w+ тобі\b",
    r"\bти - ?\w|\bти (?:повинен|повинна|маєш (?:завжди|відпов|слух|викон|говор|каз|забу"
    r"|ігнор)\w*|зобов'язан\w+|мусиш|станеш)\b",
    r"\bти будеш (?:завжди |тепер |мені )*(?:відпов|говор|пис|назив|грат|роб|моїм|моєю|викон"
    r"|підкор|звати|поводит|прикид|пірат|служ|рекоменд)",
    r"\bти (?:відповідати|говорити|виконувати|писати)меш",
    r"\bтво[яєі] (?:нов\w+ |єдин\w+ |головн\w+ )*(?:роль|завдання|мета|ціль|особист|ім'я|інструкці"
    r"|правил)|\bтебе (?:тепер )?(?:звати|звуть)\b",
    rf"\b(?:прийми|візьми){_TE} (?:на себе )?роль\b",
    rf"\b(?:прикинься|уяви{_TE},? (?:собі,? )?що ти|(?:з|по)?грай{_TE} роль|поводься (?:як|так)"
    rf"|поводь{_TE} себе|дій{_TE} як)\b",
    rf"\b(?:увімкни|ввімкни|активуй|перейди|увійди|перемкнись){_TE}\b…\bрежим",
    r"\bрежим (?:налагодження|розробника|адміністратора|бога) (?:у?вімкн|актив)",
    r"\bобмеженн\w+ (?:знят|вимкн|скасов)",
    r"\bтвій (?:новий |справжній )?(?:творець|господар|розробник|адміністратор|власник)\b",
    # reveal
    rf"\b(?:покажи|розкрий|виведи|повтори|надрукуй|перелічи|розкажи|повідом|назви|видай|процитуй"
    rf"|скинь|дай){_TE}\b…\b(?:промп?т|системн\w+ (?:повідомл|інструк|підказ)"
    r"|(?:сво|тво)\w+ (?:\w+ )?(?:інструкці|правил|налаштуван|ключ|пам'ят|вказівк)|текст вище"
    r"|все,? що вище|(?:api|апі).?ключ|інших користувач|спогад)",
    # send
    rf"\b(?:надішли|надсилай|відправ|відправляй|пересилай|скинь|скидай|зливай|завантаж|вивантаж"
    rf"|опублікуй|передавай){_TE}\b[^.!?\n]{{1,80}}?(?:\b(?:на|в|у|до|мені)\b|http|@)",
    # run
    rf"\b(?:виконай|виконуй|запусти|запускай|виклич|викликай|використай){_TE} (?:\w+ ){{0,3}}?"
    r"(?:команд|код|скрипт|функці|інструмент|запит|програм|sql|bash|shell|tool|метод|плагін"
    r"|save_)",
    # answer when asked
    r"\b(?:якщо|коли)\b[^.!?\n]{0,50}?\b(?:спита|запита|питати|попрос|напиш|згада|скаж)\w*"
    rf"[^.!?\n]{{0,60}}?(?:{_UK_ORDER}|\b(?:порекомендуй|порадь|назви|напиши|запропонуй){_TE}\b)",
    r"\b[ву]сім,? хто (?:спита|запита|попро)",
    # hide from the user
    rf"\b(?:не (?:кажи|говори|повідомляй|розповідай|показуй){_TE}|приховуй{_TE}|приховай{_TE})\b…"
    r"\bкористувач",
    # new rules
    r"\b(?:правила|обмеження|інструкції|заборони) (?:більше |вже |тепер )?не (?:дію|працю)",
    r"\bнов\w+ (?:завданн|правил|інструкці|вказівк|директив|наказ)\w*\s*:",
    # trusted sources
    rf"\b(?:вважай|довіряй){_TE}\b…\b(?:джерел|довірен|надійн|авторитетн|достовірн)",
    # in the third person
    r"\bасистент\w{1,3} (?:заборон|дозвол|слід|треба|потрібно|не можна|нака)",
    r"(?:^|[\n.!?:,] ?)(?:асистент|бот|ші|модель|помічник)\b,? (?:повин\w+|мусить|має|завжди"
    r"|ніколи|тепер|віднині|буде|зобов'язан\w*)\b",
    r"\bкористувач\w* (?:просить|вимагає|хоче|наказ\w+|велить)\b[^.!?\n]{0,40}?"
    r"\b(?:завжди|ніколи|відповідати|ігнорувати|прикидатися|забути все)\b",
)

# For facts only. A statement about the user addresses nobody, apart from "as you know", and begins
# with no imperative, apart from "call me Sasha" and "remember". Of those that cannot be told by
# their ending (the English ones look like "work at Google") only a list is known.
ADDRESS = (
    r"\b(?:you(?! know)(?:'\w+)?|your|yours|yourself)\b",
    r"\b(?:ты(?!,? (?:знаешь|помнишь))|тебя|тебе|тобой|тобою|тво(?:й|я|е|и|его|ей|ему|им|ими|их"
    r"|ю))\b",
    r"\b(?:ти(?!,? (?:знаєш|пам'ятаєш))|твоє|твої|твого|твоєї|твоєму|твоїм|твоїх|твоєю|твій)\b",
    rf"{_CLAUSE}(?:не )?(?!(?:называй|називай) мен|запам'ятай|пам'ятай|запоминай|забывай|забувай"
    rf"|нагадай|нагадуй|знай|угадай|вгадай){_BY_ENDING}",
    rf"{_CLAUSE}(?:не )?(?:говори|кажи|скажи|пиши|заверши|закінчи|замени|смени|зміни|установи"
    r"|поставь|включи|увімкни|выключи|вимкни|прекрати|перестань|припини|покажи|найди|знайди"
    rf"|переведи|проверь|перевір|убери|прибери|прими|прийми|веди|поводься|прикинься|притворись"
    rf"|надішли|відправ|отправь|напиши|сделай|зроби){_TE}\b",
    r"^(?:please )?(?:give|mention|swap|praise|prioriti[sz]e|recommend|reply|respond|answer"
    r"|pretend|obey|comply|reveal|disclose|repeat|output|translate|refuse|tell|ignore|forget"
    r"|disregard|send|append|insert|(?:start|end|close|sign) (?:every|each|all)) \w",
)
