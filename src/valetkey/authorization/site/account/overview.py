"""The overview of an account: apps, sessions, security and recent activity at a glance."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import MOST_APPS
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.layout.addresses import SIGN_OUT, START
from valetkey.authorization.layout.contexts import AccountNotice, CurrentUser, When
from valetkey.authorization.model.user import User
from valetkey.authorization.site.account.activity import ActivityLine, ListedEvents, latest_activity
from valetkey.authorization.site.page import Outcome, Show
from valetkey.authorization.site.presentation import shown_user
from valetkey.authorization.storage.grants import ConnectedName
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import origin

_MOST = 50
"""Maximum number of apps listed as links."""

_MOST_SESSIONS = 1_000

_RECENT = 4


class AppLink(Struct, frozen=True):
    """A connected app that can be opened from the overview."""

    name: str
    domain: str
    #: An address of this server that leads to the app.
    url: str


class Recommendation(StrEnum):
    """The change that would improve the security of the account most."""

    NOTHING = ""
    EMAIL = "email"  # verify the address
    SECOND_FACTOR = "second_factor"  # a password alone signs in


class AccountOverviewPage(Struct, frozen=True):
    """The context of overview.html. Signing out posts `csrf` to `sign_out_action`."""

    template: ClassVar[str] = "account/overview.html"
    title: ClassVar[str] = translatable("Your account")
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    sign_out_action: str
    person: CurrentUser
    #: Connected apps, counted up to a thousand.
    connected: int
    #: Live sessions, this one included, counted up to a thousand.
    sessions: int
    #: When the password was set; None where there is none.
    password_since: When | None
    #: Whether a password alone does not sign in.
    second_factor: bool
    email_verified: bool
    next_step: Recommendation = Recommendation.NOTHING
    #: The apps that can be opened from here.
    apps: tuple[AppLink, ...] = ()
    lines: tuple[ActivityLine, ...] = ()
    notices: tuple[AccountNotice, ...] = ()


class AccountOverview(Struct, frozen=True):
    """Show the overview at the root, where visitors who are not signed in see another page."""

    store: Store
    sessions: SessionSettings
    listed: ListedEvents
    read_notices: Sequence[Callable[[Transaction, User, Instant], Sequence[AccountNotice]]] = ()

    async def show(self, signed_in: SignedIn, now: Instant) -> Outcome:
        """Show the overview to a signed-in user."""
        # Each statement reads few rows, so the page needs no reporting transaction.
        return Show(await self.store.read(lambda tx: self._read(tx, signed_in, now)))

    def _read(self, tx: Transaction, signed_in: SignedIn, now: Instant) -> AccountOverviewPage:
        user, here = signed_in.user, signed_in.session
        seen_after = Instant(now - self.sessions.idle)
        read_summary = tx.users.summary(user.uid, here.id, seen_after, now, _MOST_SESSIONS)
        read_apps = tx.connected.names_of_user(user.uid, now, MOST_APPS)
        lines = latest_activity(tx, self.listed, user.uid, _RECENT, now)
        summary, apps = read_summary(), read_apps()
        since = summary.password_set_at
        return AccountOverviewPage(
            sign_out_action=SIGN_OUT,
            person=shown_user(signed_in),
            connected=len(apps),
            sessions=summary.sessions,
            password_since=None if since is None else When(since, now),
            second_factor=summary.second_factor,
            email_verified=user.email_verified_at is not None,
            next_step=_next(user, second_factor=summary.second_factor or since is None),
            apps=_to_open(apps),
            lines=tuple(lines),
            notices=tuple(notice for read in self.read_notices for notice in read(tx, user, now)),
        )


def _next(user: User, *, second_factor: bool) -> Recommendation:
    if user.email and user.email_verified_at is None:
        return Recommendation.EMAIL
    return Recommendation.NOTHING if second_factor else Recommendation.SECOND_FACTOR


def _to_open(clients: Sequence[ConnectedName]) -> tuple[AppLink, ...]:
    apps = [
        AppLink(
            client.name or client.id,
            origin(client.openid.initiate_login_uri).partition("://")[2],
            f"{START}?client_id={quote(client.id, safe='')}",
        )
        for client in clients
        if client.disabled_at is None and client.openid.initiate_login_uri
    ]
    return tuple(sorted(apps, key=lambda app: (app.name.casefold(), app.url))[:_MOST])
