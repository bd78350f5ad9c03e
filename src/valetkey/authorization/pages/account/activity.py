"""What happened to an account, in plain words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


class Kind(StrEnum):
    """What an event is about."""

    SIGN_IN = "sign_in"
    SECURITY = "security"
    APPS = "apps"
    ACCOUNT = "account"


_TOLD = {
    Kind.SIGN_IN: (
        "session.started",
        "session.renewed",
        "session.ended",
        "sign_in.failed",
        "second_factor.failed",
        "recovery_code.used",
        "device.remembered",
        "device.forgotten",
        "device.stolen",
    ),
    Kind.SECURITY: (
        "password.changed",
        "password.removed",
        "passkey.added",
        "passkey.renamed",
        "passkey.removed",
        "passkey_counter.fallen",
        "authenticator.added",
        "authenticator.removed",
        "recovery_codes.issued",
        "factors.removed",
        "identity.linked",
        "identity.unlinked",
        "password_reset.requested",
        "email.restored",
        "api_token.issued",
        "api_token.ended",
    ),
    Kind.APPS: (
        "consent.given",
        "consent.denied",
        "consent.withdrawn",
        "code.redeemed",
        "grant.revoked",
    ),
    Kind.ACCOUNT: (
        "user.registered",
        "user.changed",
        "user.disabled",
        "user.enabled",
        "user.removed",
        "removal.planned",
        "removal.cancelled",
        "data.exported",
        "role.changed",
        "owner_link.redeemed",
        "developer.admitted",
        "developer.dismissed",
        "team_member.added",
        "team_member.changed",
        "team_member.removed",
    ),
}

TOLD: Mapping[str, Kind] = MappingProxyType(
    {name: kind for kind, names in _TOLD.items() for name in names}
)
"""The events that people are told of; each has its words in parts.html."""

NOT_TOLD: Mapping[str, str] = MappingProxyType(
    {
        "access_token.issued": "each sign-in of an app gives one; code.redeemed tells of it",
        "code.issued": "code.redeemed tells of it a moment later",
        "refresh_token.used": "apps do so every hour; the page of the app says when last",
        "identity.confirmed": "they did so a moment ago, on the way to what is told",
        "logout_token.delivered": "between the server and an app; session.ended tells of it",
        "logout_token.given_up": "the same",
        "mail.dispatched": "the letter itself tells of it",
        "mail.given_up": "whoever runs the server mends that",
    }
)
"""Those that name a person and are not told, and why not."""


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """One event: its name, when it was, and the app that it is about, "" for none.

    `because` is the reason that the event gives, "" for none; `browser` and `system` are those of
    its session, "" where it has none or where that is not known any more.
    """

    name: str
    when: When
    app: str = ""
    because: str = ""
    browser: str = ""
    system: str = ""
    #: Somebody else did it, who runs this server.
    by_others: bool = False


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """List them, newest first. `earlier` is the address of the next page, "" on the last."""

    template: ClassVar[str] = "account/activity.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    lines: tuple[ActivityLine, ...]
    earlier: str = ""
    #: This is not the first page.
    later: bool = False
    #: Only these are listed; None for all.
    kind: Kind | None = None
