"""/developer/apps/{client_id}/start: programs to paste, with the app's own client id."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.snippets import snippets_of
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.model.register.client import GrantTypeName
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.kernel.words import translatable

_TOKEN = "/oauth/token"
_METADATA = "/.well-known/openid-configuration"


class SnippetText(Struct, frozen=True):
    """One program; `needs` is the command that installs its dependencies, "" for none."""

    id: str
    language: str
    needs: str
    code: str


class StartPage(Struct, frozen=True):
    """The context of start.html. The program in the language `chosen` is shown."""

    template: ClassVar[str] = "developer/try_it/start.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    snippets: tuple[SnippetText, ...]
    chosen: str
    #: The URLs of this server that a library may ask for.
    addresses: tuple[tuple[str, str], ...]
    has_secret: bool
    #: The programs send a user to a browser; otherwise the app gets tokens of its own.
    asks_people: bool = True


class Start(Struct, frozen=True):
    """Show programs for the first request of an app."""

    issuer: str
    api: str

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("First request")
        return (Page(f"{APP}/start", member_of_app, self.show, title=title, nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """The program in the language that `in` names, else the first."""
        client = request.client
        issuer, api = self.issuer, self.api
        snippets = snippets_of(client, issuer, api)
        ids = [each.id for each in snippets]
        wanted = request.query.get("in") or ""
        return Show(
            StartPage(
                request.head,
                tuple(SnippetText(e.id, e.language, e.needs, e.code) for e in snippets),
                chosen=wanted if wanted in ids else next(iter(ids), ""),
                addresses=(
                    ("Server", issuer),
                    ("Authorization endpoint", f"{issuer}{AUTHORIZE}"),
                    ("Token endpoint", f"{issuer}{_TOKEN}"),
                    ("Metadata", f"{issuer}{_METADATA}"),
                    *((("API", api),) if api else ()),
                ),
                has_secret=not client.is_public,
                asks_people=client.may_use(GrantTypeName.AUTHORIZATION_CODE),
            )
        )
