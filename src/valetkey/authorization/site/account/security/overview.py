"""/account/security: password, passkeys, authenticator app, recovery codes, remembered devices."""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar, Protocol

from msgspec import Struct

from valetkey.authorization.authentication.browsers import Browsers, browser_of
from valetkey.authorization.authentication.factors import Factors, forget_device, forget_devices
from valetkey.authorization.layout.addresses import SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import Uid
from valetkey.authorization.site.account.security.confirm import require_still_signed_in
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed_before,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.words import translatable

DEVICES = "/account/security/devices"


class DoneMessage(StrEnum):
    """The messages after an action."""

    PASSKEY_ADDED = "passkey-added"
    PASSKEY_RENAMED = "passkey-renamed"
    PASSKEY_REMOVED = "passkey-removed"
    AUTHENTICATOR_ADDED = "authenticator-added"
    AUTHENTICATOR_REMOVED = "authenticator-removed"
    PASSWORD_REMOVED = "password-removed"
    DEVICE_FORGOTTEN = "device-forgotten"


class PasskeyLine(Struct, frozen=True):
    """One passkey; a `synced` one is on other devices of its user too."""

    id: str
    name: str
    synced: bool
    since: When
    last_used: When | None = None


class DeviceLine(Struct, frozen=True):
    """A browser that skips the second factor; "" if the browser is unknown."""

    id: str
    browser: str
    system: str
    last_used: When
    here: bool = False


class SecuritySection(Protocol):
    """A section that a feature adds: its template, whose variable `section` it is."""

    template: ClassVar[str]


SecuritySections = Callable[[Transaction, Uid], tuple[SecuritySection, ...]]
"""The sections of a feature for a user."""


class SecurityPage(Struct, frozen=True):
    """The context of overview.html.

    Its forms post `csrf`, and `device` for one of the devices.
    """

    template: ClassVar[str] = "account/security/overview.html"

    devices_action: str
    #: None if the account has no password.
    password_since: When | None
    passkeys: tuple[PasskeyLine, ...] = ()
    #: False where the address of this server allows no passkeys.
    can_have_passkeys: bool = True
    authenticator_since: When | None = None
    recovery_left: int = 0
    devices: tuple[DeviceLine, ...] = ()
    #: What features add.
    sections: tuple[SecuritySection, ...] = ()
    done: DoneMessage | None = None

    @property
    def has_second_factor(self) -> bool:
        """Whether signing in takes more than a password."""
        return bool(self.passkeys) or self.authenticator_since is not None


class Security(Struct, frozen=True):
    """Show every way to sign in to the account, and forget remembered devices."""

    store: Store
    browsers: Browsers
    factors: Factors
    sections: tuple[SecuritySections, ...] = ()

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the overview, and the form of its list of devices."""
        delete_devices = Page(DEVICES, confirmed_before(SECURITY), act=Act(self.forget_devices))
        return (
            Page(
                SECURITY,
                signed_in,
                self.show,
                title=translatable("Security"),
                nav=True,
                docs="how-to/people/second-factors.html",
            ),
            delete_devices,
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the sign-in methods; `done` in the query repeats the previous page's message."""
        here = self.browsers.cookies.device.read(request.request).partition(".")[0]
        done = request.query.get("done") or ""
        return Show(await self.store.scan(lambda tx: self._read(tx, request, here, done)))

    async def forget_devices(self, request: SignedInRequest) -> Outcome:
        """Forget the named remembered device, or all of them if none is named."""
        only = request.form.get("device")

        def delete_devices(tx: Transaction) -> bool:
            user = require_still_signed_in(tx, self.browsers, request)
            if only is None:
                forget_devices(tx, user.uid, request.now)
                return True
            return forget_device(tx, user.uid, only, request.now)

        if only is not None and not (only.isascii() and only.isprintable()):
            raise not_found("device")
        if not await self.store.write(delete_devices, done_by=request.actor):
            raise not_found("device")
        return SeeOther(f"{SECURITY}?done=device-forgotten")

    def _read(
        self, tx: Transaction, request: SignedInRequest, here: str, done: str
    ) -> SecurityPage:
        uid, now = request.user.uid, request.now
        since = tx.users.password_set_at(uid)
        authenticator = tx.credentials.authenticator_of(uid)
        passkeys = tuple(
            PasskeyLine(
                id=each.id,
                name=each.name,
                synced=each.synced,
                since=When(each.created_at, now),
                last_used=None if each.last_used_at is None else When(each.last_used_at, now),
            )
            for each in tx.credentials.passkeys_of(uid)
        )
        devices = tuple(
            DeviceLine(
                each.id,
                *browser_of(each.user_agent),
                When(each.changed_at, now),
                here=each.id == here,
            )
            for each in tx.devices.of(uid, now)
        )
        return SecurityPage(
            devices_action=DEVICES,
            password_since=None if since is None else When(since, now),
            passkeys=passkeys,
            can_have_passkeys=bool(self.factors.passkeys.domain),
            authenticator_since=None
            if authenticator is None
            else When(authenticator.created_at, now),
            recovery_left=tx.credentials.recovery_codes_of(uid).left,
            devices=devices,
            sections=tuple(section for sections in self.sections for section in sections(tx, uid)),
            done=DoneMessage(done) if done in set(DoneMessage) else None,
        )
