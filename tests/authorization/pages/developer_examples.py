"""One example of every page of the developer portal, and those that are hardest to lay out."""

from collections.abc import Mapping

from valetkey.authorization.pages.developer.apps import OwnAppLine, OwnAppsPage
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.overview import OverviewPage
from valetkey.authorization.pages.page import Page
from valetkey.authorization.pages.who import AskingApp

HEAD = AppHead("app_7f3k9qxm", "Notes Printer", owns=True)
ISSUER = "https://auth.example"


def head(app: AskingApp, client_id: str = "app 1&x=2") -> AppHead:
    """That app in the portal."""
    return AppHead(client_id, app.name, app.logo_url, owns=True)


def developer_examples(*apps: AskingApp, hostile: AskingApp) -> Mapping[str, Page]:
    """The developer's pages with these apps on them."""
    lines = tuple(OwnAppLine(head(app), app.domain, "modern") for app in apps)
    off = OwnAppLine(AppHead("app_2", "Old Printer", disabled=True), "", "classic")
    return {
        "own_apps": OwnAppsPage((*lines, off), deleted="Older Printer"),
        "own_apps_none": OwnAppsPage(()),
        "own_apps_hostile": OwnAppsPage((OwnAppLine(head(hostile), hostile.domain, "modern"),)),
        "app": OverviewPage(HEAD, ISSUER, "modern", ("https://app.example/callback",), "Prints."),
        "app_hostile": OverviewPage(head(hostile), ISSUER, "classic", ()),
    }
