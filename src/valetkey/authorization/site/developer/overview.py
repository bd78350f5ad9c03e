"""/developer/apps/{client_id}: one app at a glance."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.presets import kind_of
from valetkey.authorization.actions.developer.secrets import seen_in_url
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.words import translatable


class OverviewPage(Struct, frozen=True):
    """The context of overview.html: the client id, the status, and what to do next.

    `kind`: server, browser, device, machine. `proof`, the authentication method: client_secret,
    client_secret_jwt, private_key_jwt, none.
    """

    template: ClassVar[str] = "developer/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "times.js")

    app: AppHead
    #: The URL of this server, which the app needs as well.
    issuer: str
    kind: str
    profile: str
    proof: str
    redirect_uris: tuple[str, ...]
    registered: When
    description: str = ""
    verified: bool = False
    #: The permissions it requests, each beginning with a verb.
    sentences: tuple[str, ...] = ()
    #: A live secret was sent in a URL.
    secret_seen: bool = False
    #: It authenticates with a secret, and has none that is valid.
    without_secret: bool = False


class Overview(Struct, frozen=True):
    """Show an app to its team."""

    store: Store
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        return (Page(APP, member_of_app, self.show, title=translatable("Overview"), nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """The page."""
        client, now, scopes = request.client, request.now, self.scopes
        live, sighting = await self.store.read(
            lambda tx: (tx.secrets.live(client.id, now), tx.clients.query_sighting(client.id))
        )
        return Show(
            OverviewPage(
                app=request.head,
                issuer=self.issuer,
                kind=kind_of(client).value,
                profile=client.profile_name.value,
                proof=client.authentication_method.value,
                redirect_uris=client.redirect_uris,
                registered=When(client.created_at, now),
                description=client.description,
                verified=client.verified_at is not None,
                sentences=tuple(scopes[name] for name in client.scope if name in scopes),
                secret_seen=seen_in_url(live, sighting) is not None,
                without_secret=client.has_secret and not live,
            )
        )
