"""The examples as a browser gets them: one after the other, at addresses of their names."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast
from urllib.parse import parse_qsl

from playwright.sync_api import Route

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.reading import Reading
from valetkey.authorization.app.pages import account_pages, admin_pages
from valetkey.authorization.device.pages import DevicePages
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.layout.language import ENGLISH, Language
from valetkey.authorization.layout.render import (
    PageContext,
    connects,
    content_security_policy,
    render,
    scripts_of,
)
from valetkey.authorization.layout.viewer import Menu, Navigation, Viewer
from valetkey.authorization.portal.pages import portal_pages
from valetkey.authorization.providers.pages.account import Connections
from valetkey.authorization.site.admin.server.brand import BrandFormPage, previewed
from valetkey.authorization.site.admin.server.settings import BRAND
from valetkey.authorization.site.page import AnyPage
from valetkey.authorization.webhooks.feature import FEATURE as WEBHOOKS
from valetkey.kernel.replace import replace


class _Unused:
    """Whatever handlers are built with: declaring pages calls none of it."""

    def __getattr__(self, name: str) -> "_Unused":
        return self

    def __call__(self, *_: object) -> "_Unused":
        return self


_UNUSED = cast("Any", _Unused())
AREAS: Mapping[str, Sequence[AnyPage]] = {
    "account": account_pages(_UNUSED),
    "developer": portal_pages(_UNUSED, lambda frame: WEBHOOKS.app_pages(_UNUSED, frame)),
    "admin": admin_pages(_UNUSED, _UNUSED, _UNUSED),
}

_ELSEWHERE: Sequence[AnyPage] = (
    *DevicePages(_UNUSED, _UNUSED).pages(),
    *Connections(_UNUSED).pages(),
)
"""Pages outside these areas that are named by their declaration."""

SERVER = "https://auth.example"
_LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48">'
    '<rect width="48" height="48" fill="#6a3fb5"/>'
    '<path d="M14 20V10h20v10M14 34h-4V20h28v14h-4M15 28h18v11H15z" fill="none" stroke="#fff"'
    ' stroke-width="3" stroke-linejoin="round"/></svg>'
)

# Explanations of codes are made alike: these have the longest name and the longest text.
_EXPLAINED = ("invalid_grant", "header_fields")

SHOWN = tuple(
    name
    for name in EXAMPLES
    if not name.startswith("explanation") or any(part in name for part in _EXPLAINED)
)


def area_of(page: PageContext) -> str:
    """Return the area by the folder of its frame or template; visitor for any other."""
    folder = (
        str(getattr(page, "frame", page.template)).partition("/")[0].replace("portal", "developer")
    )
    return folder if folder in {"account", "developer", "admin", "errors"} else "visitor"


def viewer_of(page: PageContext, language: Language = ENGLISH) -> Viewer:
    """Somebody who may see this page, with the way to another language at its foot."""
    area = area_of(page)
    return Viewer(
        language=language,
        here="/",
        user=None if area == "visitor" else CurrentUser("ada", "Ada Lovelace", "ada@example.com"),
        develops=area in {"developer", "admin"},
        administers=area == "admin",
    )


def navigation_for(page: PageContext) -> Navigation:
    """Return the navigation of its area: the page at its address, by template or module."""
    pages: Sequence[AnyPage] = AREAS.get(area_of(page), _ELSEWHERE)
    name = page.template.removesuffix(".html").rpartition("/")[2]
    listed = [candidate for candidate in pages if candidate.path == getattr(page, "action", "")]
    named = listed or [
        candidate for candidate in pages if candidate.path.rpartition("/")[2] == name
    ]
    beside = [
        candidate
        for candidate in pages
        if _module_of(candidate) == type(page).__module__ and candidate.title
    ]
    navigation = Menu(pages).navigation(next(iter((*named, *beside)), None))
    return replace(navigation, title=navigation.title or "A page")


def _module_of(page: AnyPage) -> str:
    return type(getattr(getattr(page, "show", None), "__self__", None)).__module__


@cache
def readings(language: Language = ENGLISH) -> Mapping[str, Reading]:
    """Parse every page of SHOWN, those with the most elements first."""
    page_readings = {
        name: Reading(
            render(
                EXAMPLES[name],
                brand=Brand("Acme"),
                viewer=viewer_of(EXAMPLES[name], language),
                navigation=navigation_for(EXAMPLES[name]),
            )
        )
        for name in SHOWN
    }
    return dict(sorted(page_readings.items(), key=lambda pair: -len(pair[1].elements)))


def widest(language: Language = ENGLISH) -> Sequence[str]:
    """Return the pages that can be laid out worse than those before them.

    Left out: a page on which each element stood before, in the same holder, with a word as long.
    """
    chosen: list[str] = []
    longest: dict[object, int] = {}
    for name, reading in readings(language).items():
        words: dict[object, int] = {}
        for element in reading.elements:
            attributes = element.attributes
            holders = tuple((e.name, e.attributes.get("class")) for e in element.holders[-1:])
            kind = (element.name, attributes.get("class"), attributes.get("type"), holders)
            word = max(map(len, element.text.split()), default=0)
            words[kind] = max(word, words.get(kind, 0))
        if any(word > longest.get(kind, -1) for kind, word in words.items()):
            chosen.append(name)
            longest |= {kind: max(word, longest.get(kind, -1)) for kind, word in words.items()}
    return chosen


def answering(brand: Brand, language: Language = ENGLISH) -> Callable[[Route], None]:
    """Answer a browser at `https://auth.example/…` with the example of that name."""

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(SERVER)
        for asset in assets(brand):
            if asset.path == path:
                route.fulfill(body=asset.body, content_type=asset.content_type)
                return
        if path.startswith("/logos/"):
            route.fulfill(body=_LOGO, content_type="image/svg+xml")
            return
        if path.startswith(f"{BRAND}/preview/"):
            shown, _, query = path.rpartition("/")[2].partition("?")
            parameters = dict(parse_qsl(query))
            viewer = Viewer(language)
            html, policy = previewed(shown, brand, parameters["name"], parameters["accent"], viewer)
            route.fulfill(
                body=html,
                content_type="text/html; charset=utf-8",
                headers={"Content-Security-Policy": policy},
            )
            return
        page = EXAMPLES.get(path.removeprefix("/"))
        if page is None:
            route.fulfill(status=204)
            return
        policy = content_security_policy(
            scripts=bool(scripts_of(page, navigation_for(page))),
            connects=connects(page, navigation_for(page)),
            frames=(SERVER,) if isinstance(page, BrandFormPage) else (),
        )
        route.fulfill(
            body=render(
                page,
                brand=brand,
                viewer=viewer_of(page, language),
                navigation=navigation_for(page),
                csrf="csrf-value",
            ),
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": policy},
        )

    return answer
