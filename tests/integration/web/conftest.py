"""Browsers of the admin page: one outside, one of an operator who has logged in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from src.web.admin_pages import build_admin_app
from tests.integration.admin_browser import access, browser, log_in
from tests.integration.person import Rig


@pytest.fixture
async def http(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has not logged in."""
    async with browser(build_admin_app(rig.core, access())) as client:
        yield client


@pytest.fixture
async def inside(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser of an operator who has logged in."""
    assert await log_in(http) == 303
    return http
