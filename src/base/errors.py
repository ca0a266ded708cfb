"""The exception hierarchy.

An ``AppError`` carries a message for the operator (never user text, a token or a key) and the key
of the sentence shown to the user.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal


class AppError(Exception):
    """Base of every error that Pomni raises on purpose.

    Attributes:
        text_key: Key in ``src/texts`` of the sentence for the user.
        retry_after: Seconds to wait before a retry, if the other side named them.
    """

    text_key = "error_internal"
    retry_after: float | None = None


class ConfigError(AppError):
    """Settings are missing or malformed.

    Attributes:
        problems: One line for each variable: its name, the problem, the remedy.
    """

    def __init__(self, problems: list[str]) -> None:
        """Keep all problems, so that the operator can fix them at once."""
        super().__init__("\n".join(problems))
        self.problems = problems


class SchemaRefusedError(ConfigError):
    """The database cannot be migrated to our schema; nothing was changed.

    Attributes:
        state: State of the database, as a sentence without its full stop.
        mend: Remedy, in the same form.
    """

    def __init__(self, state: str, mend: str) -> None:
        """Join both into one problem."""
        super().__init__([f"{state}; nothing was changed: {mend}"])
        self.state = state
        self.mend = mend


class SettingsError(AppError):
    """A value that an operator submitted is out of bounds.

    Attributes:
        problems: Problems by name of the setting; under the empty name if several are involved.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        """Join the problems into the message."""
        super().__init__("; ".join(f"{name}: {text}" for name, text in problems.items()))
        self.problems = problems


class SettingsConflictError(SettingsError):
    """Settings changed after the operator had read them; nothing was changed."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names`` are the settings that changed in the meantime."""
        super().__init__(dict.fromkeys(names, "it was changed meanwhile"))


class NoDatabaseError(AppError):
    """There is no database, and the command creates none.

    Attributes:
        place: The folder or server where it was looked for.
    """

    def __init__(self, place: str) -> None:
        """Name the place, the commands that create a database, and the settings."""
        super().__init__(
            f"there is no database of Pomni's in {place}: run, console, worker and migrate create "
            "one. If it should be there, look at DATA_DIR, DATABASE_URL and PG_*"
        )
        self.place = place


class BackupError(AppError):
    """A backup or its restoration failed; nothing was changed."""


class TransientError(AppError):
    """A failure that may pass: the job is retried with back-off."""

    text_key = "error_busy"


class PostponedError(TransientError):
    """Work deferred on purpose: until a chat is quiet, or until its owner has budget again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        """``seconds`` is the delay."""
        super().__init__(message)
        self.retry_after = seconds


class StorageError(TransientError):
    """PostgreSQL did not answer, or refused a statement.

    Attributes:
        is_refusal: True if it answered, so that retrying forever is pointless.
    """

    is_refusal = False


class StorageUnavailableError(StorageError):
    """No connection to PostgreSQL, or it broke during a statement."""


class StorageTimeoutError(StorageUnavailableError):
    """PostgreSQL cancelled a statement that ran too long or waited for a lock."""


class StorageFullError(StorageUnavailableError):
    """PostgreSQL cannot write: its disk is full."""


class StorageRejectedError(StorageError):
    """PostgreSQL refused a statement: a defect of ours, or a violated constraint.

    Attributes:
        sqlstate: PostgreSQL's five-letter code, such as ``23503``.
    """

    is_refusal = True

    def __init__(self, message: str, sqlstate: str | None) -> None:
        """Keep the code only: the driver's message may quote a user's row."""
        super().__init__(message)
        self.sqlstate = sqlstate


class ConversationGoneError(AppError):
    """The conversation was wiped (/new) during its turn."""


class PutAsideError(AppError):
    """Handling an update killed its process repeatedly: the update is put aside."""

    text_key = "error_put_aside"


class MessageMovedError(ConversationGoneError, TransientError):
    """The message was moved while it was being answered: the turn must be repeated.

    Its group became a supergroup, or the data of a user there was erased, whose messages the turn
    had read.
    """


class ModelError(AppError):
    """The language model gave no answer, and a retry would not help."""

    text_key = "error_model"


class ModelRefusedError(ModelError):
    """The model refuses this request, though not every one."""


class ModelFilteredError(ModelRefusedError):
    """The provider's filter refuses the prompt: a message in it trips it."""

    text_key = "error_filtered"


class ModelSetupError(ModelError):
    """The provider refuses every request: a wrong key, an unknown model, an exhausted quota."""

    text_key = "error_model_setup"


class PoisonTextError(ModelError):
    """The local embedding engine crashes on this text, so it never gets a vector."""


class ModelUnavailableError(TransientError):
    """The language model timed out, is overloaded, or is unreachable."""


class BadVectorsError(ModelUnavailableError):
    """The embeddings endpoint answered without a valid vector for each text."""


class ModelReplyError(ModelUnavailableError):
    """The language model's answer is malformed, or broke off.

    A turn retries, as after every outage. Background work retries a few times only: the same
    request may yield the same malformed answer forever.
    """


class DeliveryError(TransientError):
    """Telegram did not accept a message; it did not reach the user."""


class DeliveryUnknownError(DeliveryError):
    """The request was sent, but got no answer: the message may or may not have arrived."""


class DeliveryNonsenseError(DeliveryUnknownError):
    """The answer to a request is not the Bot API's; the request is retried once."""


class DeliveryRefusedError(TransientError):
    """Telegram refused a message, also as plain text, for an unknown reason.

    It is retried once later: an unexplained refusal may be temporary.
    """

    text_key = "error_internal"


class ChatUnavailableError(AppError):
    """The user blocked the bot, or the chat is gone: nothing can be sent there."""


class PlaceLostError(AppError):
    """Nothing can be sent to this topic, or for now to this chat; other places are not concerned.

    Attributes:
        scope: ``topic`` or ``chat``.
        reason: Key of the words that say why a message comes elsewhere.
    """

    def __init__(self, scope: str, reason: str) -> None:
        """Name the place only: Telegram's description may quote a user."""
        super().__init__(f"this {scope} takes no messages ({reason})")
        self.scope = scope
        self.reason = reason


DocumentProblem = Literal[
    "broken", "kind", "protected", "too_full", "too_large", "too_slow", "without_text"
]


class DocumentError(AppError):
    """The text of a file cannot be extracted; the user is told what to do instead.

    Attributes:
        problem: ``broken``: damaged, or not what it claims to be; ``kind``: an unsupported format;
            ``protected``: it needs a password; ``too_full``: it unpacks to more than there is
            memory for, like a zip bomb; ``too_large``: over Telegram's download limit for bots;
            ``too_slow``: reading it timed out; ``without_text``: empty, or its pages are images.
    """

    def __init__(self, problem: DocumentProblem, message: str) -> None:
        """``message`` is for the operator."""
        super().__init__(message)
        self.problem = problem
        self.text_key = f"error_document_{problem}"


class ToolServerError(AppError):
    """An MCP server cannot be used, or a call of its tool failed.

    The message is shown to the model and logged, so it contains no text of the server.
    """


class ToolCallError(ToolServerError):
    """A call of an MCP tool failed.

    Attributes:
        result: Label for metrics: ``timeout`` or ``away``.
    """

    def __init__(self, result: str, problem: str = "is away now") -> None:
        """``problem`` continues the sentence "the outside server …"."""
        super().__init__(f"the outside server {problem}")
        self.result = result


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, then its chain of causes."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def describe_outage(error: BaseException) -> str:
    """Return why a server could not be reached: the system's words, or the first cause's type."""
    *_, first = causes(error)
    if isinstance(first, OSError) and first.strerror:
        return first.strerror
    return type(first).__name__
