"""Messages that need no model: to remember as written, a zone, the memory, yes or no, a choice."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from src.base.zones import NAME_WORDS, local_time
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import last_question, strip_time_label
from src.history.turn_repo import Asks, Changes, StoredAnswer, TurnRepository
from src.memory import memory_repo, turn_context, writer
from src.memory.memories import Memories
from src.pg.client import PgClient, storable
from src.pg.settings_repo import UserSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.reading import lexicon, requests
from src.reading.facts import WISH, Fact
from src.reading.gate import MASK, redact
from src.reading.plain_facts import plain_facts
from src.reading.sentences import sentences
from src.reminders.day import read_days
from src.reminders.follow_ups import FollowUpService, asks_no_more
from src.reminders.reminder_service import ReminderService, format_result
from src.reminders.screens import BriefScreens, read_order
from src.talk import notes
from src.talk.questions import QuestionService
from src.talk.settings import ZoneService
from src.talk.strict import confirmation_text
from src.talk.turn_state import Resolution, Turn, TurnResult
from src.texts import say
from src.texts.plain_text import plain

MAX_SWITCH = 60  # characters that are read for an order to switch the memory on or off
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n")
IMPORTANCE = 7  # at least, of taught facts: so they are always in the prompt


@dataclass(eq=False, repr=False)
class Orders:
    """Answers to messages that need no model; each returns None for messages of other kinds."""

    _client: PgClient
    _memories: Memories
    _zones: ZoneService
    _questions: QuestionService
    _briefs: BriefScreens
    _reminders: ReminderService
    _follow_ups: FollowUpService
    has_model: bool

    async def answer(self, turn: Turn) -> None:
        """Answer a message that is an order, unless an earlier attempt has answered it.

        The orders are tried in the order of this list. What is not the sender's own words orders
        nothing, and most are for a private chat.
        """
        orders = [self.keep_code, self.teach]
        if turn.incoming.voice.is_own and not turn.incoming.owner.is_group:
            orders += [self.set_zone, self.switch_memory, self.set_brief]
            if not self.has_model:  # a model has tools for them
                orders += [self.tell_day, self.follow_reminder]
            orders += [self.end_follow_ups, self.hear_correction, self.keep_wish]
        if turn.incoming.voice.is_own:
            orders += [self.confirm_erasure, self.choose_fact]
        for order in orders:
            if not turn.has_answer:
                turn.result = await order(turn)

    async def teach(self, turn: Turn) -> TurnResult | None:
        """Store a message that is to be remembered as written: at once, and without a model.

        It is idempotent. The background reads the message as any other, so a model still finds
        what the rules do not.
        """
        incoming, corrected = turn.incoming, None
        if incoming.teaching is None:
            return None
        if not incoming.preferences.memory_on:
            return TurnResult(say("remember_off", incoming.language))
        if incoming.teaching.corrects is not None:
            find, speaker = self._memories.facts.find_fact, incoming.speaker_id
            number = incoming.teaching.corrects
            corrected = await self._client.run(find, incoming.owner, number)
            if (
                corrected is None
                or (speaker is not None and corrected.source.speaker_id not in (None, speaker))
                or (corrected.retirement is not None and turn.is_new)  # not by an earlier attempt
            ):
                return TurnResult(say("memory_gone", incoming.language))
        contradicts = set() if corrected is None else {corrected.id}
        if incoming.kept_private:
            outcome = await self._keep_private(turn, contradicts)
            text, changes = (
                incoming.describe_kept(outcome.text),
                turn_context.changes_of([outcome]),
            )
            return TurnResult(text, changes=changes)
        said = turn.source()
        fact = taught_fact(said.text, corrected)
        if incoming.teaching.is_wish:
            fact = fact.model_copy(update={"relation": WISH})
        return await self._remember(turn, fact, said, contradicts)

    async def _remember(
        self, turn: Turn, fact: Fact, said: writer.SourceText, contradicts: Collection[int] = ()
    ) -> TurnResult:
        """Store a fact as the user wants it; a wish replaces those that it denies."""
        owner = turn.incoming.owner
        if fact.relation == WISH:
            rivals = notes.rivals_of(fact.text)
            facts = await self._memories.get_user_facts(owner)
            contradicts = {*contradicts, *(one.id for one in facts if one.text in rivals)}
        outcome = await self._memories.writer.remember(
            owner,
            fact,
            said,
            origin="command",
            contradicts=contradicts,
            is_decided=bool(contradicts),
        )
        text = confirmation_text([outcome], turn.incoming.language)
        return TurnResult(text, changes=turn_context.changes_of([outcome]))

    async def keep_code(self, turn: Turn) -> TurnResult | None:
        """Store a code that is told beside other things; these are answered."""
        if turn.incoming.kept_private and turn.incoming.teaching is None:
            await self._keep_private(turn)
        return None

    async def _keep_private(self, turn: Turn, contradicts: Collection[int] = ()) -> writer.Outcome:
        """Store the code of a door or a wifi, with its text masked."""
        incoming = turn.incoming
        text = redact(storable(incoming.kept_private), household=True).strip()
        return await self._memories.writer.keep_private(
            incoming.owner, text, incoming.kept_private, turn.source(), contradicts=contradicts
        )

    async def hear_correction(self, turn: Turn) -> TurnResult | None:
        """Offer a wish below the new answer to "shorter" or "not so", right after an answer.

        A wish that is kept already is not offered; without a model there is no new answer.
        """
        incoming = turn.incoming
        wish = notes.read_correction(incoming.text)
        is_heard = incoming.preferences.memory_on and incoming.preferences.mode == "assistant"
        is_note = wish == notes.UNKNOWN and not self.has_model  # a note is not so
        if wish is None or is_note or not is_heard or not question_before(turn.history, None):
            return None
        facts = await self._memories.get_user_facts(incoming.owner)
        if notes.texts_of(wish).isdisjoint(fact.text for fact in facts):
            turn.wish = wish
        if self.has_model:
            return None
        return TurnResult(say("wish_heard", incoming.language))

    async def keep_wish(self, turn: Turn) -> TurnResult | None:
        """Keep the wish that was just offered, on a yes; None for other messages."""
        incoming = turn.incoming
        agreed, before = reads_as_yes(incoming.text), question_before(turn.history, None)
        if KEEP.fullmatch(incoming.text):
            agreed = True
        if agreed is None or before is None:
            return None
        said, answer = await self._find_answer_before(turn)
        if said is None or answer is None or answer.changes.wish not in notes.WISHES:
            return None
        if not agreed:
            return TurnResult(say("wish_dropped", incoming.language))
        text = notes.wish_text(answer.changes.wish, incoming.language)
        quote = strip_time_label(said["content"])
        fact = Fact(text=text, quote=quote, relation=WISH, importance=IMPORTANCE)
        moment = local_time(incoming.moment, incoming.time_zone)
        return await self._remember(turn, fact, writer.SourceText(said["id"], quote, moment))

    async def _find_answer_before(
        self, turn: Turn
    ) -> tuple[HistoryMessage | None, StoredAnswer | None]:
        """Return the user's message before this one, and its answer."""
        said = [entry for entry in turn.history[:-1] if entry["role"] == "user"]
        if not said:
            return None, None
        find = TurnRepository(self._client).find_answer
        answer = await self._client.run(find, turn.conversation_id, said[-1]["id"])
        return said[-1], answer

    async def set_zone(self, turn: Turn) -> TurnResult | None:
        """Set the zone that the user tells; the rest of the message is answered by its clock."""
        incoming = turn.incoming
        told = requests.told_zone(incoming.text)
        is_short = len(incoming.text.split()) <= NAME_WORDS
        if told is None and is_short and last_question(turn.history) == "zone":
            sentence = f"my time zone is {incoming.text.replace(',', '')}"
            reply = requests.told_zone(sentence)
            if reply and reply.zones:
                told = reply
        if told is None:
            return None
        if len(told.zones) == 1:
            _, before = await self._find_answer_before(turn)
            was_guess = before is not None and before.changes.names_zone
            is_told = incoming.preferences.has_zone and not was_guess
            caller = incoming.caller.with_preferences(has_zone=is_told)
            lead = TurnResult(await self._zones.set(caller, told.zones[0]))
            caller = caller.with_preferences(time_zone=told.zones[0], has_zone=True)
            turn.incoming = replace(incoming, caller=caller)
        else:
            key = "zone_which" if told.zones else "zone_unknown"
            offers = Changes(zones=told.zones)
            lead = TurnResult(say(key, incoming.language), changes=offers, asks="zone")
        if not told.rest:
            return lead
        turn.lead = lead
        return None

    async def switch_memory(self, turn: Turn) -> TurnResult | None:
        """Switch the memory on or off."""
        incoming = turn.incoming
        switch = lexicon.key_of("settings.memory", plain(incoming.text[:MAX_SWITCH]).strip(" .!"))
        if switch is None:
            return None
        change, is_on = UserSettingsRepository(self._client).change, switch == "on"
        await self._client.run(change, incoming.owner.telegram_user_id, memory_on=is_on)
        text = say("memory_switched_on" if is_on else "memory_switched_off", incoming.language)
        return TurnResult(text)

    async def set_brief(self, turn: Turn) -> TurnResult | None:
        """Switch the brief of the day on or off, or move it."""
        incoming = turn.incoming
        order = read_order(incoming.text, incoming.caller)
        if order is None:
            return None
        reply = await self._briefs.obey(incoming.caller, order)
        names_zone = bool(reply.rows) and not incoming.preferences.has_zone
        return TurnResult(reply.text, changes=Changes(names_zone=names_zone))

    async def tell_day(self, turn: Turn) -> TurnResult | None:
        """Tell what is on a day or in a week, without a model."""
        incoming = turn.incoming
        said = [one["content"] for one in turn.history[:-1] if one["role"] == "user"]
        days = read_days(incoming.text, incoming.caller, [*map(strip_time_label, said)])
        if not days:
            return None
        return TurnResult((await self._briefs.today(incoming.caller, days)).text)

    async def follow_reminder(self, turn: Turn) -> TurnResult | None:
        """Change the reminder of which the user tells that it is done, or will not be."""
        incoming = turn.incoming
        told = await self._reminders.follow(incoming.caller, incoming.text)
        if told is None or told.reminder is None:
            return None
        return TurnResult(format_result(told, incoming.caller))

    async def end_follow_ups(self, turn: Turn) -> TurnResult | None:
        """Ask no more about the thing of the last question how something went."""
        incoming = turn.incoming
        if asks_no_more(incoming.text) and await self._follow_ups.mute_last(incoming.caller):
            return TurnResult(say("follow_up_muted", incoming.language))
        return None

    async def confirm_erasure(self, turn: Turn) -> TurnResult | None:
        """Erase, or not, on a yes or no to that question; None for other messages."""
        incoming = turn.incoming
        agreed, question = reads_as_yes(incoming.text), question_before(turn.history, "erase_all")
        if agreed is None or question is None:
            return None
        if not agreed:
            return TurnResult(say("erase_kept", incoming.language))
        erase = ErasureRepository(self._client).erase
        await self._client.run(erase, incoming.owner.telegram_user_id)
        return TurnResult(say("erase_done", incoming.language), ended="erased")

    async def choose_fact(self, turn: Turn) -> TurnResult | None:
        """Settle a question about facts by words, right after it; None for other messages.

        A retried message finds the question that its first attempt has settled.
        """
        incoming = turn.incoming
        resolution = reads_as_choice(incoming.text)
        question = question_before(turn.history, "conflict", "conflict_over")
        if resolution is None or question is None:
            return None
        settlement = await self._questions.settle(incoming.caller, question["id"], resolution)
        if settlement.kind == "gone" or (settlement.kind == "over" and turn.is_new):
            return None
        return TurnResult(settlement.said, changes=settlement.changes)


def taught_fact(text: str, corrected: memory_repo.StoredFact | None = None) -> Fact:
    """Return a text as one fact, word for word; with a masked secret, the sentences without one.

    Its subject and relation are read by the rules if it is one sentence.

    Args:
        text: The user's text.
        corrected: The fact that it replaces, with the same subject.
    """
    if MASK in text:
        runs = groupby(SENTENCE_END.split(text), key=lambda part: MASK in part)
        clean = [" ".join(run).strip() for is_masked, run in runs if not is_masked]
        return Fact(text=max(clean, key=len, default="") or text)
    facts = []
    if len(list(sentences(text))) == 1:
        facts = plain_facts(text)
    fact = facts[0] if len(facts) == 1 else Fact(text=text)
    importance = max(fact.importance, IMPORTANCE)
    fact = fact.model_copy(update={"text": text, "quote": text, "importance": importance})
    if corrected is None or fact.relation != "other":
        return fact
    same = {"subject": corrected.fact.subject, "relation": corrected.fact.relation}
    return fact.model_copy(update={**same, "memory_type": corrected.fact.memory_type})


YES = lexicon.Expression("(?:<answers.yes>|[, ])+")
KEEP = lexicon.AnyCase(r"\W*<answers.keep>(?: <move.it>)?(?:\W+<requests.please>)?\W*")
NO = lexicon.Expression(r"<answers.no>\b.*")
BEGINS_YES = lexicon.Expression("<answers.begins_yes>")
# Decisions between two facts, by the words of a whole message.
_DECISION = "(?:<answers.keep> )?{}(?: <answers.right>)?"
CHOICES: tuple[tuple[Resolution, lexicon.Expression], ...] = (
    ("both", lexicon.Expression(_DECISION.format("<answers.both>"))),
    ("old", lexicon.Expression(f"{_DECISION.format('<answers.old>')}|<answers.keep_it>")),
    ("replace", lexicon.Expression(f"{_DECISION.format('<answers.new>')}|<answers.replace>")),
)


def reads_as_yes(text: str) -> bool | None:
    """Return True for yes, False for no, None for anything else."""
    flat = plain(text).strip(" .!…")
    if NO.fullmatch(flat):
        return False
    if BEGINS_YES.match(flat) and YES.fullmatch(flat):
        return True
    return None


def reads_as_choice(text: str) -> Resolution | None:
    """Return the decision between two facts that a whole message is; None for anything else."""
    flat = plain(text).strip(' .!…«»"')
    return next((choice for choice, words in CHOICES if words.fullmatch(flat)), None)


def question_before(
    history: Sequence[HistoryMessage], *asks: Asks | None
) -> HistoryMessage | None:
    """Return the bot's answer right before the newest message, if it asks one of these.

    None stands for an answer that asks nothing.
    """
    for entry in reversed(history[:-1]):
        if entry["role"] == "user":
            return None
        if entry["role"] == "assistant":
            if entry.get("asks") in asks:
                return entry
            return None
    return None
