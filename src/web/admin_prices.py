"""Admin page of prices: cost of a million tokens of each model."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response

from src.base.errors import SettingsConflictError, SettingsError
from src.pg.client import Record, Transaction
from src.web.admin_form import SEEN, UNSENT, Field, Submission, edits_of, problems_of, send, view
from src.web.admin_site import AdminSite, Fields

KINDS = {"prompt": "Prompt", "cached": "Cached", "completion": "Completion"}
NEW_MODEL = "model"  # field with the name of an added model
# Fields of the row for an added model: its name, and prices whose names lack the model.
BLANK_ROW = {NEW_MODEL, *(f"{prefix}{kind}." for prefix in ("", SEEN) for kind in KINDS)}
PRICE = re.compile(r"(?:[0-9]{1,8}(?:[.,][0-9]{1,6})?)?")  # as in the table; empty: none
NEW_MODEL_FIELD = Field(NEW_MODEL, "Model", "", is_number=False)
MAX_MODEL = 200  # characters, as in the table
WRONG_MODEL = (
    "Write a model without spaces, as the table of usage by model calls it, such as "
    "openai:gpt-5-mini."
)
WRONG_PRICE = "Write a number such as 0.25, with six digits behind the point at most."
INCOMPLETE = "Write all three prices of a model, 0 where it costs nothing, or none of them."

# Prices of some models, or of all.
SELECT_PRICES = """
SELECT model, prompt, cached, completion FROM model_prices
WHERE %(models)s::text[] IS NULL OR model = ANY(%(models)s) ORDER BY model LIMIT 200
"""
# Serialize changes of prices, including those of new models.
LOCK_PRICES = "LOCK TABLE model_prices IN SHARE ROW EXCLUSIVE MODE"
# Store or delete the prices of a model.
UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""
DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"


async def change_prices(site: AdminSite, request: Request, form: Fields) -> Response:
    """Save the edited prices, or remove those of a model; refused input stays in the form."""

    async def change(edits: Fields, seen: Fields) -> Mapping[str, str]:
        work = site.core.client.in_transaction
        return await site.run(work, lambda t: save_prices(t, edits, seen))

    new = form.get(NEW_MODEL, "").strip()
    if _is_model(new):
        form = {_full_name(name, new): value for name, value in form.items() if name != NEW_MODEL}
    elif not form.get("reset") and any(form.get(name, "").strip() for name in BLANK_ROW):
        refused = SettingsError({NEW_MODEL: WRONG_MODEL})
        return await show_prices(site, request, Submission(form, refused=refused))
    sent = await send(form, _build_fields(_models_of(form)), change, _say)
    if sent.changed:
        models = dict.fromkeys(name.partition(".")[2] for name in sent.changed)
        await site.note(request, "change prices", ", ".join(models))
    return await show_prices(site, request, sent)


async def show_prices(site: AdminSite, request: Request, sent: Submission = UNSENT) -> Response:
    """Show all prices with the result of a submission, and a row for ``?model=``."""
    current = _format_prices(await site.rows(SELECT_PRICES, models=None))
    edited = edits_of(sent.form, _build_fields(_models_of(sent.form)))
    new = request.query_params.get("model", "")
    models = _models_of({**current, **edited, f"prompt.{new}": ""})
    problems = problems_of(sent.refused, {**dict.fromkeys(edited, ""), **current}, _say)
    unit = f"{(await site.core.live_settings.get()).currency} per million tokens"
    fields = {NEW_MODEL: NEW_MODEL_FIELD, **_build_fields(["", *models], unit)}
    views = {
        name: view(one, current.get(name, ""), sent, problems) for name, one in fields.items()
    }
    rows = {model: [views[name] for name in _field_names(model)] for model in models}
    rows[""] = [views[NEW_MODEL], *(views[name] for name in _field_names(""))]
    values = {"sent": sent, "problems": problems, "rows": rows, "labels": fields, "say": _say}
    return site.render(request, "prices.html", status=sent.status, **values)


def _full_name(name: str, model: str) -> str:
    """Return the name of a field, with the model in a price of the row for an added one."""
    if name in BLANK_ROW:
        return name + model
    return name


def save_prices(transaction: Transaction, edits: Fields, seen: Fields) -> Mapping[str, str]:
    """Change prices by ``kind.model``; an empty value removes a price.

    Returns:
        All prices of the changed models afterwards.

    Raises:
        SettingsConflictError: A price is not as it was seen; nothing was changed.
        SettingsError: A value is no price, or a model lacks one; nothing was changed.
    """
    malformed = {name: WRONG_PRICE for name, typed in edits.items() if not PRICE.fullmatch(typed)}
    if malformed:
        raise SettingsError(malformed)
    models = _models_of(edits)
    transaction.execute(LOCK_PRICES)
    current = _format_prices(transaction.fetch_records(SELECT_PRICES, models=models))
    conflicts = [name for name, expected in seen.items() if current.get(name, "") != expected]
    if conflicts:
        raise SettingsConflictError(conflicts)
    after = {**current, **{name: _format_price(typed) for name, typed in edits.items()}}
    missing = [
        next(name for name in _field_names(model) if not after.get(name))
        for model in models
        if len({bool(after.get(name)) for name in _field_names(model)}) > 1
    ]
    if missing:
        raise SettingsError(dict.fromkeys(missing, INCOMPLETE))
    for model in models:
        prices = {kind: after.get(f"{kind}.{model}", "") for kind in KINDS}
        if any(prices.values()):
            transaction.execute(UPSERT_PRICE, prices, model=model)
        else:
            transaction.execute(DELETE_PRICE, model=model)
    return after


def _is_model(text: str) -> bool:
    return text.isprintable() and text.split() == [text] and len(text) <= MAX_MODEL


def _field_names(model: str) -> list[str]:
    return [f"{kind}.{model}" for kind in KINDS]


def _models_of(names: Iterable[str]) -> list[str]:
    parts = (name.partition(".") for name in names)
    return list(dict.fromkeys(m for kind, _, m in parts if kind in KINDS and _is_model(m)))


def _build_fields(models: Iterable[str], unit: str = "") -> dict[str, Field]:
    return {
        f"{kind}.{model}": Field(
            f"{kind}.{model}", f"{label} of {model}".removesuffix(" of "), "", unit, group=model
        )
        for model in models
        for kind, label in KINDS.items()
    }


def _format_prices(prices: Iterable[Record]) -> dict[str, str]:
    return {f"{kind}.{row['model']}": _format_price(row[kind]) for row in prices for kind in KINDS}


def _format_price(price: Decimal | str) -> str:
    """Normalize a price, stored or typed, for the form; empty without a price."""
    return str(price) and f"{Decimal(str(price).replace(',', '.')).normalize():f}"


def _say(value: str) -> str:
    return value or "no price"
