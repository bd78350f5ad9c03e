"""/account/data and /account/delete: download one's data, schedule the deletion of the account."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import connected_apps
from valetkey.authorization.actions.account.removal import ExportOrigin, Removal, export
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.layout.addresses import ADDRESSES, SIGN_IN
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import fold
from valetkey.authorization.site.page import (
    Act,
    Download,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmation_needed,
    confirmed,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

DATA = ADDRESSES["data"]


class DataPage(Struct, frozen=True):
    """The context of data.html. Its form posts `csrf`; the answer is the file."""

    template: ClassVar[str] = "account/data.html"

    action: str
    #: The URL of the API, which stores more; "" if there is none.
    api: str
    #: The user confirmed who they are a moment ago, so the button downloads at once.
    proved: bool = False


class Data(Struct, frozen=True):
    """Show the data page, and send the export."""

    store: Store
    browsers: Browsers
    brands: CurrentBrand
    api: str

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        act = Act(self.download, requires=confirmed)
        return (Page(DATA, signed_in, self.show, act, title=translatable("Your data"), nav=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show what the export contains, with the button that downloads it."""
        session = request.session
        # A user who signed in a moment ago was not asked to authenticate again.
        proved = session.proved_at > session.created_at and not await confirmation_needed(
            self.browsers, request
        )
        return Show(DataPage(DATA, self.api, proved=proved))

    async def download(self, request: SignedInRequest) -> Outcome:
        """Send the export as a file."""
        now, session = request.now, request.session.id
        origin = ExportOrigin(self.brands.current.name, self.browsers.issuer, self.api)

        def export_own(tx: Transaction) -> bytes | None:
            asking = find_still_signed_in(tx, session, self.browsers.sessions, now)
            return None if asking is None else export(tx, asking.user, origin, now)

        file = await self.store.write(export_own, done_by=request.actor)
        if file is None:
            return SeeOther(SIGN_IN)
        return Download("account.json", "application/json", file)


REMOVAL = ADDRESSES["removal"]

_BAD_REQUEST = 400
_CONFLICT = 409
_DAY = 86_400


class OwnedApp(Struct, frozen=True):
    """An app that would be left without an owner."""

    client_id: str
    name: str


class RemovalPage(Struct, frozen=True):
    """The context of removal.html. Its form posts `csrf` and `username`."""

    template: ClassVar[str] = "account/removal.html"
    title: ClassVar[str] = translatable("Delete your account?")

    action: str
    username: str
    apps: int
    sessions: int
    #: The grace period in days.
    days: int
    #: Apps that must be transferred or deleted first.
    owned: tuple[OwnedApp, ...] = ()
    #: The user is the only owner of this server.
    last_owner: bool = False
    typed: str = ""
    #: Whether the typed text is not the username.
    wrong: bool = False


class RemovalPlannedPage(Struct, frozen=True):
    """The context of removal_planned.html, shown to a user who was just signed out."""

    template: ClassVar[str] = "account/removal_planned.html"
    title: ClassVar[str] = translatable("Your account will be deleted")

    due: When
    sign_in_url: str


class RemoveAccount(Struct, frozen=True):
    """Ask for confirmation, then schedule the deletion and sign out everywhere."""

    store: Store
    browsers: Browsers
    removal: Removal

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        return (Page(REMOVAL, confirmed, self.show, Act(self.remove), under=DATA),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show what the deletion would end, and ask for confirmation."""
        return await self._form(request)

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Schedule the deletion and sign the user out everywhere."""
        user, typed = request.user, request.form.get("username") or ""
        if fold(typed) != fold(user.username):
            return await self._form(request, _BAD_REQUEST, typed=typed)
        now, session = request.now, request.session.id

        def plan(tx: Transaction) -> Instant | None:
            asking = find_still_signed_in(tx, session, self.browsers.sessions, now)
            mine = None if asking is None else tx.users.find_to_change(asking.user.uid)
            return None if mine is None else self.removal.plan(tx, mine, now)

        try:
            due = await self.store.write(plan, done_by=request.actor)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            return await self._form(request, _CONFLICT, last_owner=True)
        if due is None:
            return await self._form(request, _CONFLICT)
        return Show(
            RemovalPlannedPage(When(due, now), SIGN_IN), headers=self.browsers.cookies.end()
        )

    async def _form(
        self,
        request: SignedInRequest,
        status: int = 200,
        *,
        typed: str = "",
        last_owner: bool = False,
    ) -> Show:
        context = await self.store.scan(lambda tx: self._read(tx, request))
        context = replace(
            context,
            typed=typed,
            wrong=status == _BAD_REQUEST,
            last_owner=last_owner or context.last_owner,
        )
        return Show(context, status)

    def _read(self, tx: Transaction, request: SignedInRequest) -> RemovalPage:
        user, now = request.user, request.now
        seen_after = Instant(now - self.browsers.sessions.idle)
        return RemovalPage(
            action=REMOVAL,
            username=user.username,
            apps=len(connected_apps(tx, user.uid, now)),
            sessions=len(tx.sessions.active_of(user.uid, seen_after, now)),
            days=max(1, self.removal.grace // _DAY),
            owned=tuple(
                OwnedApp(app.id, app.name or app.id)
                for app in self.removal.apps_without_other_owner(tx, user)
            ),
            last_owner=self.removal.is_last_owner(tx, user),
        )
