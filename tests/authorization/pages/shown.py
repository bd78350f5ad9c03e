"""The examples as a browser gets them: one after the other, at addresses of their names."""

from collections.abc import Callable

from playwright.sync_api import Route

from tests.authorization.pages.examples.every import EXAMPLES
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import ENGLISH, Language
from valetkey.authorization.layout.render import (
    PageContext,
    content_security_policy,
    render,
    scripts_of,
)
from valetkey.authorization.layout.viewer import Viewer

SERVER = "https://auth.example"

# Explanations of codes are made alike: these have the longest name and the longest text.
_EXPLAINED = ("invalid_grant", "header_fields")

SHOWN = tuple(
    name
    for name in EXAMPLES
    if not name.startswith("explanation") or any(part in name for part in _EXPLAINED)
)


def area_of(page: PageContext) -> str:
    """Return account, developer, admin or errors by the folder of its template, else visitor."""
    folder = page.template.partition("/")[0]
    return folder if folder in {"account", "developer", "admin", "errors"} else "visitor"


def viewer_of(page: PageContext, language: Language = ENGLISH) -> Viewer:
    """Somebody who may see this page, with the way to another language at its foot."""
    area = area_of(page)
    return Viewer(
        language=language,
        here="/",
        develops=area in {"developer", "admin"},
        administers=area == "admin",
    )


def answering(brand: Brand, language: Language = ENGLISH) -> Callable[[Route], None]:
    """Answer a browser at `https://auth.example/…` with the example of that name."""

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(SERVER)
        for asset in assets(brand):
            if asset.path == path:
                route.fulfill(body=asset.body, content_type=asset.content_type)
                return
        page = EXAMPLES.get(path.removeprefix("/"))
        if page is None:
            route.fulfill(status=204)
            return
        policy = content_security_policy(scripts=bool(scripts_of(page)))
        route.fulfill(
            body=render(page, brand=brand, viewer=viewer_of(page, language)),
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": policy},
        )

    return answer
