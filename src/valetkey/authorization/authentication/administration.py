"""Sign-in to the administration: a fresh proof, a separate cookie, short lifetimes."""

from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.storage.sign_in.administrations import Administration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.administration import AdministrationSettings
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.secret import (
    FingerprintKey,
    Prefix,
    Secret,
    fresh_secret,
    same,
    well_formed,
)
from valetkey.web.exchange import Request

PURPOSE = "administration"
"""The purpose under which the cookies are fingerprinted."""

_SEEN_EVERY = minutes(1)


@dataclass(frozen=True, slots=True)
class AdministrationCookie:
    """A cookie that no other site can make a browser send, not even by a link to this server."""

    secure: bool

    @property
    def name(self) -> str:
        """The cookie's name."""
        return "__Host-administration" if self.secure else "valetkey-administration"

    def read(self, request: Request) -> str:
        """Return the cookie; "" if it is missing or malformed."""
        value = request.cookie(self.name)
        if value is None or not well_formed(Prefix.ADMINISTRATION, value):
            return ""
        return value

    def set(self, cookie: Secret) -> tuple[str, str]:
        """Set it until the browser is closed or the server ends it."""
        secure = "; Secure" if self.secure else ""
        return (
            "set-cookie",
            f"{self.name}={cookie.reveal()}; Path=/; HttpOnly; SameSite=Strict{secure}",
        )


def fresh_entry(random: Callable[[int], bytes]) -> Secret:
    """Generate the cookie of a sign-in to the administration."""
    return fresh_secret(Prefix.ADMINISTRATION, random)


def enter(
    tx: Transaction,
    session_id: str,
    cookie: Secret,
    key: FingerprintKey,
    settings: AdministrationSettings,
    now: Instant,
) -> None:
    """Sign in a user who has just proved their identity."""
    tx.administrations.enter(
        Administration(
            session_id=session_id,
            fingerprint=key.of(PURPOSE, cookie.reveal()),
            entered_at=now,
            last_seen_at=now,
            expires_at=later(now, settings.lifetime),
        )
    )


def find_entered(
    tx: Transaction,
    session_id: str,
    cookie: str,
    key: FingerprintKey,
    settings: AdministrationSettings,
    now: Instant,
) -> Administration | None:
    """Return the entry of this session with this cookie unless it expired."""
    entry = tx.administrations.find(session_id) if cookie else None
    if entry is None or not same(entry.fingerprint, key.of(PURPOSE, cookie)):
        return None
    # Both lifetimes by the current settings: a shorter one applies at once.
    if later(entry.entered_at, settings.lifetime) <= now:
        return None
    return None if later(entry.last_seen_at, settings.idle) <= now else entry


def is_stale(entry: Administration, now: Instant) -> bool:
    """Return whether its last use should be recorded again; at most once a minute."""
    return later(entry.last_seen_at, _SEEN_EVERY) <= now
