"""The one tree of errors.

An ``AppError`` carries two things: a message for the operator (it never holds what a
user wrote, a token or a key) and the key of the sentence that the user is shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal


class AppError(Exception):
    """Base of every error that Pomni raises on purpose.

    Attributes:
        text_key: Key in ``src/texts`` of the sentence for the user.
        retry_after: Seconds to wait before trying again, when the other side named them.
    """

    text_key = "error_internal"
    retry_after: float | None = None


class ConfigError(AppError):
    """Settings are missing or malformed.

    Attributes:
        problems: One line per variable: its name, what is wrong, how to mend it.
    """

    def __init__(self, problems: list[str]) -> None:
        """Keep every problem, so that the operator mends all of them at once."""
        super().__init__("\n".join(problems))
        self.problems = problems


class SchemaRefusedError(ConfigError):
    """The database cannot be brought to our schema; nothing was changed.

    Attributes:
        state: What it is instead, as a sentence without its full stop.
        mend: What to do, in the same form.
    """

    def __init__(self, state: str, mend: str) -> None:
        """Say both in one line."""
        super().__init__([f"{state}; nothing was changed: {mend}"])
        self.state = state
        self.mend = mend


class SettingsError(AppError):
    """What an operator wants to set is not within its bounds.

    Attributes:
        problems: What is wrong, by the setting's name; by an empty one when it is several.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        """Say what is wrong."""
        super().__init__("; ".join(f"{name}: {text}" for name, text in problems.items()))
        self.problems = problems


class SettingsConflictError(SettingsError):
    """What an operator wants to change has another value than they saw; nothing was changed."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names`` of the settings that changed meanwhile."""
        super().__init__(dict.fromkeys(names, "it was changed meanwhile"))


class BackupError(AppError):
    """A backup was not made, or not restored; nothing was changed."""


class TransientError(AppError):
    """Something that may well work in a moment: the job is retried with a back-off."""

    text_key = "error_busy"


class PostponedError(TransientError):
    """The work waits on purpose: until a chat is quiet, or its owner may cost more."""

    def __init__(self, message: str, *, seconds: float) -> None:
        """``seconds`` is how long it waits."""
        super().__init__(message)
        self.retry_after = seconds


class StorageError(TransientError):
    """PostgreSQL did not answer, or refused a statement.

    Attributes:
        is_refusal: Whether it answered, so that trying for ever would not help.
    """

    is_refusal = False


class StorageUnavailableError(StorageError):
    """No connection to PostgreSQL, or it broke while a statement ran."""


class StorageTimeoutError(StorageUnavailableError):
    """PostgreSQL answered, but gave a statement up that took too long or waited for a lock."""


class StorageFullError(StorageUnavailableError):
    """PostgreSQL can write nothing: its disk is full."""


class StorageRejectedError(StorageError):
    """PostgreSQL refused a statement: a defect of ours or a broken constraint.

    Attributes:
        sqlstate: PostgreSQL's five-letter code, such as ``23503``.
    """

    is_refusal = True

    def __init__(self, message: str, sqlstate: str | None) -> None:
        """Keep the code; the driver's own text may quote a user's row."""
        super().__init__(message)
        self.sqlstate = sqlstate


class ConversationGoneError(AppError):
    """The conversation was wiped (/new) while its turn was running."""


class PutAsideError(AppError):
    """Handling an update killed its process again and again: it is not tried any more."""

    text_key = "error_put_aside"


class QuestionMovedError(ConversationGoneError, TransientError):
    """The message lost its place while it was answered: it is to be answered anew.

    Its group became a supergroup, or a user there was erased, whose words the turn has read.
    """


class ModelError(AppError):
    """The language model gave no answer, and asking again would not help."""

    text_key = "error_model"


class ModelSetupError(ModelError):
    """The provider refuses us whatever we ask: a wrong key, no such model, a used-up quota."""

    text_key = "error_model_setup"


class PoisonTextError(ModelError):
    """The local embedding engine dies of this text: it never gets a vector."""


class ModelUnavailableError(TransientError):
    """The language model timed out, is overloaded, or could not be reached."""


class BadVectorsError(ModelUnavailableError):
    """The embeddings endpoint answered, but not with a vector for each text."""


class ModelReplyError(ModelUnavailableError):
    """The language model answered with something that is no reply, or broke off in the middle.

    A turn asks again, as after every outage. What works in the background does so a few times
    only: the same question may bring the same nonsense for ever.
    """


class DeliveryError(TransientError):
    """Telegram did not take a message; it did not reach the user."""


class DeliveryUnknownError(DeliveryError):
    """The request left, no answer came: the message may or may not have arrived."""


class DeliveryNonsenseError(DeliveryUnknownError):
    """The answer to a request is not the Bot API's; it is tried twice more."""


class DeliveryRefusedError(TransientError):
    """Telegram refused a message, also as plain text, for a reason that we do not know.

    It is tried once more later: what refuses today without a reason may take it in a moment.
    """

    text_key = "error_internal"


class ChatUnavailableError(AppError):
    """The user blocked the bot, or the chat is gone: nothing can be sent there."""


DocumentProblem = Literal[
    "broken", "kind", "protected", "too_full", "too_large", "too_slow", "without_text"
]


class DocumentError(AppError):
    """The text of a file that a user sent cannot be had; the user is told what to do instead.

    Attributes:
        problem: ``broken``: it is not whole, or not what it claims to be; ``kind``: its kind is
            not read; ``protected``: it opens only with a password; ``too_full``: it unpacks to
            more than there is room for, as a zip bomb does; ``too_large``: Telegram lets no bot
            download so much; ``too_slow``: reading it took too long; ``without_text``: it is
            empty, or its pages are pictures.
    """

    def __init__(self, problem: DocumentProblem, message: str) -> None:
        """``message`` is the operator's."""
        super().__init__(message)
        self.problem = problem
        self.text_key = f"error_document_{problem}"


class ToolServerError(AppError):
    """A server of others (MCP) cannot be used, or a call of its tool did not work.

    Its message is ours and holds no word of the server: the model and the log are shown it.
    """


class ToolCallError(ToolServerError):
    """A call of such a tool did not work.

    Attributes:
        result: How it ended, in a word for metrics: ``timeout``, ``away`` or ``error``.
    """

    def __init__(self, result: str, problem: str) -> None:
        """``problem`` says what the server did."""
        super().__init__(f"the outside server {problem}")
        self.result = result


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, what caused that."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
