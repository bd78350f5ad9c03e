"""/developer/invitations/{invitation_id}: accept or decline an invitation to a team."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.team import Teams
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.site.developer.app import AppHead
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.words import translatable
from valetkey.web.body import read_query

INVITATIONS = f"{DEVELOPER}/invitations/"


class InvitationPage(Struct, frozen=True):
    """The context of invitation.html. Its form posts `csrf`, `link` and `do`."""

    template: ClassVar[str] = "developer/invitation.html"
    title: ClassVar[str] = translatable("Team invitation")

    action: str
    link: str
    app_name: str
    by: str
    owner: bool


class Invitation(Struct, frozen=True):
    """Show an invitation; accept or decline it, once."""

    store: Store
    teams: Teams

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature. The query of its URL is the secret of the email."""
        act, title = Act(self.answer), translatable("Invitation")
        path = f"{INVITATIONS}{{invitation_id}}"
        return (Page(path, signed_in, self.show, act, title=title, hides_query=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the invitation with its form."""
        link = read_query(request.request.hidden_query).get("link") or ""
        invitation_id, user, now = _named(request), request.user, request.now

        def find(tx: Transaction) -> InvitationPage | None:
            found = self.teams.find(tx, invitation_id, user, link, now)
            client = None if found is None else tx.clients.find(found.client_id)
            if found is None or client is None:
                return None
            by = tx.users.find(found.invited_by)
            return InvitationPage(
                action=f"{INVITATIONS}{invitation_id}",
                link=link,
                app_name=client.name or client.id,
                by="" if by is None else by.name or by.username,
                owner=found.role is TeamRole.OWNER,
            )

        context = await self.store.read(find)
        if context is None:
            raise _over()
        return Show(context)

    async def answer(self, request: SignedInRequest) -> Outcome:
        """Accept or decline the invitation."""
        invitation_id, link = _named(request), request.form.get("link") or ""
        user, now = request.user, request.now
        if request.form.get("do") != "accept":
            declined = await self.store.write(
                lambda tx: self.teams.decline(tx, invitation_id, user, link, now),
                done_by=request.actor,
            )
            if not declined:
                raise _over()
            return SeeOther(DEVELOPER)
        accepted = await self.store.write(
            lambda tx: self.teams.accept(tx, invitation_id, user, link, now),
            done_by=request.actor,
        )
        if accepted is None:
            raise _over()
        return SeeOther(AppHead(accepted.client_id, "").at())


def _named(request: SignedInRequest) -> str:
    named = request.arguments["invitation_id"]
    return named if named.isascii() and named.isprintable() else ""


def _over() -> Refused:
    return Refused.because(
        ErrorCode.NOT_FOUND,
        "this account has no such invitation; if you received it by email, sign in with the "
        "account of that address and open its link again",
        "developer.invitation",
    )
