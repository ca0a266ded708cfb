"""ASGI app of ``/admin``: all pages behind one login."""

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route

from src.core import Core
from src.web.admin_access import AdminAccess
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
    return [
        *site.routes(),
        *OverviewPage(site).routes(),
        *UsagePages(site).routes(),
        *PricesPage(site).routes(),
        *FailurePages(site).routes(),
        *PeoplePages(site).routes(),
        *TalkPages(site).routes(),
        *PersonPages(site).routes(),
        *FactPages(site).routes(),
        *SettingsPages(site).routes(),
    ]


def build_admin_app(core: Core, access: AdminAccess) -> Any:
    """Build the admin pages as an ASGI app to be mounted."""
    site = AdminSite(core, access)
    app = Starlette(routes=admin_routes(site), exception_handlers={HTTPException: site.refuse})
    return WithHeaders(app, HEADERS, STATIC_HEADERS)
