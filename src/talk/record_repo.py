"""Repository of the records that buttons act on: the chat and topic to which each belongs."""

from collections.abc import Mapping

from src.base.owners import Owner
from src.pg.client import Repository
from src.texts.reply import Action

# Select the chat and topic of a reminder of this chat, or, in private, of one for which the person
# has asked in a group that could not take it.
SELECT_REMINDER = """
SELECT o.telegram_user_id, r.thread_id FROM reminders r JOIN owners o ON o.id = r.owner_id
WHERE r.id = %(number)s AND (o.telegram_user_id = %(chat)s
                             OR (r.asker_id = %(person)s AND %(person)s = %(chat)s))
"""
# Select the chat and topic of a fact of this chat.
SELECT_FACT = """
SELECT o.telegram_user_id, o.thread_id FROM facts f JOIN owners o ON o.id = f.owner_id
WHERE f.id = %(number)s AND o.telegram_user_id = %(chat)s
"""
# Select the chat and topic of a message of this chat.
SELECT_MESSAGE = """
SELECT c.telegram_user_id, greatest(c.thread_id, 0)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(number)s AND c.telegram_user_id = %(chat)s
"""
# Select the chat and topic in which something was changed.
SELECT_CHANGE = """
SELECT o.telegram_user_id, o.thread_id FROM changes c JOIN owners o ON o.id = c.owner_id
WHERE c.id = %(number)s AND o.telegram_user_id = %(chat)s
"""
# Select the chat and topic of the answer that a message of this chat shows.
SELECT_ANSWER = """
SELECT c.telegram_user_id, c.thread_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %(chat)s AND %(shown_in)s = ANY(m.sent_message_ids)
ORDER BY m.id DESC LIMIT 1
"""
STATEMENTS: Mapping[str, str] = {
    **dict.fromkeys(("later", "done", "norepeat", "unremind"), SELECT_REMINDER),
    **dict.fromkeys(("fact", "pin", "unpin", "correct", "forget", "undo"), SELECT_FACT),
    **dict.fromkeys(("source", "settle"), SELECT_MESSAGE),
}


class RecordRepository(Repository):
    """Finds the records of buttons; its methods block (see ``PgClient.run``)."""

    def find_home(
        self, owner: Owner, person: int | None, action: Action, *, old_message: int | None = None
    ) -> Owner:
        """Return the chat and topic of the record that a button acts on.

        Telegram does not tell the topic of an old message, and a button of a message that came in
        the general topic or in private instead belongs to the topic that was lost. In a private
        chat only an old message belongs to another topic than the one in which it is pressed.

        Args:
            owner: The chat and topic in which the button was pressed, as Telegram tells them.
            person: The one who pressed it.
            action: The button's action.
            old_message: Telegram's number of the message below which it stands, if Telegram does
                not tell the topic.

        Returns:
            That chat and topic, or ``owner`` if there is no such record.
        """
        statement, number = STATEMENTS.get(action.name), action.number(0)
        if action.name == "drop":
            statement, number = SELECT_FACT, action.number(1)
            if action.number(0):
                statement = SELECT_MESSAGE
        if action.name == "undo" and not number:
            statement, number = SELECT_CHANGE, action.number(1)
        if owner.thread_id:
            return owner
        row, chat = None, owner.telegram_user_id
        if old_message is not None:
            row = self._client.fetch_one(SELECT_ANSWER, chat=chat, shown_in=old_message)
        if row is None and statement is not None:
            row = self._client.fetch_one(statement, number=number, chat=chat, person=person)
        if row is None or (row[0] > 0 and old_message is None):
            return owner
        return Owner(*row)
