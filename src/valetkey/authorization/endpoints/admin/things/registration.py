"""/admin/registration: who may register apps, and invitations for apps to register themselves."""

import re
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.permissions import Permission, powers_of
from valetkey.authorization.deeds.admin.things import registration
from valetkey.authorization.deeds.admin.things.registration import (
    FreshInvitation,
    WantedInvitation,
)
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.things.addresses import (
    CLIENTS,
    REGISTRATION,
    with_query,
)
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.admin.things.server.registration import (
    InvitationLine,
    InvitationPage,
    RegistrationPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.invitations import Invitation
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.web.exchange import Request, Response
from valetkey.web.form import EMPTY, Form, read_query

_NUMBER = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_DAY = 86_400
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class RegistrationEndpoint:
    """The policy and the invitations."""

    site: Site
    settings: Settings

    async def get(self, request: Request) -> Response:
        """Both."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        withdrawn = "withdrawn" in read_query(request.query)
        return await self._page(request, seen, withdrawn=withdrawn)

    async def invite(self, request: Request) -> Response:
        """Make an invitation and show it this once."""
        found = await administered_form(self.site, request, Permission.CLIENTS)
        if isinstance(found, Response):
            return found
        seen, form = found
        wanted = WantedInvitation(
            (form.get("note") or "").strip(),
            _number(form.get("uses")),
            days(_number(form.get("days"))),
        )
        actor, fresh = actor_of(seen), FreshInvitation.draw(self.site.random)
        key = self.site.keyring.fingerprint_key
        made = await self.site.store.write(
            lambda tx: registration.invite(tx, actor, key, wanted, fresh, request.at),
            done_by=actor.done_by,
        )
        if isinstance(made, tuple):
            faults = tuple((fault.field, fault.detail) for fault in made)
            return await self._page(request, seen, form, faults)
        page = InvitationPage(
            back=REGISTRATION,
            token=fresh.token.reveal(),
            endpoint=f"{self.site.issuer}/oauth/register",
            uses=made.uses_left,
            until=When(made.expires_at, request.at).exact,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def withdraw(self, request: Request) -> Response:
        """Take one back. Who presses twice sees what the first press did."""
        found = await administered_form(self.site, request, Permission.CLIENTS)
        if isinstance(found, Response):
            return found
        actor, named = actor_of(found[0]), request.arguments["invitation_id"]
        if named.isascii() and named.isprintable():
            await self.site.store.write(
                lambda tx: registration.withdraw(tx, actor, named, request.at),
                done_by=actor.done_by,
            )
        return self.site.goes_to(f"{REGISTRATION}?withdrawn=1")

    async def _page(
        self,
        request: Request,
        seen: Visit,
        form: Form = EMPTY,
        faults: tuple[tuple[str, str], ...] = (),
        *,
        withdrawn: bool = False,
    ) -> Response:
        actor, now = actor_of(seen), request.at
        live = await self.site.store.read(lambda tx: registration.live(tx, actor, now))
        may = powers_of(seen.signed_in.user.role).allow(Permission.CLIENTS)
        settings = self.settings
        page = RegistrationPage(
            action=REGISTRATION,
            csrf=seen.csrf,
            mode=str(settings.registration.mode),
            people=str(settings.portal.who),
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
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)


def _number(text: str | None) -> int:
    """The number, 0 for what is none: that is never right."""
    return int(text) if text and _NUMBER.fullmatch(text) else 0


def _line(each: Invitation, now: Instant, *, may: bool) -> InvitationLine:
    return InvitationLine(
        id=each.id,
        note=each.note,
        uses_left=each.uses_left,
        since=When(each.created_at, now),
        until=When(each.expires_at, now).exact,
        withdraw_url=f"{REGISTRATION}/invitations/{each.id}/withdraw" if may else "",
    )
