"""/admin/scim: credentials of directories that provision users by SCIM."""

from collections.abc import Sequence

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
from valetkey.authorization.site.admin.object_page import ObjectPage, facts, read_activity
from valetkey.authorization.site.admin.objects import (
    ListDeclaration,
    ListWords,
    Part,
    Row,
    code,
    since,
    since_or_none,
    unsorted,
    words,
)
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_TOKEN,
    NEW_TOKEN,
    NewSecretPage,
    ShownValue,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment
from valetkey.web.body import Form

SCIM = "/admin/scim"
NEW = "/admin/scim/new"
CREDENTIAL = "/admin/scim/{credential_id}"
ACT = f"{CREDENTIAL}/{{act}}"
_ENDPOINT = "/scim/v2"

_BUTTONS = Buttons.below("/scim-credentials/{credential_id}", of=OPERATIONS)
_TITLE = translatable("SCIM")
_WORDS: Words = {
    "name": (translatable("Name"), translatable("The directory that uses it, such as Okta."))
}


_LIST = ListDeclaration(
    SCIM,
    ListWords(
        caption=_TITLE,
        new=translatable("New credential"),
        empty_title=translatable("No credentials yet"),
        empty_text=translatable("Create a separate credential for each directory."),
        lead=translatable(
            "A directory such as Okta or Microsoft Entra creates, changes and disables users"
            " and groups here by SCIM 2.0."
        ),
    ),
    unsorted(
        translatable("Name"),
        translatable("Last used"),
        translatable("Since"),
    ),
    new_url=NEW,
)
_DISABLED = translatable(
    "SCIM is disabled: credentials do not work until scim.enabled is set in the settings."
)


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
                self.list,
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
            Page(CREDENTIAL, administrator(), self.show),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    @property
    def _endpoint(self) -> str:
        return f"{self.services.settings.authorization.url.rstrip('/')}{_ENDPOINT}"

    @property
    def _notes(self) -> tuple[Part, ...]:
        is_enabled = self.services.settings.section(ScimSettings).enabled
        return () if is_enabled else (words(_DISABLED),)

    async def list(self, request: AdminRequest) -> Outcome:
        """Show the SCIM credentials, oldest first."""
        page = _LIST.whole(
            [_row(credential, request.now) for credential in await self._listed(request)],
            may=request.permissions.allow(Permission.KEYS),
            done=_BUTTONS.done(request.query.get("done")),
            notes=self._notes,
        )
        return Show(page)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show one credential, and the URL that its directory is given."""
        credential, now = await self._found(request), request.now
        page = ObjectPage(
            SCIM,
            _TITLE,
            credential.name,
            notes=self._notes,
            facts=facts(
                (
                    (translatable("SCIM URL"), Part("copy", self._endpoint, small="endpoint")),
                    (translatable("ID"), Part("copy", credential.id, small="credential-id")),
                    (translatable("Created"), since(When(Instant(credential.created_at), now))),
                    (translatable("Rotated"), since_or_none(credential.rotated_at, now)),
                    (translatable("Last used"), _last_used(credential, now)),
                )
            ),
            actions=_BUTTONS.offers(credential, request.permissions, _at(credential.id)),
            activity=await read_activity(self.services, request, f"scim:{credential.id}"),
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        return FormSubject(SCIM, _TITLE)

    async def _made(self, _request: AdminRequest, made: ScimCredentialMade) -> Outcome:
        return self._token(made)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        credential = await self._found(request)
        return Subject(
            _at(credential.id),
            credential.name,
            (credential.id,),
            values={"previous_lives": "86400"},
        )

    async def _finish(
        self, _request: AdminRequest, confirmed: Confirmed, result: object
    ) -> Outcome:
        if isinstance(result, ScimCredentialMade):
            return self._token(result)
        return SeeOther(f"{SCIM}?done={confirmed.button.slug}")

    def _token(self, made: ScimCredentialMade) -> Outcome:
        return Show(scim_token_page(made.record.name, made.token, self._endpoint))

    async def _found(self, request: AdminRequest) -> ScimCredentialShown:
        credential_id = request.arguments["credential_id"]
        credential = next(
            (it for it in await self._listed(request) if it.id == credential_id), None
        )
        if credential is None:
            raise page_not_found()
        return credential

    async def _listed(self, request: AdminRequest) -> Sequence[ScimCredentialShown]:
        call = call_of(self.services, LIST_SCIM_CREDENTIALS, request.actor, request.now)
        return (await value_of(call, ScimCredentialList)).items


def _at(credential_id: str) -> str:
    return f"{SCIM}/{path_segment(credential_id)}"


def _last_used(credential: ScimCredentialShown, now: Instant) -> Part:
    return since_or_none(credential.last_used_at, now) or words(translatable("Never used"))


def _row(credential: ScimCredentialShown, now: Instant) -> Row:
    created = since(When(Instant(credential.created_at), now))
    cells = (_last_used(credential, now),), (created,)
    return Row(credential.id, credential.name, _at(credential.id), cells, (code(credential.id),))
