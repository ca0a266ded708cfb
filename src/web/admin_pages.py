"""ASGI app of ``/admin``: all pages behind one login."""

from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.errors import AppError
from src.core import Core
from src.web import admin_figures as figures
from src.web import admin_lists as lists
from src.web import admin_memory as memory
from src.web import admin_people as people
from src.web import admin_settings as settings
from src.web.admin_access import AdminAccess, Role
from src.web.admin_site import HERE, AdminSite
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
    of_reader = partial(site.page_route, role=Role.READER)
    texts, owner = site.audited_route, "/users/{user}/{thread:int}"

    def lists_of(role: Role) -> list[Route]:
        entries = (entry for entry in lists.LIST_PAGES if entry.role == role)
        return [page(entry.path, entry, entry.title, role=role) for entry in entries]

    return [
        Route("/login", site.show_login, methods=["GET"]),
        Route("/login", site.login, methods=["POST"]),
        form("/logout", AdminSite.logout, role=Role.READER),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        of_reader("/", figures.show_overview),
        page("/users", people.show_people, "People"),
        of_reader("/usage", figures.show_usage, "Usage"),
        of_reader("/usage.csv", figures.download_usage),
        page("/prices", figures.show_prices),
        form("/prices", figures.change_prices),
        *lists_of(Role.READER),
        of_reader("/batches/{batch:uuid}", lists.show_batch),
        form("/queue/retry-put-aside", lists.retry_put_aside),
        form("/queue/{job:int}/retry", lists.retry_job),
        form("/queue/{job:int}/drop", lists.drop_job),
        texts(owner, memory.show_talk, "talk"),
        texts(f"{owner}/about", people.show_person, "page"),
        texts(f"{owner}/recall", memory.show_recall, "recall"),
        form(f"{owner}/export", people.export_person),
        form(f"{owner}/erase", people.erase_person),
        form(f"{owner}/block", partial(people.set_block, action="block")),
        form(f"{owner}/unblock", partial(people.set_block, action="unblock")),
        texts(f"{owner}/facts", memory.show_facts, "facts"),
        form(f"{owner}/facts/{{fact:int}}/{{action:str}}", memory.change_fact),
        form(f"{owner}/consolidations/{{number:int}}/undo", memory.undo_consolidation),
        page("/settings", settings.show_settings, "Settings"),
        form("/settings", settings.change_settings),
        *lists_of(Role.OPERATOR),
    ]


def build_admin_app(core: Core, access: AdminAccess) -> Any:
    """Build the admin pages as an ASGI app to be mounted."""
    site = AdminSite(core, access)
    handlers = {HTTPException: site.refuse, AppError: site.report_failure}
    app = Starlette(routes=admin_routes(site), exception_handlers=handlers)
    return WithHeaders(app, HEADERS, STATIC_HEADERS)
