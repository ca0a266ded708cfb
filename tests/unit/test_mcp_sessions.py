"""Why a session with a server of tools ended: in words of ours."""

from __future__ import annotations

import anyio
import httpx
import pytest
from mcp import McpError, types

from src.base.errors import ToolServerError
from src.outside.sessions import describe

REQUEST = httpx.Request("POST", "http://h/secret")


def refusal(code: int) -> McpError:
    return McpError(types.ErrorData(code=code, message="secret"))


@pytest.mark.parametrize(("error", "said"), [
    (TimeoutError("secret"), "it does not answer"),
    (FileNotFoundError("secret"), "its process cannot be started (FileNotFoundError)"),
    (httpx.ConnectError("secret"), "nobody listens at its address"),
    (httpx.HTTPStatusError("secret", request=REQUEST, response=httpx.Response(503)),
     "it answers with HTTP 503"),
    (refusal(-32603), "it refuses the session"), (refusal(types.CONNECTION_CLOSED), "it ended"),
    (anyio.BrokenResourceError(), "it ended"), (ToolServerError("ours"), "ours"),
    (ExceptionGroup("secret", [ExceptionGroup("secret", [anyio.EndOfStream()])]), "it ended"),
    (ValueError("secret"), "it cannot be used (ValueError)"),
])  # fmt: skip
def test_the_end_of_a_session_is_told_without_a_word_of_the_server(
    error: Exception, said: str
) -> None:
    assert describe(error) == said
