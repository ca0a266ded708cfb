"""Whether a message itself says that it shall not be remembered; no model is asked.

The search must never see such a message, also when a model forgets to call its tool, so the plain
phrases are recognised before anything else happens to it: at its beginning, or at its end.
"""

from __future__ import annotations

import re

from src.memory.plain_text import plain

_REQUEST = (
    r"(?:не (?:запоминай|запоминайте|запомни|сохраняй|сохраняйте|записывай|записывайте)"
    r"|не надо (?:это |этого )?(?:запоминать|сохранять|записывать)"
    r"|не нужно (?:это |этого )?(?:запоминать|сохранять|записывать)"
    r"|(?:давай )?без (?:запоминания|записи|протокола)"
    r"|не для (?:памяти|запоминания|записи|протокола)"
    r"|(?:только )?между нами|(?:тільки )?між нами|забудь сразу|тут же забудь|это не запоминай"
    r"|не (?:запам'ятовуй|запам'ятовуйте|зберігай|зберігайте|записуй|записуйте)"
    r"|не (?:треба|потрібно) (?:це |цього )?(?:запам'ятовувати|зберігати|записувати)"
    r"|не для (?:пам'яті|запису|протоколу)|без (?:запису|протоколу)"
    r"|(?:do not|don't|dont|never) (?:remember|memori[sz]e|save|store|keep|record|log)"
    r"|no need to (?:remember|save|store)|without (?:remembering|saving)|off the record"
    r"|(?:keep (?:this|it)|stays?) (?:between us|off the record|private)"
    r"|between (?:you and me|us))"
)
_OBJECT = (
    r"(?:\s+(?:это(?:го)?|эту|этот|то|что|такое|сообщение|информацию|следующее|дальнейшее"
    r"|пожалуйста|этого сообщения|це|цього|цю|те|що|таке|повідомлення|інформацію|наступне"
    r"|будь ласка|но|але|but|this|that|it|the following|following|what (?:i say|follows)"
    r"|message|one|in memory|please|anywhere|нигде|ніде|никуда|next))*"
)
_POLITE = (
    r"(?:(?:пожалуйста|прошу|будь ласка|please|так|ну|слушай|слухай|hey|ok|okay|и|і|and|это|це"
    r"|this is|that's|it's|just|только|тільки|пусть это будет|хай це буде)[\s,]+)*"
)
# "Don't remember this: ..." with a sign behind it; "что я ..." after it is what to forget.
AT_THE_BEGINNING = re.compile(
    rf"^\W*{_POLITE}{_REQUEST}{_OBJECT}\s*(?:[:.,;!\n)(]|\s-+\s|$)"
    r"(?!\s*(?:что|що|that|где|де|where)\b)"
)
AT_THE_END = re.compile(
    rf"(?:^|[.,;:!?()\n]|\s-+)\s*\W*{_POLITE}(?:(?:но|але|а|but|only|только|тільки|это|це|this"
    rf"|it)[\s,]+)*{_REQUEST}{_OBJECT}\W*$"
)
MAX_EDGE = 300  # characters in which the phrase is looked for


def asks_to_keep_private(text: str) -> bool:
    """Whether the text begins or ends with a request not to remember it."""
    lines = "\n".join(plain(line) for line in text.replace("ё", "е").splitlines())
    return (
        AT_THE_BEGINNING.search(lines[:MAX_EDGE]) is not None
        or AT_THE_END.search(lines[-MAX_EDGE:]) is not None
    )
