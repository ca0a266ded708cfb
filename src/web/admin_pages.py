"""ASGI app of ``/admin``: all pages behind one login."""

from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route

from src.base.errors import AppError
from src.core import Core
from src.web.admin_access import AdminAccess, Role
from src.web.admin_facts import FactPages
from src.web.admin_failures import FailurePages
from src.web.admin_overview import OverviewPage
from src.web.admin_people import PeoplePages
from src.web.admin_person import PersonPages
from src.web.admin_prices import PricesPage
from src.web.admin_settings import SettingsPages
from src.web.admin_site import AdminSite
from src.web.admin_talk import TalkPages
from src.web.admin_usage import UsagePages
from src.web.http_server import WithHeaders

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_HEADERS = {"Cache-Control": "max-age=3600", "X-Content-Type-Options": "nosniff"}


def admin_routes(site: AdminSite) -> list[Route | Mount]:
    """List all routes; a test requests each of them without a session."""
    page, form = site.page_route, site.form_route
    figures = partial(site.page_route, role=Role.READER)
    usage, prices, failures = UsagePages(site), PricesPage(site), FailurePages(site)
    person, facts, settings = PersonPages(site), FactPages(site), SettingsPages(site)
    owner, block = "/users/{user}/{thread:int}", person.set_blocked
    return [
        *site.routes(),
        figures("/", OverviewPage(site).show),
        figures("/usage", usage.usage),
        figures("/usage.csv", usage.download),
        page("/prices", prices.prices),
        form("/prices", prices.change_prices),
        figures("/failures", failures.failures),
        figures("/queue", failures.queue),
        figures("/batches", failures.batches),
        figures("/batches/{batch:uuid}", failures.batch),
        form("/queue/retry-quarantined", failures.retry_quarantined),
        form("/queue/{job:int}/retry", failures.retry_job),
        form("/queue/{job:int}/drop", failures.drop_job),
        page("/users", PeoplePages(site).people),
        site.audited_route(owner, TalkPages(site).talk, "talk"),
        site.audited_route(f"{owner}/about", person.about, "page"),
        site.audited_route(f"{owner}/recall", person.recall, "recall"),
        form(f"{owner}/export", person.export),
        form(f"{owner}/erase", person.erase),
        form(f"{owner}/block", partial(block, is_blocked=True)),
        form(f"{owner}/unblock", partial(block, is_blocked=False)),
        site.audited_route(f"{owner}/facts", facts.facts, "facts"),
        site.audited_route(f"{owner}/facts/{{fact:int}}/forget", facts.ask, "facts"),
        form(f"{owner}/facts/{{fact:int}}/{{action:str}}", facts.change_fact),
        form(f"{owner}/consolidations/{{number:int}}/undo", facts.undo_consolidation),
        page("/settings", settings.settings),
        form("/settings", settings.change_settings),
        page("/audit", settings.audit),
    ]


def build_admin_app(core: Core, access: AdminAccess) -> Any:
    """Build the admin pages as an ASGI app to be mounted."""
    site = AdminSite(core, access)
    handlers = {HTTPException: site.refuse, AppError: site.report_failure}
    app = Starlette(routes=admin_routes(site), exception_handlers=handlers)
    return WithHeaders(app, HEADERS, STATIC_HEADERS)
