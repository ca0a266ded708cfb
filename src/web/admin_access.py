"""Who may see the admin page: one password, guesses slowed down, a signed cookie, a form token."""

import asyncio
import hashlib
import hmac
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from itsdangerous import BadSignature, URLSafeTimedSerializer

from src.web.app_gate import Allowance

SESSION_SECONDS = 12 * 3600
COOKIE = "pomni_admin"
FREE_GUESSES = 3  # of an address, before it has to wait
PAUSE = 20.0  # seconds for each guess then; all operators behind one proxy have one address
MAX_WAITING = 4  # guesses that wait for their turn to be checked; checking one takes 30 ms
MAX_PASSWORD = 1024  # characters that are looked at


class TooManyGuessesError(Exception):
    """The address, or everybody, has to wait.

    Attributes:
        seconds: For how long.
    """

    def __init__(self, seconds: float) -> None:
        """``seconds`` from now."""
        super().__init__("too many guesses")
        self.seconds = max(1, round(seconds))


class Access:
    """Checks the password, and what a browser brings back after that."""

    def __init__(self, password: str) -> None:
        """The key of the cookies comes from the password: a new one ends every session."""
        self._hasher = PasswordHasher()
        self._hash = self._hasher.hash(password)
        key = hashlib.scrypt(password.encode(), salt=b"pomni admin", n=2**14, r=8, p=1)
        self._signer = URLSafeTimedSerializer(key, salt="session")
        self._key = key
        self._guesses = Allowance(burst=FREE_GUESSES, per_second=1 / PAUSE)
        self._checking = asyncio.Lock()
        self._waiting = 0

    async def check(self, password: str, address: str) -> bool:
        """Whether it is the password.

        Raises:
            TooManyGuessesError: It was not looked at.
        """
        if self._waiting >= MAX_WAITING:
            raise TooManyGuessesError(1)
        if not self._guesses.take(address):
            raise TooManyGuessesError(PAUSE)
        self._waiting += 1
        try:
            async with self._checking:
                is_right = await asyncio.to_thread(self._verify, password[:MAX_PASSWORD])
        finally:
            self._waiting -= 1
        if is_right:
            self._guesses.fill(address)
        return is_right

    def new_session(self) -> str:
        """The value of a new cookie."""
        return str(self._signer.dumps(secrets.token_urlsafe(16)))

    def is_session(self, cookie: str | None) -> bool:
        """Whether a cookie is one of ours, and not too old."""
        try:
            self._signer.loads(cookie or "", max_age=SESSION_SECONDS)
        except BadSignature:
            return False
        return True

    def form_token(self, cookie: str) -> str:
        """What each form of a session carries: another site cannot know it."""
        return hmac.new(self._key, b"form" + cookie.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, cookie: str, token: str) -> bool:
        """Whether a form was ours."""
        return hmac.compare_digest(self.form_token(cookie).encode(), token.encode())

    def _verify(self, password: str) -> bool:
        try:
            return self._hasher.verify(self._hash, password)
        except VerifyMismatchError:
            return False
