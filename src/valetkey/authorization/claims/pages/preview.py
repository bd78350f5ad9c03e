"""/admin/claims/preview: the tokens that a user would get for an app and an API."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.model.account.user import User
from valetkey.authorization.operations.claims import PREVIEW, ClaimsPreview
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.claims import kinds
from valetkey.authorization.site.admin.users.users import UserLine, line_of
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.words import translatable

_LONGEST = {"person": 200, "client": 200, "api": 500, "scope": 1_000}
_MOST_APIS = 200
_UNKNOWN = {
    "admin.client": ("client", translatable("App not found.")),
    "admin.api": ("api", translatable("API not found.")),
}


class TokenPreview(Struct, frozen=True):
    """One token: its title and its content as JSON."""

    slug: str
    title: str
    text: str


class PreviewPage(Struct, frozen=True):
    """The form, sent with GET, and the preview. `faults` are by field."""

    template: ClassVar[str] = "admin/claims/preview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    action: str
    back: str
    #: The submitted text, by field.
    typed: dict[str, str]
    #: Identifiers of APIs to choose from, the default one first.
    apis: tuple[str, ...]
    faults: dict[str, str]
    several: tuple[UserLine, ...] = ()
    #: The scope of the tokens, None before anything was previewed.
    scope: str | None = None
    by_reference: bool = False
    tokens: tuple[TokenPreview, ...] = ()
    #: Tokens that this scope and API do not give.
    missing: tuple[str, ...] = ()


class ClaimsPreviewPages(Struct, frozen=True):
    """Preview tokens, by the operation that `valetkey claims preview` runs."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Preview tokens")
        return (Page(kinds.PREVIEW, administrator(), self.show, title=title),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the form, and the tokens once a user and an app are chosen."""
        query, actor = request.query, request.actor
        said = {
            name: (query.get(name) or "").strip()[:longest] for name, longest in _LONGEST.items()
        }
        default = self.services.claims.default.identifier

        def read_state(tx: Transaction) -> tuple[Sequence[User], tuple[str, ...]]:
            require(tx, actor, Permission.READ)
            return resolve_users(tx, said["person"]), (default, *tx.apis.identifiers(_MOST_APIS))

        users, apis = await self.services.store.scan(read_state)
        page = PreviewPage(kinds.PREVIEW, kinds.CLAIMS, said, apis, {})
        if "person" not in query or "client" not in query:
            return Show(page)
        faults = dict[str, str]()
        if not users:
            faults["person"] = translatable("User not found.")
        if not said["client"]:
            faults["client"] = translatable("Enter a client ID.")
        if said["scope"] and not _is_scope(said["scope"]):
            faults["scope"] = translatable("Enter scope names, separated by spaces.")
        if faults or len(users) > 1:
            several = tuple(line_of(user, request.now) for user in users[:10] if len(users) > 1)
            return Show(replace(page, faults=faults, several=several))
        asked = {name: said[name] for name in ("api", "scope") if said[name]}
        path = {"uid": str(users[0].uid), "client_id": quote(said["client"], safe="")}
        try:
            call = call_of(self.services, PREVIEW, actor, request.now, path, query=asked)
            found = await value_of(call, ClaimsPreview)
        except Refused as refused:
            unknown = _UNKNOWN.get(refused.refusal.check)
            if unknown is None and refused.refusal.code is not ErrorCode.NOT_FOUND:
                raise
            field, fault = unknown or _UNKNOWN["admin.client"]
            return Show(replace(page, faults={field: fault}))
        return Show(_found(page, found))


def _is_scope(text: str) -> bool:
    try:
        Scope.parse(text)
    except (Refused, ValueError):
        return False
    return True


def _found(page: PreviewPage, found: ClaimsPreview) -> PreviewPage:
    contents = {
        "id_token": found.id_token,
        "access_token": found.access_token,
        "userinfo": found.userinfo,
    }
    if found.introspection:
        contents["introspection"] = found.introspection
    words = kinds.PLACE_WORDS
    return replace(
        page,
        scope=found.scope,
        by_reference=found.access_token_format == "reference",
        tokens=tuple(
            TokenPreview(name, words[name], _json(content))
            for name, content in contents.items()
            if content is not None
        ),
        missing=tuple(words[name] for name, content in contents.items() if content is None),
    )


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content)).decode()
