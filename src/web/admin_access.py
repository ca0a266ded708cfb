"""Access to the admin pages: two passwords, rate-limited guesses, signed cookies, form tokens."""

import asyncio
import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, IPv6Network, ip_address

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from itsdangerous import BadSignature, URLSafeTimedSerializer

from src.web.app_gate import Allowance

SESSION_SECONDS = 12 * 3600
BROWSER_SECONDS = 400 * 86_400  # the longest that browsers keep a cookie
FREE_GUESSES, PAUSE = 3, 20.0  # wrong ones per address or browser; then seconds per guess
STRANGER_GUESSES, STRANGER_PAUSE = 20, 5.0  # of all strangers together
MAX_PASSWORD = 1024  # characters; the rest of a longer one is ignored


class Role(StrEnum):
    """Permissions of a session.

    Attributes:
        OPERATOR: Everything.
        READER: Sees figures and failures, but no texts; changes nothing.
    """

    OPERATOR = "operator"
    READER = "reader"


@dataclass(frozen=True)
class AdminSession:
    """Session of a browser that has logged in.

    Attributes:
        role: Role of the password that was given.
        id: Random; constant for the life of the session.
        form_token: Token in each of the session's forms; another site cannot know it.
    """

    role: Role
    id: str
    form_token: str

    @property
    def name(self) -> str:
        """Name of the session in the audit."""
        return f"{self.role} {self.id[:6]}"


class TooManyGuessesError(Exception):
    """The password was not checked: the guesser has to wait.

    Attributes:
        seconds: Time to wait.
    """

    def __init__(self, seconds: float) -> None:
        """Refuse guesses for ``seconds`` from now."""
        super().__init__("too many guesses")
        self.seconds = max(1, round(seconds))


class _RoleKeys:
    """Password of one role, and its cookie key derived from it: a new one ends all sessions."""

    def __init__(self, role: Role, password: str, hasher: PasswordHasher) -> None:
        self._hasher = hasher
        self._hash = hasher.hash(password)
        self.key = hashlib.scrypt(password.encode(), salt=b"pomni admin", n=2**14, r=8, p=1)
        self.sessions = URLSafeTimedSerializer(self.key, salt=f"session of {role}")
        self.browsers = URLSafeTimedSerializer(self.key, salt=f"browser of {role}")

    def matches(self, password: str) -> bool:
        try:
            return self._hasher.verify(self._hash, password)
        except VerifyMismatchError:
            return False


class AdminAccess:
    """Checks passwords; signs and verifies cookies."""

    def __init__(
        self,
        password: str,
        reader_password: str | None = None,
        *,
        hasher: PasswordHasher | None = None,
    ) -> None:
        """Set the password of operators and, if any, of readers."""
        hasher = hasher or PasswordHasher()
        self._keys = {Role.OPERATOR: _RoleKeys(Role.OPERATOR, password, hasher)}
        if reader_password is not None:
            self._keys[Role.READER] = _RoleKeys(Role.READER, reader_password, hasher)
        self._guesses = Allowance(FREE_GUESSES, 1 / PAUSE)
        self._strangers = Allowance(STRANGER_GUESSES, 1 / STRANGER_PAUSE)
        self._hashing = asyncio.Lock()

    async def check(self, password: str, guesser: str, *, is_stranger: bool) -> Role | None:
        """Return the role of a password, None for a wrong one.

        Args:
            password: The password as typed.
            guesser: The address or browser whose guesses are counted together.
            is_stranger: Count a wrong guess towards the common limit of all strangers as well. A
                guesser whom strangers cannot impersonate never waits because of them.

        Raises:
            TooManyGuessesError: The password was not checked.
        """
        async with self._hashing:
            if not self._guesses.has(guesser):
                raise TooManyGuessesError(PAUSE)
            if is_stranger and not self._strangers.has(""):
                raise TooManyGuessesError(STRANGER_PAUSE)
            text = password[:MAX_PASSWORD]
            right = (role for role, keys in self._keys.items() if keys.matches(text))
            role = await asyncio.to_thread(next, right, None)
            if role is None:
                await self._guesses.take(guesser)
            if role is None and is_stranger:
                await self._strangers.take("")
        return role

    def identify(self, cookie: str, address: str, *, is_forwarded: bool) -> tuple[str, bool]:
        """Return who guesses, and True if strangers could guess under the same name.

        They cannot in a browser that has logged in before, nor over the loopback, unless a proxy
        there forwards them. Others are counted by an IPv4 address, or an IPv6 /64 network.
        """
        browser = self.read_browser(cookie)
        if browser is not None:
            return browser, False
        network = address[:100]
        with suppress(ValueError):
            ip = ip_address(address)
            network = str(ip)
            if isinstance(ip, IPv6Address):
                network = str(ip.ipv4_mapped or IPv6Network((int(ip), 64), strict=False))
        if is_forwarded:
            return f"{network}, by proxy", True
        return network, network not in ("127.0.0.1", "::/64")

    def new_session(self, role: Role) -> str:
        """Return the cookie of a new session."""
        return str(self._keys[role].sessions.dumps(secrets.token_hex(16)))

    def read_session(self, cookie: str) -> AdminSession | None:
        """Return the session of a cookie; None if it is not ours, or expired."""
        for role, keys in self._keys.items():
            id_ = _unsign(keys.sessions, cookie, SESSION_SECONDS)
            if id_ is not None:
                token = hmac.new(keys.key, b"form" + cookie.encode(), hashlib.sha256)
                return AdminSession(role, id_, token.hexdigest())
        return None

    def new_browser(self, role: Role) -> str:
        """Return a cookie that identifies a browser after its first login."""
        return str(self._keys[role].browsers.dumps(secrets.token_hex(16)))

    def read_browser(self, cookie: str) -> str | None:
        """Return the id of a browser that has logged in before; None: not ours."""
        ids = (_unsign(keys.browsers, cookie, BROWSER_SECONDS) for keys in self._keys.values())
        return next((id_ for id_ in ids if id_ is not None), None)


def _unsign(signer: URLSafeTimedSerializer, cookie: str, max_age: int) -> str | None:
    try:
        return str(signer.loads(cookie, max_age=max_age))
    except BadSignature:
        return None
