"""/admin/registration: who may register apps, and invitations for apps to register themselves."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.operations.server_records import (
    InvitationMade,
    Invitations,
    InvitationShown,
)
from valetkey.authorization.operations.settings import INVITE, LIST_INVITATIONS
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.clients.clients import CLIENTS
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.object_page import Fact, ObjectPage, Related
from valetkey.authorization.site.admin.objects import Line, LineButton, exact, since, text, words
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_TOKEN,
    NewSecretPage,
    ShownValue,
)
from valetkey.config.settings import RegistrationMode
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

REGISTRATION = ADDRESSES["admin_registration"]
NEW = f"{REGISTRATION}/new"
_INVITATION = f"{REGISTRATION}/invitations/{{invitation_id}}"

_BUTTONS = Buttons.below("/invitations/{invitation_id}")
_TITLE = translatable("Registration")
_DAY = 86_400
_MODES = {
    RegistrationMode.OPEN: translatable("Open to all apps"),
    RegistrationMode.TOKEN: translatable("Apps with an invitation from this page"),
    RegistrationMode.OFF: translatable("Disabled"),
}
_PEOPLE = {
    "nobody": translatable("Only users with a role"),
    "invited": translatable("Only users with permission"),
    "verified": translatable("All users with a verified email address"),
    "everyone": translatable("All users"),
}
_WORDS: Words = {
    "note": (translatable("Note"), translatable("A note to identify the invitation.")),
    "uses": (translatable("Apps it registers"), ""),
    "lifetime": (translatable("Valid for"), ""),
}
_NO_EFFECT = translatable("Invitations have no effect while apps cannot register themselves.")
_UNUSED_DAY = translatable("A self-registered app is removed after one day without use")
_UNUSED = translatable("A self-registered app is removed after %(count)s days without use")
_ONE_MORE = translatable("for one more app")
_FOR_ONE = translatable("The token is shown only once. It registers one app.")
_FOR_SEVERAL = translatable("The token is shown only once. It registers up to %(count)s apps.")


class Registration(Struct, frozen=True):
    """Show the registration policy; create and withdraw invitations."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The policy with the invitations, the form for another, and the end of one."""
        services, docs = self.services, "how-to/apps/let-apps-register-themselves.html"
        form = InputForm(
            NEW,
            administrator(Permission.CLIENTS),
            actor_of,
            services,
            INVITE,
            InvitationMade,
            _WORDS,
            translatable("New invitation"),
            self._new,
            self._made,
            submit=translatable("Create token"),
            durations=("lifetime",),
        )
        return (
            Page(
                REGISTRATION,
                administrator(),
                self.show,
                title=_TITLE,
                nav=APPS_AND_APIS,
                docs=docs,
            ),
            form.page(),
            confirmation(
                f"{_INVITATION}/{{act}}", _BUTTONS, services, self._subject, done_at(REGISTRATION)
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the policy and the invitations that can still be used."""
        developers, registration = self.services.developers, self.services.settings.registration
        page = registration_page(
            registration.mode,
            developers.registrants,
            developers.setting,
            registration.unused_lifetime,
            await self._listed(request),
            request.now,
            may=request.permissions.allow(Permission.CLIENTS),
            done=_BUTTONS.done(request.query.get("done")),
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        is_off = self.services.settings.registration.mode is RegistrationMode.OFF
        return FormSubject(
            REGISTRATION,
            _TITLE,
            values={"uses": "1", "lifetime": str(7 * _DAY)},
            note=_NO_EFFECT if is_off else "",
        )

    async def _made(self, request: AdminRequest, made: InvitationMade) -> Outcome:
        endpoint = f"{self.services.settings.authorization.url}/oauth/register"
        until = When(Instant(made.record.expires_at), request.now).exact
        return Show(invitation_page(made.token, endpoint, made.record.uses_left, until))

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        invitation_id = request.arguments["invitation_id"]
        invitation = next(
            (it for it in await self._listed(request) if it.id == invitation_id), None
        )
        if invitation is None:
            raise page_not_found()
        return Subject(
            REGISTRATION, invitation.note or invitation.id, (invitation.id,), above=_TITLE
        )

    async def _listed(self, request: AdminRequest) -> Sequence[InvitationShown]:
        call = call_of(self.services, LIST_INVITATIONS, request.actor, request.now)
        return (await value_of(call, Invitations)).items


def registration_page(
    mode: RegistrationMode,
    people: str,
    people_setting: str,
    unused_lifetime: int,
    invitations: Sequence[InvitationShown],
    now: Instant,
    *,
    may: bool,
    done: str = "",
) -> ObjectPage:
    """Return the page with the policy and the invitations; `may` is whether the role may invite.

    `people` is which users may register apps, as the setting `people_setting` says, "" if none can.
    """
    of_people = (
        (Fact(translatable("Apps registered by users"), (words(_PEOPLE[people], people_setting),)),)
        if people
        else ()
    )
    days = unused_lifetime // _DAY
    unused = words(
        _UNUSED_DAY if days == 1 else _UNUSED, "registration.unused_lifetime", count=days
    )
    return ObjectPage(
        "",
        "",
        _TITLE,
        done=done,
        facts=(
            Fact(
                translatable("Apps that register themselves"),
                (words(_MODES[mode], "registration.mode"),),
            ),
            *of_people,
            Fact(translatable("Unused"), (unused,)),
        ),
        links=(
            (
                "self-registered",
                translatable("Apps that registered themselves"),
                with_query(CLIENTS, {"origin": "self"}),
            ),
        ),
        related=(
            Related(
                "invitations",
                translatable("Invitations"),
                tuple(_line(invitation, now, may=may) for invitation in invitations),
                translatable("No active invitations."),
                add_url=NEW if may else "",
                add_title=translatable("Create invitation"),
            ),
        ),
    )


def invitation_page(token: str, endpoint: str, uses: int, until: str) -> NewSecretPage:
    """Return the page with a new initial access token."""
    return NewSecretPage(
        title=translatable("New invitation"),
        back=REGISTRATION,
        above=_TITLE,
        copied=(
            ShownValue("token", token, COPY_THE_TOKEN, translatable("Initial access token")),
            ShownValue(
                "endpoint",
                endpoint,
                translatable("Copy the address"),
                translatable("Registration endpoint"),
            ),
            ShownValue("until", until, label=translatable("Until")),
        ),
        before=(_FOR_ONE if uses == 1 else _FOR_SEVERAL,),
        values={"count": str(uses)},
    )


def _line(invitation: InvitationShown, now: Instant, *, may: bool) -> Line:
    name = invitation.note or invitation.id
    withdraw = LineButton(
        f"{REGISTRATION}/invitations/{invitation.id}/withdraw",
        translatable("Withdraw"),
        translatable("Withdraw the invitation %(name)s"),
        name,
    )
    left = invitation.uses_left
    more = (
        translatable("for one more app") if left == 1 else translatable("for %(count)s more apps")
    )
    return Line(
        text(name),
        below=(
            words(more, count=left),
            exact(When(Instant(invitation.expires_at), now), translatable("until %(moment)s")),
            since(When(Instant(invitation.created_at), now), translatable("Created")),
        ),
        act=withdraw if may else None,
    )
