"""/admin/apis: list APIs by identifier, and declare one."""

from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.operations.api_records import ANY, ApiList, ApiShown
from valetkey.authorization.operations.apis import DECLARE_API, LIST_APIS
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    actor_of,
    administrator,
)
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.paging import ONE_PAGE, Paging, at_most, pages_beside
from valetkey.kernel.words import translatable

APIS = ADDRESSES["admin_apis"]
NEW = "/admin/apis/new"
LINES = ("scopes", "machine_scopes", "roles", "required_groups", "clients")
"""The fields with a value per line."""

API_WORDS: Words = {
    "identifier": (
        translatable("Identifier"),
        translatable(
            "The URL of the API including its path: the resource parameter that apps send, and "
            "the audience of its tokens. It cannot be changed later."
        ),
    ),
    "name": (translatable("Name"), translatable("Users see this name on the consent page.")),
    "scopes": (
        translatable("Scopes"),
        translatable(
            "One per line: the name, a space, and the permission that it gives an app, such as: "
            "calendar:read see your calendar"
        ),
    ),
    "machine_scopes": (
        translatable("Machine scopes"),
        translatable("One name per line, for apps that use client credentials."),
    ),
    "roles": (
        translatable("Roles"),
        translatable(
            "One name per line, such as editor. Users and groups get them on their pages, and "
            "tokens contain them in the claim roles."
        ),
    ),
    "required_groups": (
        translatable("Required groups"),
        translatable("One name per line: only members of one of them get tokens for this API."),
    ),
    "access_token_format": (translatable("Format of access tokens"), ""),
    "access_token_lifetime": (
        translatable("Lifetime of access tokens (seconds)"),
        translatable("From 1 to 86,400. Leave empty to use the setting of the server."),
    ),
    "signing_algorithm": (
        translatable("Signing algorithm"),
        translatable("An algorithm that the API's library can verify."),
    ),
    "clients": (
        translatable("Allowed apps"),
        translatable("One client ID per line, or the word any."),
    ),
    "shares_scopes": (
        translatable("Other APIs may declare the same scope names"),
        translatable("Both APIs must allow it."),
    ),
}
"""Labels and hints of the fields of an API."""

_TITLE = translatable("APIs")
_LONGEST = 500

MOST_COUNTED = 1_000
"""APIs that are counted for the total."""


class ApiRow(Struct, frozen=True):
    """One API in the list."""

    name: str
    identifier: str
    url: str
    scopes: int
    format: str
    disabled: bool


class ApisPage(Struct, frozen=True):
    """A page of the list of APIs."""

    template: ClassVar[str] = "admin/apis/apis.html"

    listed: tuple[ApiRow, ...]
    #: The identifier of the server's own API.
    own: str
    #: "" where the role may not.
    new_url: str
    paging: Paging = ONE_PAGE
    deleted: bool = False


class Apis(Struct, frozen=True):
    """List the APIs; declare one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the form."""
        return (
            Page(
                APIS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=APPS_AND_APIS,
                docs="how-to/apis/several-apis.html",
            ),
            InputForm(
                NEW,
                administrator(Permission.CLIENTS),
                actor_of,
                self.services,
                DECLARE_API,
                ApiShown,
                API_WORDS,
                translatable("New API"),
                self._new,
                self._made,
                submit=translatable("Create API"),
                opaque=LINES,
            ).page(),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the APIs."""
        query = {"after": (request.query.get("after") or "")[:_LONGEST]}
        call = call_of(self.services, LIST_APIS, request.actor, request.now, query=query)
        found = await value_of(call, ApiList)
        count = await self.services.store.scan(lambda tx: len(tx.apis.page("", MOST_COUNTED + 1)))
        may = request.permissions.allow(Permission.CLIENTS)
        page = ApisPage(
            listed=tuple(row_of(each) for each in found.items),
            own=self.services.settings.audience,
            new_url=NEW if may else "",
            paging=pages_beside(
                APIS,
                {},
                request.query,
                found.next or "",
                total=at_most(count, MOST_COUNTED),
            ),
            deleted="deleted" in request.query,
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        return FormSubject(APIS, _TITLE, {"clients": ANY})

    async def _made(self, _request: AdminRequest, made: ApiShown) -> Outcome:
        return SeeOther(f"{api_address(made.api_id)}?done=new")


def api_address(api_id: str, act: str = "") -> str:
    """Return the URL of the page about an API, or about one operation on it."""
    place = f"{APIS}/{quote(api_id, safe='')}"
    return f"{place}/{act}" if act else place


def row_of(api: ApiShown) -> ApiRow:
    """Return the API as a row of the list."""
    return ApiRow(
        name=api.name,
        identifier=api.identifier,
        url=api_address(api.api_id),
        scopes=len({*api.scopes, *api.machine_scopes}),
        format=api.access_token_format.value,
        disabled=api.disabled_at is not None,
    )
