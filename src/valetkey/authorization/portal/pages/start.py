"""/developer/apps/{client_id}/start and /quickstart: example programs with the client id."""

from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from valetkey.authorization.actions.developer.quickstart import STACKS, Quickstart, Quickstarts
from valetkey.authorization.actions.developer.requests import plain_reference
from valetkey.authorization.actions.developer.snippets import Snippet, snippets_of
from valetkey.authorization.actions.developer.trial import claims_in, shortened
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.site.developer.app import (
    APP,
    INTEGRATION,
    AppHead,
    AppRequest,
    member_of_app,
)
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Headers, Request

_TOKEN = "/oauth/token"
_METADATA = "/.well-known/openid-configuration"


class StartPage(Struct, frozen=True):
    """The context of start.html. The program in the language `chosen` is shown."""

    template: ClassVar[str] = "developer/try_it/start.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    snippets: tuple[Snippet, ...]
    chosen: str
    #: The URLs of this server that a library may ask for.
    addresses: tuple[tuple[str, str], ...]
    has_secret: bool
    #: The page of the default API that describes it and sends requests, "" for none.
    reference: str = ""
    #: The programs send a user to a browser; otherwise the app gets tokens of its own.
    asks_people: bool = True


class Start(Struct, frozen=True):
    """Show programs for the first request of an app."""

    issuer: str
    api: str
    reference: str = ""

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("First request")
        docs = "how-to/people/sign-in-with-valetkey.html"
        return (
            Page(f"{APP}/start", member_of_app, self.show, title=title, nav=INTEGRATION, docs=docs),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the example program in the language that `in` names, or the first."""
        client = request.client
        issuer, api = self.issuer, self.api
        snippets = snippets_of(client, issuer, api)
        ids = [each.id for each in snippets]
        wanted = request.query.get("in") or ""
        return Show(
            StartPage(
                request.head,
                snippets,
                chosen=wanted if wanted in ids else next(iter(ids), ""),
                addresses=(
                    ("Issuer", issuer),
                    ("Authorization endpoint", f"{issuer}{AUTHORIZE}"),
                    ("Token endpoint", f"{issuer}{_TOKEN}"),
                    ("Metadata", f"{issuer}{_METADATA}"),
                    *((("API", api),) if api else ()),
                ),
                has_secret=not client.is_public,
                reference=self.reference,
                asks_people=client.may_use(GrantTypeName.AUTHORIZATION_CODE),
            )
        )


class QuickstartPage(Struct, frozen=True):
    """The context of quickstart.html; `quickstart` is None if the app has none.

    `tabs` has the address and the label of each stack, and whether it is the one shown.
    """

    template: ClassVar[str] = "developer/try_it/quickstart.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    tabs: tuple[tuple[str, str, bool], ...] = ()
    quickstart: Quickstart | None = None


class QuickstartPages(Struct, frozen=True):
    """Show the quickstarts of an app."""

    quickstarts: Quickstarts

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Quickstart")
        docs = "how-to/people/sign-in-with-valetkey.html"
        return (
            Page(
                f"{APP}/quickstart",
                member_of_app,
                self.show,
                title=title,
                nav=INTEGRATION,
                docs=docs,
            ),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the quickstart for the stack that `in` names, or for the first one."""
        head, client = request.head, request.client
        names = self.quickstarts.stacks_of(client)
        if not names:
            return Show(QuickstartPage(head))
        wanted = request.query.get("in") or ""
        chosen = wanted if wanted in names else names[0]
        place = head.at("quickstart")
        return Show(
            QuickstartPage(
                head,
                tuple((f"{place}?in={name}", STACKS[name].label, name == chosen) for name in names),
                self.quickstarts.of(client, chosen),
            )
        )


_APIS = 100
_SECRET = frozenset({"code", "state", "code_verifier", "client_secret"})


class ApiChoice(Struct, frozen=True):
    """An API that can be chosen, with its scopes: value in the form, and name."""

    identifier: str
    name: str
    scopes: tuple[tuple[str, str], ...]


class Parameter(Struct, frozen=True):
    """One parameter or member of a message; a secret `value` is shortened."""

    name: str
    value: str


class Token(Struct, frozen=True):
    """One token of a response: its beginning, and its claims, "" for an opaque one."""

    name: str
    value: str
    claims: str = ""
    #: The API that an access token is for.
    audience: str = ""


def apis_of(tx: Transaction, client: Client) -> tuple[ApiChoice, ...]:
    """Return the declared APIs that the client may ask for, by identifier, at most 100."""
    return tuple(
        ApiChoice(
            api.identifier, api.name, tuple((api.qualified(name), name) for name in api.scopes)
        )
        for api in tx.apis.page("", _APIS)
        if api.admits(client)
    )


def parameters_in(landed: str) -> dict[str, str]:
    """Return the query parameters of a pasted URL, which are untrusted."""
    try:
        query = urlsplit(landed.strip()).query
        return dict(parse_qsl(query, strict_parsing=True, errors="strict", max_num_fields=50))
    except ValueError:
        return {}


def masked(name: str, value: str) -> str:
    """Return the value to show, shortened if the parameter is a secret."""
    return shortened(value) if name in _SECRET else value


def shown_token(name: str, value: object, audience: str) -> Token:
    """Return a token to show: its beginning and claims, and the API of an access token."""
    text = str(value)
    claims = claims_in(text) if name != "refresh_token" else ""
    return Token(name, shortened(text), claims, audience if name == "access_token" else "")


def explained_at(head: AppHead, error_uri: object) -> str:
    """Return the URL of the failed request that an `error_uri` refers to; "" for none."""
    told = parameters_in(error_uri) if isinstance(error_uri, str) else {}
    reference = plain_reference(told.get("reference", ""))
    return f"{head.at('failures')}/{reference}" if reference else ""


def sent_by(
    request: AppRequest,
    method: str,
    path: str,
    headers: tuple[tuple[bytes, bytes], ...],
    body: bytes = b"",
) -> Request:
    """Return a request of the same origin to another endpoint of this server."""
    came = request.request
    return Request(
        method,
        path,
        headers=Headers(headers),
        body=body,
        address=came.address,
        secure=came.secure,
        at=came.at,
    )
