"""Memory screens: pages of facts, and a card with actions for each fact."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from src.base.owners import Caller
from src.base.zones import SECOND
from src.memory.forgetter import Forgotten
from src.memory.memories import Memories
from src.memory.memory_repo import FactQuery, StoredFact, message_number
from src.pg.client import PgClient
from src.reading.facts import MEMORY_TYPES, fact_uid
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, Rows, in_rows, pager_row

PAGE_SIZE = 8  # facts; with MAX_LINE and replaced facts, half of a Telegram message
PER_ROW = 4  # number buttons
MAX_LINE = 160  # characters of a fact in a list
MAX_TEXT = 700  # characters of a fact on its card, and of its quote
MAX_PAST = 5  # earlier values on a card
KINDS = tuple(MEMORY_TYPES)
ALL_KINDS = 0  # kind number of a page; KINDS are numbered from 1
PENCIL, PIN = "✏️", "📌"


@dataclass(eq=False, repr=False)
class MemoryScreens:
    """Pages and cards of facts, and the actions of their buttons.

    The web app (``src/web``) at ``_app_url`` shows the same; None if it is not reachable.
    """

    _memories: Memories
    _client: PgClient
    _app_url: str | None

    async def page(self, caller: Caller, number: int = 1, kind: int = ALL_KINDS) -> Reply:
        """Return a page of facts, of all kinds or of one.

        Args:
            caller: The caller.
            number: Page number from 1; beyond the last page, the last one.
            kind: ALL_KINDS, or the number of one of KINDS.
        """
        counts = await self._client.run(self._memories.facts.count_kinds, caller.owner)
        language = caller.language
        if not counts:
            return Reply(say("memory_empty", language), is_screen=True)
        chosen = KINDS[kind - 1] if 0 < kind <= len(KINDS) and KINDS[kind - 1] in counts else None
        total = counts[chosen] if chosen else sum(counts.values())
        last = -(-total // PAGE_SIZE)
        number = max(1, min(number, last))
        offset = (number - 1) * PAGE_SIZE
        query = FactQuery("kind", kind=chosen, limit=PAGE_SIZE, offset=offset)
        facts = await self._client.run(self._memories.facts.list_facts, caller.owner, query)
        lines = [say("memory_title", language, count=sum(counts.values()))]
        lines += _list_lines(facts, offset, caller)
        kind = KINDS.index(chosen) + 1 if chosen else ALL_KINDS
        numbered = enumerate(facts, start=offset + 1)
        buttons = [Button(str(n), Action("fact", (fact.id, number, kind))) for n, fact in numbered]
        rows = in_rows(buttons, PER_ROW)
        rows += pager_row(number, last, "facts", kind)
        rows += _kind_rows(counts, chosen, language)
        return Reply("\n".join(lines), rows, say("memory_hint", language), is_screen=True)

    async def open_app(self, caller: Caller) -> Reply:
        """Return the button of ``/app``; Telegram opens web apps in private chats only."""
        language = caller.language
        if caller.owner.is_group:
            return Reply(say("app_in_private", language))
        if self._app_url is None:
            return Reply(say("app_disabled", language))
        button = Button(say("app_button", language), Action("app"), self._app_url)
        return Reply(say("app_open", language), ((button,),))

    async def card(self, caller: Caller, memory_id: int, *back: int) -> Reply:
        """Return the card of a fact: kind, source, past, and action buttons.

        Args:
            caller: The caller.
            memory_id: The fact.
            back: The page to go back to, and its kind.
        """
        fact = await self._client.run(self._memories.facts.find_fact, caller.owner, memory_id)
        if fact is None:
            return _gone_reply(caller, back)
        text = "\n".join(_card_lines(fact, caller))
        return Reply(text, _action_rows(fact, caller, back), is_screen=True)

    async def pin(self, caller: Caller, memory_id: int, *back: int, pinned: bool = True) -> Reply:
        """Pin or unpin a fact."""
        pin, asker = self._memories.facts.set_pinned, caller.asker
        if not await self._client.run(pin, caller.owner, memory_id, pinned=pinned, asker=asker):
            return await self._refusal_note(caller, memory_id)
        popup = say("tap_pinned" if pinned else "tap_unpinned", caller.language)
        return replace(await self.card(caller, memory_id, *back), popup=popup)

    async def forget(self, caller: Caller, memory_id: int, *back: int) -> Reply:
        """Forget a fact and its sources; undoable for ten minutes."""
        forgotten = await self._memories.forget_once(
            caller.owner, fact_uid(memory_id), asker=caller.asker
        )
        if not forgotten.texts:
            return await self._refusal_note(caller, memory_id)
        reply = forgotten_reply(forgotten, caller.language)
        rows: Rows = (*reply.rows, (_back_button(caller.language, back),))
        return replace(reply, rows=rows, is_screen=True)

    async def correct(self, caller: Caller, memory_id: int, *back: int) -> Reply:
        """Ask for the correction of a fact; the user's answer is the correction."""
        fact = await self._find_living(caller, memory_id)
        if fact is None:
            return _gone_reply(caller, back)
        if caller.asker is not None and fact.source.speaker_id not in (None, caller.asker):
            return Reply.note(say("memory_not_yours", caller.language))
        text = say("memory_correct", caller.language, text=shortened(fact.text, MAX_TEXT))
        return Reply(f"{PENCIL} {text}", asks={"asks": "correction", "memory_id": memory_id})

    async def _find_living(self, caller: Caller, memory_id: int) -> StoredFact | None:
        fact = await self._client.run(self._memories.facts.find_fact, caller.owner, memory_id)
        if fact is None or fact.retirement is not None:
            return None
        return fact

    async def _refusal_note(self, caller: Caller, memory_id: int) -> Reply:
        """Note that the fact is gone, or another member's; the screen stays."""
        is_gone = await self._find_living(caller, memory_id) is None
        return Reply.note(say("memory_gone" if is_gone else "memory_not_yours", caller.language))


def _gone_reply(caller: Caller, back: Sequence[int]) -> Reply:
    text = say("memory_gone", caller.language)
    return Reply(text, ((_back_button(caller.language, back),),), is_screen=True)


def recall_button(number: int, language: Language) -> Button:
    """Return the button that undoes the forgetting with this number."""
    return Button(say("undo_forgot_button", language), Action("undo", (0, number)))


def forgotten_reply(found: Forgotten, language: Language) -> Reply:
    """Build the reply about forgotten texts, with an undo button."""
    text = "\n".join(say("forgot", language, text=text) for text in found.texts)
    if found.number is None:
        return Reply(text)
    return Reply(text, ((recall_button(found.number, language),),))


def kind_title(kind: str, language: Language) -> str:
    """Return the title of a kind of facts."""
    return say(f"kind_{kind}", language)


def _list_lines(facts: Sequence[StoredFact], offset: int, caller: Caller) -> list[str]:
    lines: list[str] = []
    kind = None
    for number, stored in enumerate(facts, start=offset + 1):
        if stored.fact.memory_type != kind:
            kind = stored.fact.memory_type
            lines += ["", kind_title(kind, caller.language)]
        pin = f"{PIN} " if stored.fact.pinned else ""
        day = caller.day(stored.source.said_at)
        lines.append(f"{number}. {pin}{shortened(stored.text, MAX_LINE)} · {day}")
        lines += [f"    {line}" for line in _over_lines(stored, caller)]
        if stored.past:
            past = shortened("; ".join(replaced.text for replaced in stored.past), MAX_LINE)
            lines.append(f"    {say('memory_before', caller.language, text=past)}")
    return lines


def _over_lines(stored: StoredFact, caller: Caller) -> list[str]:
    """Return the line that says when a current fact was over by its own date."""
    said_at, until = stored.source.said_at, stored.fact.valid_until
    if stored.retirement is not None or until is None or not said_at < until <= caller.moment:
        return []
    return [say("memory_over", caller.language, day=caller.day(until - SECOND))]


def _card_lines(stored: StoredFact, caller: Caller) -> list[str]:
    language, fact, source = caller.language, stored.fact, stored.source
    pin = f"{PIN} " if fact.pinned else ""
    lines = [f"{pin}{shortened(fact.text, MAX_TEXT)}", "", kind_title(fact.memory_type, language)]
    if source.speaker:
        lines.append(say("memory_speaker", language, name=shortened(source.speaker, MAX_LINE)))
    day, quote = caller.day(source.said_at), source.quote or fact.text
    if quote == fact.text:
        lines.append(say("memory_said_so", language, day=day))
    else:
        quote = shortened(quote, MAX_TEXT)
        lines.append(say("memory_said", language, day=day, quote=quote))
    lines += _over_lines(stored, caller)
    for replaced in stored.past[:MAX_PAST]:
        text = shortened(replaced.text, MAX_LINE)
        until = f" ({caller.day(replaced.until)})" if replaced.until else ""
        lines.append(say("memory_before", language, text=f"{text}{until}"))
    if stored.retirement is not None:
        now = shortened(stored.retirement.replaced_by or "—", MAX_LINE)
        lines += ["", say("memory_retired", language, text=now)]
    return lines


def _action_rows(stored: StoredFact, caller: Caller, back: Sequence[int]) -> Rows:
    language = caller.language
    rows: list[tuple[Button, ...]] = []
    arguments = (stored.id, *back)
    if stored.retirement is None:
        pin = "unpin" if stored.fact.pinned else "pin"
        pin_button = Button(say(f"{pin}_button", language), Action(pin, arguments))
        correct = Button(say("correct_button", language), Action("correct", arguments))
        forget = Button(say("forget_button", language), Action("forget", arguments))
        rows += [(pin_button, correct), (forget,)]
        if stored.past:
            rows.append((Button(say("undo_button", language), Action("undo", (stored.id,))),))
    number = message_number(stored.source.uid)
    if number is not None:
        rows.append((Button(say("where_button", language), Action("source", (number,))),))
    return (*rows, (_back_button(language, back),))


def _back_button(language: Language, back: Sequence[int]) -> Button:
    return Button(say("back_button", language), Action("facts", tuple(back[:2])))


def _kind_rows(counts: dict[str, int], chosen: str | None, language: Language) -> Rows:
    """Return a button for each other kind; none if all facts fit on a page."""
    if sum(counts.values()) <= PAGE_SIZE or len(counts) == 1:
        return ()
    others = [(kind, count) for kind, count in counts.items() if kind != chosen]
    labels = {
        KINDS.index(kind) + 1: f"{kind_title(kind, language)} ({count})" for kind, count in others
    }
    if chosen:
        labels = {ALL_KINDS: say("kind_all", language), **labels}
    return in_rows([Button(label, Action("facts", (1, k))) for k, label in labels.items()], 2)
