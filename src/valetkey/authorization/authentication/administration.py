"""Entering administration: a proof of who it is, a cookie of its own, and short times."""

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
    """A cookie that no other site can make a browser send, not even by a link to us."""

    secure: bool

    @property
    def name(self) -> str:
        """The cookie's name."""
        return "__Host-administration" if self.secure else "valetkey-administration"

    def read(self, request: Request) -> str:
        """The cookie, "" for none that could be one."""
        value = request.cookie(self.name)
        if value is None or not well_formed(Prefix.ADMINISTRATION, value):
            return ""
        return value

    def set(self, cookie: Secret) -> tuple[str, str]:
        """Remember it until the browser is closed or the server ends it."""
        secure = "; Secure" if self.secure else ""
        return (
            "set-cookie",
            f"{self.name}={cookie.reveal()}; Path=/; HttpOnly; SameSite=Strict{secure}",
        )


def fresh_entry(random: Callable[[int], bytes]) -> Secret:
    """The cookie of somebody who is about to enter."""
    return fresh_secret(Prefix.ADMINISTRATION, random)


def enter(
    tx: Transaction,
    session_id: str,
    cookie: Secret,
    key: FingerprintKey,
    settings: AdministrationSettings,
    now: Instant,
) -> None:
    """Let them in, who have just proved who they are."""
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
    """The entry of this session with this cookie, unless its time is over."""
    entry = tx.administrations.find(session_id) if cookie else None
    if entry is None or not same(entry.fingerprint, key.of(PURPOSE, cookie)):
        return None
    # Both times by the settings of now: a shorter one counts at once.
    if later(entry.entered_at, settings.lifetime) <= now:
        return None
    return None if later(entry.last_seen_at, settings.idle) <= now else entry


def is_stale(entry: Administration, now: Instant) -> bool:
    """Whether its last use should be noted again; at most once a minute."""
    return later(entry.last_seen_at, _SEEN_EVERY) <= now
