"""Checks of ``doctor``: calls of the language model and of the embeddings, and their failures."""

import html
import re
import time
import uuid
from collections.abc import Sequence
from difflib import get_close_matches

import httpx
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import Field

from src.base.config import LOCAL_EMBEDDINGS, OFFLINE_MODEL, Settings
from src.base.errors import AppError
from src.base.logs import redact_text
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS, Provider
from src.llm import chat, embeddings, quoting, reply
from src.llm.errors import read_report
from src.operate.checks import CheckResult

MAX_SAID = 200  # characters of the server's own sentence
MAX_MODELS = 5  # names of models that a remedy lists
PROBE_SECONDS = 5.0
TAGS = re.compile(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>")
# Endings that may be missing in the address of a server with OpenAI's protocol.
PATHS = ("/v1", "/api/v1", "/openai/v1")
NO_TOOLS = (
    "choose a model with tool calls, and let the server pass them on (llama-server --jinja; "
    "vllm --enable-auto-tool-choice); without them it remembers little"
)


async def check_model(settings: Settings) -> CheckResult:
    """Call the language model once, with a tool."""
    name = settings.chat_model_name
    if name == OFFLINE_MODEL:
        return CheckResult("model", "offline: remembers and quotes, no language model")
    first, silence = settings.first_token_timeout(name), settings.llm_timeout
    spent: list[reply.ModelUsage] = []
    try:
        model = chat.build_provider_model(settings, name)
        caller = chat.ModelCaller(model, name, timeout=silence, first_timeout=first)
        message = await caller.stream(
            caller.with_tools([note_words]),
            [HumanMessage(f"{uuid.uuid4()} {PROMPT_TEXT}\n{PROMPT_TASK}")],  # unique: not cached
            purpose="doctor",
            on_text=lambda _text: None,
            on_usage=spent.append,
        )
    except AppError as error:
        return await _describe_failure(settings, "model", "LLM_MODEL", name, error)
    speed = _format_speed(spent[0])
    if message.tool_calls:
        return CheckResult("model", f"{name}, {speed}, calls tools")
    way, mend = await _try_form(settings, name, caller)
    return CheckResult("model", f"{name}, {speed}, {way}", mend)


# Some 500 prompt and 50 completion tokens: enough to measure, and within a minute everywhere.
PROMPT_TEXT = " ".join(f"{number} times {number} is {number**2}." for number in range(12, 72))
PROMPT_TASK = "Note, with your tool, the English words for the numbers from one to twenty."


@tool
def note_words(words: str) -> str:
    """Take a note of words."""
    return words


class NumbersForm(quoting.Form):
    """Form by which a model is tried."""

    words: list[str] = Field(default_factory=list)


FORM_TASK = (
    "Fill in the form as JSON: words are the English words for the numbers from one to five."
)


async def _try_form(
    settings: Settings, name: str, caller: chat.ModelCaller
) -> tuple[str, str | None]:
    """Return how a model works that has called no tool, and the remedy if there is one."""
    if not PROVIDERS[name.partition(":")[0]].has_openai_client:
        return "does not call tools", NO_TOOLS
    try:
        form = await caller.form(
            [HumanMessage(FORM_TASK)], NumbersForm, purpose="doctor", on_usage=lambda _usage: None
        )
    except AppError:
        form = NumbersForm()
    if not form.words:
        return "neither calls tools nor fills in forms", NO_TOOLS
    is_tried = settings.llm_calls == "auto" and settings.is_own_server(name)
    if is_tried or settings.llm_calls == "form":
        return "does not call tools, but fills in forms, which are used instead", None
    return "does not call tools, but fills in forms", "set LLM_CALLS=form"


def _format_speed(spent: reply.ModelUsage) -> str:
    text = f"answered in {spent.duration_ms / 1000:.1f} s"
    uncached, completed = spent.uncached_tokens, spent.completion_tokens or 0
    writing_ms = spent.duration_ms - spent.first_ms
    if not uncached or not completed:
        return text
    reading_speed = f"{uncached / max(1, spent.first_ms) * 1000:.0f} tokens a second read"
    return f"{text}: {reading_speed}, {completed / max(1, writing_ms) * 1000:.0f} written"


async def check_embeddings(settings: Settings) -> CheckResult:
    """Embed a question."""
    embedder = embeddings.build_embedder(settings, settings.embedding_model, Metrics())
    try:
        await embedder.embed_query("warm-up")
        start = time.perf_counter()
        vector = await embedder.embed_query("Where do I live?")
    except AppError as error:
        name = embedder.name
        if name == LOCAL_EMBEDDINGS:
            mend = "look at this machine's memory; make run installs the packages again"
            return CheckResult("embeddings", f"{name}: {error}", mend)
        return await _describe_failure(settings, "embeddings", "EMBEDDING_MODEL", name, error)
    finally:
        await embedder.close()
    milliseconds = 1000 * (time.perf_counter() - start)
    return CheckResult(
        "embeddings", f"{embedder.name}, {len(vector)} dimensions, {milliseconds:.0f} ms a query"
    )


async def _describe_failure(
    settings: Settings, subject: str, variable: str, name: str, error: AppError
) -> CheckResult:
    """Name the failure, quote the server's own sentence, and look for what would work."""
    prefix, _, model = name.partition(":")
    provider, report = PROVIDERS[prefix], read_report(error)
    mend = report.failure.mend.format(
        model=model, variable=variable, key=provider.key_variable, url=provider.base_url_variable
    )
    said = html.unescape(TAGS.sub(" ", report.said))
    said = redact_text(" ".join(reply.sanitize(said).split()), settings.secrets())
    state = f"{name}: {error}"
    if said:
        state += f": “{said[:MAX_SAID]}”"
    if report.failure.name in ("address", "model", "pull") and provider.has_openai_client:
        mend += await _find_better(settings, provider, model)
    return CheckResult(subject, state, redact_text(mend, settings.secrets()))


async def _find_better(settings: Settings, provider: Provider, model: str) -> str:
    """Return the address that lists models, or the models that the address lists."""
    base, headers = provider.base_url(settings), {}
    if base is None:
        return ""
    if provider.key(settings):
        headers["Authorization"] = f"Bearer {provider.secret(settings).get_secret_value()}"
    root = re.sub(r"/(v1|chat/completions|embeddings|models)(?=/|$).*", "", base)
    async with httpx.AsyncClient(
        headers=headers, timeout=PROBE_SECONDS, proxy=provider.proxy(settings)
    ) as client:
        for address in dict.fromkeys([base, *(root + path for path in PATHS)]):
            models = await _list_models(client, address)
            if models and address != base:
                return f". Write {provider.base_url_variable}={address}: it answers"
            if models:
                nearest = get_close_matches(model, models, MAX_MODELS) or models
                return f". It has {', '.join(nearest[:MAX_MODELS])}"
    return ""


async def _list_models(client: httpx.AsyncClient, address: str) -> Sequence[str]:
    try:
        response = await client.get(f"{address}/models")
        return [str(entry["id"]) for entry in response.json()["data"]]
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return []
