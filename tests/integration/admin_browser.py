"""The admin page of an agent, and browsers that look at it."""

from __future__ import annotations

import re
from functools import partial

import httpx
from argon2 import PasswordHasher
from starlette.applications import Starlette

from src.web.admin_access import AdminAccess

USER = 2**41 + 77
Browser = httpx.AsyncClient
PASSWORD = "correct horse battery"
# Checking a password is to take long, but not here.
access = partial(
    AdminAccess, PASSWORD, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
)


def browser(app: Starlette, cookies: httpx.Cookies | None = None) -> httpx.AsyncClient:
    """Return a browser that looks at the page."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://bot", cookies=cookies)


async def log_in(client: httpx.AsyncClient, password: str = PASSWORD) -> int:
    """Send a password; returns the status, which is 303 if it is the right one."""
    return (await client.post("/login", data={"password": password})).status_code


async def token(inside: httpx.AsyncClient) -> str:
    """Return the token that every form of a session carries."""
    found = re.search(r'name="token" value="(\w+)"', (await inside.get("/")).text)
    assert found is not None
    return found.group(1)


def told(page: str) -> str:
    """Return what is read on a page, without its marks."""
    text = re.sub(r"<[^>]+>", " ", page.partition("<main>")[2])
    return " ".join(text.split())
