"""Who may see the admin pages: two passwords, guesses slowed down, signed cookies, form tokens."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from itsdangerous import BadSignature, URLSafeTimedSerializer

from src.web.app_gate import Allowance

SESSION_SECONDS = 12 * 3600
BROWSER_SECONDS = 400 * 86_400  # the longest that browsers keep a cookie
FREE_GUESSES, PAUSE = 3, 20.0  # of one address or browser; seconds for each guess then
FREE_OF_ALL, PAUSE_OF_ALL = 20, 5.0  # of all addresses together
MAX_PASSWORD = 1024  # characters that are looked at


class Role(StrEnum):
    """What somebody inside may do."""

    OPERATOR = "operator"
    """Everything."""
    READER = "reader"
    """See figures and failures, no texts; change nothing."""


@dataclass(frozen=True)
class Session:
    """Somebody who has logged in.

    Attributes:
        role: By the password that they gave.
        id: Random; the same as long as they are inside.
        form_token: What each of their forms carries: another site cannot know it.
    """

    role: Role
    id: str
    form_token: str

    @property
    def name(self) -> str:
        """How the audit calls it."""
        return f"{self.role} {self.id[:6]}"


class TooManyGuessesError(Exception):
    """The guesser has to wait.

    Attributes:
        seconds: For how long.
    """

    def __init__(self, seconds: float) -> None:
        """``seconds`` from now."""
        super().__init__("too many guesses")
        self.seconds = max(1, round(seconds))


class _Door:
    """One role's password. The key of its cookies comes from it: a new one ends every session."""

    def __init__(self, role: Role, password: str, hasher: PasswordHasher) -> None:
        self.role = role
        self._hasher = hasher
        self._hash = hasher.hash(password)
        self.key = hashlib.scrypt(password.encode(), salt=b"pomni admin", n=2**14, r=8, p=1)
        self.sessions = URLSafeTimedSerializer(self.key, salt=f"session of {role}")
        self.browsers = URLSafeTimedSerializer(self.key, salt=f"browser of {role}")

    def opens(self, password: str) -> bool:
        try:
            return self._hasher.verify(self._hash, password)
        except VerifyMismatchError:
            return False


class Access:
    """Checks passwords, and what a browser brings back after that."""

    def __init__(
        self,
        password: str,
        reader_password: str | None = None,
        *,
        hasher: PasswordHasher | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Let operators in with ``password``, and readers with theirs; ``clock`` in seconds."""
        hasher = hasher or PasswordHasher()
        self._doors = {Role.OPERATOR: _Door(Role.OPERATOR, password, hasher)}
        if reader_password is not None:
            self._doors[Role.READER] = _Door(Role.READER, reader_password, hasher)
        self._guesses = Allowance(clock, burst=FREE_GUESSES, per_second=1 / PAUSE)
        self._of_all = Allowance(clock, burst=FREE_OF_ALL, per_second=1 / PAUSE_OF_ALL)
        self._checking = asyncio.Lock()

    async def check(self, password: str, guesser: str, *, is_stranger: bool) -> Role | None:
        """Whose password it is; None: nobody's.

        Args:
            password: As it was typed.
            guesser: An address or a browser, whose guesses are counted together.
            is_stranger: Count the guess with those of all strangers as well; whoever strangers
                cannot guess in the place of is never kept waiting by them.

        Raises:
            TooManyGuessesError: It was not looked at.
        """
        if not self._guesses.take(guesser):
            raise TooManyGuessesError(PAUSE)
        if is_stranger and not self._of_all.take(""):
            raise TooManyGuessesError(PAUSE_OF_ALL)
        async with self._checking:
            role = await asyncio.to_thread(self._find_role, password[:MAX_PASSWORD])
        if role is not None:
            self._guesses.fill(guesser)
        return role

    def new_session(self, role: Role) -> str:
        """The value of a new cookie."""
        return str(self._doors[role].sessions.dumps(secrets.token_hex(16)))

    def read_session(self, cookie: str) -> Session | None:
        """Who brings a cookie; None when it is not ours, or too old."""
        for door in self._doors.values():
            id_ = _read(door.sessions, cookie, SESSION_SECONDS)
            if id_ is not None:
                token = hmac.new(door.key, b"form" + cookie.encode(), hashlib.sha256)
                return Session(door.role, id_, token.hexdigest())
        return None

    def new_browser(self, role: Role) -> str:
        """The value of a cookie by which a browser is known in which somebody was inside."""
        return str(self._doors[role].browsers.dumps(secrets.token_hex(16)))

    def read_browser(self, cookie: str) -> str | None:
        """The name of a browser that is known by its cookie."""
        names = (_read(door.browsers, cookie, BROWSER_SECONDS) for door in self._doors.values())
        return next((name for name in names if name is not None), None)

    def _find_role(self, password: str) -> Role | None:
        return next((role for role, door in self._doors.items() if door.opens(password)), None)


def _read(signer: URLSafeTimedSerializer, cookie: str, max_age: int) -> str | None:
    try:
        return str(signer.loads(cookie, max_age=max_age))
    except BadSignature:
        return None
