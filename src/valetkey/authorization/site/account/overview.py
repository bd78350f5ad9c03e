"""The overview of an account: apps, sessions, security and recent activity at a glance."""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import connected_apps
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.layout.addresses import SIGN_OUT, START
from valetkey.authorization.layout.contexts import SignedInPerson, When
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.site.account.activity import ActivityLine, latest_activity
from valetkey.authorization.site.page import Outcome, Show
from valetkey.authorization.site.presentation import shown_person
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.url import origin

_MOST = 50
"""Apps listed as links: a user with more has bookmarks."""

_RECENT = 4


class OwnApp(Struct, frozen=True):
    """A connected app that can be opened from here."""

    name: str
    domain: str
    #: An address of this server that leads to the app.
    url: str


class Recommendation(StrEnum):
    """The change that would improve the security of the account most."""

    NOTHING = ""
    EMAIL = "email"  # verify the address
    SECOND_FACTOR = "second_factor"  # a password alone signs in


class OverviewPage(Struct, frozen=True):
    """The context of overview.html. Signing out posts `csrf` to `sign_out_action`."""

    template: ClassVar[str] = "account/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    sign_out_action: str
    csrf: str
    person: SignedInPerson
    #: Connected apps.
    connected: int
    #: Live sessions, this one included.
    sessions: int
    #: When the password was set; None where there is none.
    password_since: When | None
    #: A password alone does not sign in.
    second_factor: bool
    email_verified: bool
    next_step: Recommendation = Recommendation.NOTHING
    #: Those that can be opened from here.
    apps: tuple[OwnApp, ...] = ()
    lines: tuple[ActivityLine, ...] = ()


class Overview(Struct, frozen=True):
    """Show the overview at the root, where a visitor who is not signed in sees another page."""

    store: Store
    sessions: SessionSettings

    async def show(self, signed_in: SignedIn, csrf: str, now: Instant) -> Outcome:
        """The page for a signed-in user; `csrf` is for the button that signs out."""
        return Show(await self.store.scan(lambda tx: self._read(tx, signed_in, csrf, now)))

    def _read(self, tx: Transaction, signed_in: SignedIn, csrf: str, now: Instant) -> OverviewPage:
        user, here = signed_in.user, signed_in.session
        idle = self.sessions.idle
        live = [
            each
            for each in tx.sessions.live_of(user.uid, now)
            if each.id == here.id or later(each.last_seen_at, idle) > now
        ]
        connected = connected_apps(tx, user.uid, now)
        since = tx.users.password_set_at(user.uid)
        second_factor = tx.users.has_second_factor(user.uid)
        return OverviewPage(
            sign_out_action=SIGN_OUT,
            csrf=csrf,
            person=shown_person(signed_in),
            connected=len(connected),
            sessions=len(live),
            password_since=None if since is None else When(since, now),
            second_factor=second_factor,
            email_verified=user.email_verified_at is not None,
            next_step=_next(user, second_factor=second_factor or since is None),
            apps=_to_open([app.client for app in connected]),
            lines=tuple(latest_activity(tx, user.uid, _RECENT, now)),
        )


def _next(user: User, *, second_factor: bool) -> Recommendation:
    if user.email and user.email_verified_at is None:
        return Recommendation.EMAIL
    return Recommendation.NOTHING if second_factor else Recommendation.SECOND_FACTOR


def _to_open(clients: Sequence[Client]) -> tuple[OwnApp, ...]:
    return tuple(
        OwnApp(
            client.name or client.id,
            origin(client.openid.initiate_login_uri).partition("://")[2],
            f"{START}?client_id={quote(client.id, safe='')}",
        )
        for client in clients
        if client.disabled_at is None and client.openid.initiate_login_uri
    )[:_MOST]
