"""/account/security: the overview, and changing or removing the password."""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar, Protocol

from msgspec import Struct

from valetkey.authorization.actions.account.factors import remove_password
from valetkey.authorization.actions.account.passwords import (
    NewPassword,
    NewPasswordFault,
    PasswordChange,
)
from valetkey.authorization.authentication.browsers import Browsers, browser_of
from valetkey.authorization.authentication.factors import Factors, forget_device, forget_devices
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.authentication.session import NewSession
from valetkey.authorization.layout.addresses import ADDRESSES, SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import FactorKind, Uid
from valetkey.authorization.site.account.security.confirm import (
    Removed,
    RemovePage,
    require_still_signed_in,
)
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
    confirmed_before,
    confirmed_if_guarded,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.text import translatable

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
                id=passkey.id,
                name=passkey.name,
                synced=passkey.synced,
                since=When(passkey.created_at, now),
                last_used=None if passkey.last_used_at is None else When(passkey.last_used_at, now),
            )
            for passkey in tx.credentials.passkeys_of(uid)
        )
        devices = tuple(
            DeviceLine(
                device.id,
                *browser_of(device.user_agent),
                When(device.changed_at, now),
                here=device.id == here,
            )
            for device in tx.devices.of_user(uid, now)
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


PASSWORD = ADDRESSES["password"]
REMOVE = ADDRESSES["remove_password"]

_FIELDS = ("current", "new", "again")
_RECENT = minutes(5)
_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_TOO_MANY = 429


class PasswordPage(Struct, frozen=True):
    """The context of password.html.

    Its form posts `csrf`, `current`, `new` and `again`. What was typed is secret
    and never shown again.
    """

    template: ClassVar[str] = "account/security/password.html"
    title: ClassVar[str] = translatable("Password")
    scripts: ClassVar[tuple[str, ...]] = ("show.js", "strength.js")

    action: str
    #: Shown, and used by password managers.
    username: str
    #: The least number of characters in a new password.
    shortest: int
    #: When the password was set; None where the account has none.
    since: When | None
    changed: bool = False
    #: Whether the current password was wrong.
    wrong: bool = False
    #: Seconds until another attempt is allowed.
    wait: int = 0
    fault: NewPasswordFault | None = None


class Password(Struct, frozen=True):
    """Change and remove the password of the signed-in user."""

    store: Store
    browsers: Browsers
    change: PasswordChange

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the form, and the confirmation before the password is removed."""
        return (
            # The form asks for the current password: only a second factor adds to that.
            Page(PASSWORD, confirmed_if_guarded, self.show, Act(self.save, opaque=_FIELDS)),
            Page(REMOVE, confirmed, self.ask_to_remove, Act(self.remove)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the password form. "Password changed" is shown only shortly after a change."""
        changed = request.query.get("changed") is not None
        return await self._form(request, None, changed=changed)

    async def save(self, request: SignedInRequest) -> Outcome:
        """Change the password, or show the fault beside its field."""
        now = request.now
        typed = NewPassword(*(request.form.get(name) or "" for name in _FIELDS))
        new = NewSession.fresh(
            request.request.headers.get("user-agent") or "", self.browsers.random
        )
        cookie, address = self.browsers.cookies.session(request.request), request.request.address
        fault = await self.change.change(request.signed_in, typed, cookie, new, address, now)
        if fault is not None:
            return await self._form(request, fault)
        cookies = self.browsers.cookies.begin(new.cookie, request.session.id)
        return SeeOther(f"{PASSWORD}?changed=1", cookies)

    async def ask_to_remove(self, request: SignedInRequest) -> Outcome:
        """Show the confirmation before the password is removed."""
        uid = request.user.uid
        kinds = await self.store.read(lambda tx: tx.credentials.kinds_of(uid))
        if FactorKind.PASSWORD not in kinds:
            return SeeOther(SECURITY)
        impossible = FactorKind.PASSKEY not in kinds
        return Show(RemovePage(REMOVE, Removed.PASSWORD, impossible=impossible))

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove the password."""
        await self.store.write(
            lambda tx: remove_password(
                tx, require_still_signed_in(tx, self.browsers, request), request.now
            ),
            done_by=request.actor,
        )
        return SeeOther(f"{SECURITY}?done=password-removed")

    async def _form(
        self,
        request: SignedInRequest,
        fault: NewPasswordFault | Refusal | None,
        *,
        changed: bool = False,
    ) -> Show:
        user, now = request.user, request.now
        since = await self.store.read(lambda tx: tx.users.password_set_at(user.uid))
        refusal = fault if isinstance(fault, Refusal) else None
        wait = 0 if refusal is None else refusal.retry_after
        context = PasswordPage(
            action=PASSWORD,
            username=user.username,
            shortest=SHORTEST,
            since=None if since is None else When(since, now),
            changed=changed and since is not None and since + _RECENT > now,
            wrong=refusal is not None and not wait,
            wait=wait,
            fault=fault if isinstance(fault, NewPasswordFault) else None,
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if refusal else _BAD_REQUEST if fault else 200
        return Show(context, status, (("retry-after", str(wait)),) if wait else ())
