"""The admin page about prices: what a million tokens of each model cost."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.errors import SettingsConflictError, SettingsError
from src.pg.client import Record, Transaction
from src.web.admin_form import SEEN, UNSENT, Field, Sent, edits_of, problems_of, send, view
from src.web.admin_site import Fields, Pages

KINDS = {"prompt": "Prompt", "cached": "Cached", "completion": "Completion"}
NEW = "model"  # the field for the name of one more model; the fields of its prices name no model
BLANK = {f"{prefix}{kind}." for prefix in ("", SEEN) for kind in KINDS}
PRICE = re.compile(r"(?:[0-9]{1,8}(?:[.,][0-9]{1,6})?)?")  # as the table keeps it; empty: none
ONE_MORE = Field(NEW, "Model", "", is_number=False)
MAX_MODEL = 200  # characters, as in the table
WRONG_MODEL = (
    "Write a model without spaces, as the table of usage by model calls it, such as "
    "openai:gpt-5-mini."
)
WRONG_PRICE = "Write a number such as 0.25, with six digits behind the point at most."
HALF = "Write all three prices of a model, 0 where it costs nothing, or none of them."

# Those of some models, or of all.
SELECT_PRICES = """
SELECT model, prompt, cached, completion FROM model_prices
WHERE %(models)s::text[] IS NULL OR model = ANY(%(models)s) ORDER BY model LIMIT 200
"""
# Two operators change prices one after the other, also those that are not there yet.
LOCK_PRICES = "LOCK TABLE model_prices IN SHARE ROW EXCLUSIVE MODE"
UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""
DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"


class PricesPage(Pages):
    """The prices that the figures of usage rest on."""

    def routes(self) -> list[Route]:
        """Its addresses."""
        return [
            self._site.shown("/prices", self.prices),
            self._site.done("/prices", self.change_prices),
        ]

    async def prices(self, request: Request) -> Response:
        """All prices; and a place for those of ``?model=``."""
        return await self._page(request, UNSENT, request.query_params.get("model", ""))

    async def change_prices(self, request: Request, form: Fields) -> Response:
        """Change what was edited, or remove a model's prices; what is refused stays typed."""

        async def change(edits: Fields, seen: Fields) -> Mapping[str, str]:
            work = self._core.client.in_transaction
            return await self._run(work, lambda t: change_prices(t, edits, seen))

        new = form.get(NEW, "").strip()
        if _is_model(new):
            form = {_named(name, new): value for name, value in form.items() if name != NEW}
        elif not form.get("reset") and any(form.get(name, "").strip() for name in {NEW, *BLANK}):
            return await self._page(request, Sent(form, refused=SettingsError({NEW: WRONG_MODEL})))
        sent = await send(form, _fields(_models_of(form)), change, _say)
        if sent.changed:
            models = dict.fromkeys(name.partition(".")[2] for name in sent.changed)
            await self._site.note(request, "change prices", ", ".join(models))
        return await self._page(request, sent)

    async def _page(self, request: Request, sent: Sent, asked: str = "") -> Response:
        """The form, and how its sending ended; with a place for a model that is asked for."""
        current = _texts(await self._site.rows(SELECT_PRICES, models=None))
        edited = edits_of(sent.form, _fields(_models_of(sent.form)))
        models = _models_of({**current, **edited, f"prompt.{asked}": ""})
        problems = problems_of(sent.refused, {**dict.fromkeys(edited, ""), **current}, _say)
        currency = (await self._core.live_settings.get()).currency
        unit = f"{currency} per million tokens"
        fields = {NEW: ONE_MORE, **_fields(["", *models], unit)}
        views = {
            name: view(one, current.get(name, ""), sent, problems) for name, one in fields.items()
        }
        rows = {model: [views[name] for name in _names(model)] for model in models}
        rows[""] = [views[NEW], *(views[name] for name in _names(""))]
        return self._site.render(
            request, "prices.html", status=sent.status, sent=sent, problems=problems, rows=rows,
            labels=fields, say=_say,
        )  # fmt: skip


def change_prices(transaction: Transaction, edits: Fields, seen: Fields) -> Mapping[str, str]:
    """Change prices, by ``kind.model``; an empty one is none.

    Returns:
        All prices afterwards.

    Raises:
        SettingsConflictError: Something is not as it was seen; nothing was changed.
        SettingsError: Something is no price, or has no model; nothing was changed.
    """
    wrong = {name: WRONG_PRICE for name, typed in edits.items() if not PRICE.fullmatch(typed)}
    if wrong:
        raise SettingsError(wrong)
    models = _models_of(edits)
    transaction.execute(LOCK_PRICES)
    current = _texts(transaction.fetch_records(SELECT_PRICES, models=models))
    moved = [name for name, was in seen.items() if current.get(name, "") != was]
    if moved:
        raise SettingsConflictError(moved)
    after = {**current, **{name: _text(typed) for name, typed in edits.items()}}
    missing = [
        next(name for name in _names(model) if not after.get(name))
        for model in models
        if len({bool(after.get(name)) for name in _names(model)}) > 1
    ]
    if missing:
        raise SettingsError(dict.fromkeys(missing, HALF))
    for model in models:
        prices = {kind: after.get(f"{kind}.{model}", "") for kind in KINDS}
        statement = UPSERT_PRICE if any(prices.values()) else DELETE_PRICE
        transaction.execute(statement, prices, model=model)
    return after


def _is_model(text: str) -> bool:
    return text.isprintable() and text.split() == [text] and len(text) <= MAX_MODEL


def _named(name: str, model: str) -> str:
    """A field of the blank row as that of a model; any other as it is."""
    return f"{name}{model}" if name in BLANK else name


def _names(model: str) -> list[str]:
    """The fields of a model's prices."""
    return [f"{kind}.{model}" for kind in KINDS]


def _models_of(names: Iterable[str]) -> list[str]:
    """The models that fields are about, each once."""
    parts = (name.partition(".") for name in names)
    return list(dict.fromkeys(m for kind, _, m in parts if kind in KINDS and _is_model(m)))


def _fields(models: Iterable[str], unit: str = "") -> dict[str, Field]:
    return {
        f"{kind}.{model}": Field(
            f"{kind}.{model}", f"{label} of {model}" if model else label, "", unit, group=model
        )
        for model in models
        for kind, label in KINDS.items()
    }


def _texts(prices: Iterable[Record]) -> dict[str, str]:
    """The prices by the names of their fields."""
    return {f"{kind}.{row['model']}": _text(row[kind]) for row in prices for kind in KINDS}


def _text(price: Decimal | str) -> str:
    """A price as a form has it, however it was typed; nothing where there is none."""
    return str(price) and f"{Decimal(str(price).replace(',', '.')).normalize():f}"


def _say(value: str) -> str:
    """A value as a person reads it."""
    return value or "no price"
