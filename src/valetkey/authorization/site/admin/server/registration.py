"""/admin/registration: who may register apps, and invitations for apps to register themselves."""

import re
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.operations.server_records import InvitationMade, InvitationWanted
from valetkey.authorization.operations.settings import INVITE, WITHDRAW_INVITATION
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    administrator,
    with_query,
)
from valetkey.authorization.site.admin.clients.clients import CLIENTS
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_TOKEN,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable
from valetkey.web.body import EMPTY, Form

REGISTRATION = ADDRESSES["admin_registration"]
WITHDRAW = "/admin/registration/invitations/{invitation_id}/withdraw"

_FAULTS = {
    "note": translatable("Use at most 200 visible characters."),
    "uses": translatable("Enter a number from 1 to 1,000,000."),
    "lifetime": translatable("Enter a number of days from 1 to 3650."),
}
_TOO_MANY = translatable("The maximum number of invitations is reached. Withdraw one first.")


class InitialAccessTokenLine(Struct, frozen=True):
    """An invitation that can still be used."""

    id: str
    note: str
    uses_left: int
    since: When
    until: When
    #: The URL that withdraws it; "" if the role may not.
    withdraw_url: str


class RegistrationPage(Struct, frozen=True):
    """The registration policy, and the form for a new invitation.

    `mode` is `off`, `token` or `open`; `people` is which users may register apps: `nobody`,
    `invited`, `verified` or `everyone`, as the setting `people_setting` says.
    """

    template: ClassVar[str] = "admin/server/registration.html"

    action: str
    mode: str
    people: str
    people_setting: str
    unused_days: int
    apps_url: str
    invitations: tuple[InitialAccessTokenLine, ...]
    may_invite: bool = True
    note: str = ""
    uses: str = "1"
    days: str = "7"
    faults: tuple[tuple[str, str], ...] = ()
    withdrawn: bool = False


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


_TITLE = translatable("Registration")
_FOR_ONE = translatable("The token is shown only once. It registers one app.")
_FOR_SEVERAL = translatable("The token is shown only once. It registers up to %(count)s apps.")
_NUMBER = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_DAY = 86_400
_BAD_REQUEST = 400


class Registration(Struct, frozen=True):
    """Show the registration policy; create and withdraw invitations."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the policy with the form for an invitation, and the withdrawal of one."""
        registrar = administrator(Permission.CLIENTS)
        invite = Act(self.invite, requires=registrar)
        return (
            Page(
                REGISTRATION,
                administrator(),
                self.show,
                invite,
                title=_TITLE,
                nav=APPS_AND_APIS,
                docs="how-to/apps/let-apps-register-themselves.html",
            ),
            Page(WITHDRAW, registrar, act=Act(self.withdraw)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the policy and the open invitations."""
        withdrawn = "withdrawn" in request.query
        return await self._page(request, withdrawn=withdrawn)

    async def invite(self, request: AdminRequest) -> Outcome:
        """Create an invitation and show its token once."""
        form = request.form
        body = InvitationWanted(
            (form.get("note") or "").strip(),
            _number(form.get("uses")),
            days(_number(form.get("days"))),
        )
        call = call_of(self.services, INVITE, request.actor, request.now, body=body)
        try:
            made = await value_of(call, InvitationMade)
        except InvalidInput as invalid:
            faults = tuple(
                (
                    each.field,
                    _TOO_MANY if each == tokens.TOO_MANY_INVITATIONS else _FAULTS[each.field],
                )
                for each in invalid.faults
            )
            return await self._page(request, form, faults)
        endpoint = f"{self.services.settings.authorization.url}/oauth/register"
        until = When(Instant(made.record.expires_at), request.now).exact
        return Show(invitation_page(made.token, endpoint, made.record.uses_left, until))

    async def withdraw(self, request: AdminRequest) -> Outcome:
        """Withdraw an invitation. A repeated submit shows the result of the first one."""
        services, actor, path = self.services, request.actor, request.arguments
        call = call_of(services, WITHDRAW_INVITATION, actor, request.now, path)
        try:
            await call.operation.run(call)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.NOT_FOUND:
                raise
        return SeeOther(f"{REGISTRATION}?withdrawn=1")

    async def _page(
        self,
        request: AdminRequest,
        form: Form = EMPTY,
        faults: tuple[tuple[str, str], ...] = (),
        *,
        withdrawn: bool = False,
    ) -> Outcome:
        actor, now = request.actor, request.now
        live = await self.services.store.read(lambda tx: tokens.live(tx, actor, now))
        may = request.permissions.allow(Permission.CLIENTS)
        settings, developers = self.services.settings, self.services.developers
        page = RegistrationPage(
            action=REGISTRATION,
            mode=str(settings.registration.mode),
            people=developers.registrants,
            people_setting=developers.setting,
            unused_days=Lifetime(settings.registration.unused_lifetime) // _DAY,
            apps_url=with_query(CLIENTS, {"origin": "self"}),
            invitations=tuple(_line(each, now, may=may) for each in live),
            may_invite=may,
            note=form.get("note") or "",
            uses="1" if form is EMPTY else form.get("uses") or "",
            days="7" if form is EMPTY else form.get("days") or "",
            faults=faults,
            withdrawn=withdrawn,
        )
        status = _BAD_REQUEST if faults else 200
        return Show(page, status)


def _number(text: str | None) -> int:
    """Return the number in the text, or 0, which is never valid, for any other text."""
    return int(text) if text and _NUMBER.fullmatch(text) else 0


def _line(each: InitialAccessToken, now: Instant, *, may: bool) -> InitialAccessTokenLine:
    return InitialAccessTokenLine(
        id=each.id,
        note=each.note,
        uses_left=each.uses_left,
        since=When(each.created_at, now),
        until=When(each.expires_at, now),
        withdraw_url=f"{REGISTRATION}/invitations/{each.id}/withdraw" if may else "",
    )
