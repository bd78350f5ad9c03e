"""/admin/scim: credentials of directories that provision users by SCIM."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.scim.operations import (
    CREATE_SCIM_CREDENTIAL,
    LIST_SCIM_CREDENTIALS,
    OPERATIONS,
    ScimCredentialList,
    ScimCredentialMade,
    ScimCredentialShown,
)
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import Buttons, Confirmed, Subject, confirmation
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_TOKEN,
    NEW_TOKEN,
    NewSecretPage,
    ShownValue,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

SCIM = "/admin/scim"
NEW = "/admin/scim/new"
ACT = "/admin/scim/{credential_id}/{act}"
_ENDPOINT = "/scim/v2"

_BUTTONS = Buttons.below("/scim-credentials/{credential_id}", of=OPERATIONS)
_TITLE = translatable("SCIM")
_WORDS: Words = {
    "name": (translatable("Name"), translatable("The directory that uses it, such as Okta."))
}


class ScimLine(Struct, frozen=True):
    """One credential; the URLs are "" if the role may not change it."""

    id: str
    name: str
    since: When
    rotated: When | None
    last_used: When | None
    rotate_url: str
    end_url: str


class ScimPage(Struct, frozen=True):
    """The live credentials, oldest first."""

    template: ClassVar[str] = "scim/scim.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    listed: tuple[ScimLine, ...]
    #: The URL that a directory is given.
    endpoint: str
    #: False if the setting scim.enabled is off.
    enabled: bool
    new_url: str
    done: str = ""


def scim_token_page(name: str, token: str, endpoint: str) -> NewSecretPage:
    """Return the page with a new token of the credential of this name."""
    return NewSecretPage(
        title=NEW_TOKEN,
        back=SCIM,
        above=_TITLE,
        copied=(
            ShownValue(
                "endpoint", endpoint, translatable("Copy the URL"), translatable("SCIM URL")
            ),
            ShownValue("token", token, COPY_THE_TOKEN, translatable("Token")),
        ),
        before=(_COPY_NOW,),
        values={"name": name},
    )


_COPY_NOW = translatable("Copy the token of <bdi>%(name)s</bdi> now. It is shown only once.")


class ScimPages(Struct, frozen=True):
    """List SCIM credentials; issue, rotate and end them."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The list, the form for another one, and the confirmation before one changes."""
        return (
            Page(
                SCIM,
                administrator(),
                self.show,
                title=_TITLE,
                nav=PEOPLE,
                docs="how-to/people/provision-by-scim.html",
            ),
            InputForm(
                NEW,
                administrator(Permission.KEYS, recent=True),
                actor_of,
                self.services,
                CREATE_SCIM_CREDENTIAL,
                ScimCredentialMade,
                _WORDS,
                translatable("New credential"),
                self._new,
                self._made,
                submit=translatable("Create credential"),
            ).page(),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    @property
    def _endpoint(self) -> str:
        return f"{self.services.settings.authorization.url.rstrip('/')}{_ENDPOINT}"

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the SCIM credentials."""
        may = request.permissions.allow(Permission.KEYS)
        page = ScimPage(
            listed=tuple(_line(each, request.now, may=may) for each in await self._found(request)),
            endpoint=self._endpoint,
            enabled=self.services.settings.section(ScimSettings).enabled,
            new_url=NEW if may else "",
            done=_BUTTONS.done(request.query.get("done")),
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        return FormSubject(SCIM, _TITLE)

    async def _made(self, _request: AdminRequest, made: ScimCredentialMade) -> Outcome:
        return self._token(made)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        wanted = request.arguments["credential_id"]
        found = next((it for it in await self._found(request) if it.id == wanted), None)
        if found is None:
            raise page_not_found()
        values = {"previous_lives": "86400"}
        return Subject(SCIM, found.name, (found.id,), values=values, above=_TITLE)

    async def _finish(
        self, _request: AdminRequest, confirmed: Confirmed, result: object
    ) -> Outcome:
        if isinstance(result, ScimCredentialMade):
            return self._token(result)
        return SeeOther(f"{SCIM}?done={confirmed.button.slug}")

    def _token(self, made: ScimCredentialMade) -> Outcome:
        return Show(scim_token_page(made.record.name, made.token, self._endpoint))

    async def _found(self, request: AdminRequest) -> list[ScimCredentialShown]:
        call = call_of(self.services, LIST_SCIM_CREDENTIALS, request.actor, request.now)
        return (await value_of(call, ScimCredentialList)).items


def _line(credential: ScimCredentialShown, now: Instant, *, may: bool) -> ScimLine:
    rotated, used = credential.rotated_at, credential.last_used_at
    return ScimLine(
        id=credential.id,
        name=credential.name,
        since=When(Instant(credential.created_at), now),
        rotated=None if rotated is None else When(Instant(rotated), now),
        last_used=None if used is None else When(Instant(used), now),
        rotate_url=f"{SCIM}/{credential.id}/rotate" if may else "",
        end_url=f"{SCIM}/{credential.id}/end" if may else "",
    )
