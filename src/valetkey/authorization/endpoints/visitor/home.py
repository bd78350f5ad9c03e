"""GET /: whose server this is, who is signed in, and the apps they can open from here."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from valetkey.authorization.endpoints.visitor.sign_out import csrf_to_sign_out
from valetkey.authorization.endpoints.visitor.site import (
    SIGN_IN,
    SIGN_OUT,
    START,
    Site,
    shown_person,
)
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.pages.visitor.home import HomePage, OwnApp
from valetkey.authorization.sign_in.session import SignedIn
from valetkey.kernel.url import origin
from valetkey.web.exchange import Request, Response

_MOST = 50
"""Apps looked at: who allowed more has them in their own bookmarks."""


@dataclass(frozen=True, slots=True)
class HomeEndpoint:
    """The page at the root."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page."""
        signed_in = await self.site.signed_in(request)
        if signed_in is None:
            return self.site.page(request, HomePage(SIGN_OUT, "", sign_in_url=SIGN_IN))
        browser, headers = self.site.browser(request)
        csrf = csrf_to_sign_out(self.site, browser, signed_in)
        apps = await self._apps(signed_in)
        page = HomePage(SIGN_OUT, csrf, shown_person(signed_in), apps=tuple(apps))
        return self.site.page(request, page, user=signed_in.user, headers=headers)

    async def _apps(self, signed_in: SignedIn) -> Sequence[OwnApp]:
        uid = signed_in.user.uid
        ids = await self.site.store.read(lambda tx: tx.consents.clients_of(uid, _MOST))
        found = [await self.site.directory.find(client_id) for client_id in ids]
        apps = [_shown(client) for client in found if client is not None and _opens(client)]
        return sorted(apps, key=lambda app: app.name.casefold())


def _opens(client: Client) -> bool:
    return client.disabled_at is None and bool(client.openid.initiate_login_uri)


def _shown(client: Client) -> OwnApp:
    place = origin(client.openid.initiate_login_uri).partition("://")[2]
    return OwnApp(client.name or client.id, place, f"{START}?client_id={quote(client.id, safe='')}")
