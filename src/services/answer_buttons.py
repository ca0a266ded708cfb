"""Buttons under an answer: what takes back its changes, and which of two facts holds."""

from __future__ import annotations

from dataclasses import replace

from src.graph.conversation_state import RESOLUTIONS
from src.services.reminder_screens import cancel_button
from src.services.reply import Action, Button, Rows
from src.storage.turn_repo import Changes
from src.texts import Language, say

MAX_UNDO = 4  # buttons; /memory and /undo reach the rest


def choice_rows(answer_id: int, language: Language) -> Rows:
    """The buttons under an answer that asks which of two facts holds."""
    return tuple(
        (Button(say(f"conflict_{name}", language), Action("settle", (answer_id, place))),)
        for place, name in enumerate(RESOLUTIONS)
    )


def undo_buttons(changes: Changes, language: Language) -> list[Button]:
    """A button for each change, those that cost something first."""
    buttons = []
    if changes.forgetting is not None:
        action = Action("recall", (changes.forgetting,))
        buttons.append(Button(say("undo_forgot_button", language), action))
    for ids, key in ((changes.replaced_by, "undo_button"), (changes.saved, "undo_saved_button")):
        label = say(key, language)
        buttons += [
            Button(f"{label} ({number})" if len(ids) > 1 else label, Action("undo", (memory_id,)))
            for number, memory_id in enumerate(ids, start=1)
        ]
    reminders = [cancel_button(number, language) for number in changes.reminders]
    return [*_numbered(reminders), *buttons][:MAX_UNDO]


def _numbered(buttons: list[Button]) -> list[Button]:
    """The same, told apart by numbers where there are several."""
    if len(buttons) == 1:
        return buttons
    return [replace(one, label=f"{one.label} ({n})") for n, one in enumerate(buttons, start=1)]
