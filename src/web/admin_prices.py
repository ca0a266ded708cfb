"""Admin page of prices: cost of a million tokens of each model, a form for each."""

import re
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response

from src.web.admin_site import AdminSite, Fields

KINDS = {"prompt": "Prompt", "cached": "Cached", "completion": "Completion"}
PRICE = re.compile(r"[0-9]{1,8}(?:\.[0-9]{1,6})?")  # as in the table
MAX_MODEL = 200  # characters, as in the table
NO_PRICES = dict.fromkeys(KINDS, "")
WRONG_MODEL = (
    "Write a model without spaces, as the table of usage by model calls it, such as "
    "openai:gpt-5-mini."
)
WRONG_PRICE = "Write numbers such as 0.25, with six digits behind the point at most."
INCOMPLETE = "Write all three prices of a model, 0 where it costs nothing, or none of them."

# Prices of all models.
SELECT_PRICES = """
SELECT model, prompt, cached, completion FROM model_prices ORDER BY model LIMIT 200
"""
# Store or delete the prices of a model.
UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""
DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"


async def change_prices(site: AdminSite, request: Request, form: Fields) -> Response:
    """Save the prices of a model, or remove them; refused input stays in the form."""
    model, typed = form.get("model", "").strip(), NO_PRICES
    if "reset" not in form:
        typed = {kind: form.get(kind, "").strip().replace(",", ".") for kind in KINDS}
    problem = _find_problem(model, typed)
    if problem:
        return await show_prices(site, request, model=model, typed=typed, problem=problem)
    statement = DELETE_PRICE
    if any(typed.values()):
        statement = UPSERT_PRICE
    await site.rows(statement, typed, model=model)
    await site.note(request, "change prices", model)
    return await show_prices(site, request, done=f"Saved: {model}.")


async def show_prices(
    site: AdminSite,
    request: Request,
    *,
    model: str = "",
    typed: Fields = NO_PRICES,
    problem: str = "",
    done: str = "",
) -> Response:
    """Show all prices with the result of a form, and a row for ``?model=``."""
    rows: dict[str, Fields] = {}
    for row in await site.rows(SELECT_PRICES):
        rows[row["model"]] = {kind: _format_price(row[kind]) for kind in KINDS}
    model = model or request.query_params.get("model", "")
    if problem or (model not in rows and _is_model(model)):
        rows[model if _is_model(model) else ""] = typed
    rows[""] = rows.pop("", NO_PRICES)
    status, currency = 200, (await site.core.live_settings.get()).currency
    if problem:
        status = 422
    values = {"rows": rows, "kinds": KINDS, "currency": currency, "typed_model": model}
    return site.render(request, "prices.html", status=status, problem=problem, done=done, **values)


def _find_problem(model: str, typed: Fields) -> str:
    if not _is_model(model):
        return WRONG_MODEL
    prices = [price for price in typed.values() if price]
    if not all(map(PRICE.fullmatch, prices)):
        return WRONG_PRICE
    return INCOMPLETE if 0 < len(prices) < len(KINDS) else ""


def _is_model(text: str) -> bool:
    return text.isprintable() and text.split() == [text] and len(text) <= MAX_MODEL


def _format_price(price: Decimal) -> str:
    return f"{price.normalize():f}"
