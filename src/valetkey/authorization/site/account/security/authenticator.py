"""/account/security/authenticator and /recovery-codes: second factors entered as codes."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.factors import (
    FreshCodes,
    add_authenticator,
    issue_recovery_codes,
    remove_authenticator,
)
from valetkey.authorization.authentication import factors as typed_codes
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.factors import Factors
from valetkey.authorization.email.notices import Notices, SignInMethod
from valetkey.authorization.layout.addresses import ADDRESSES, HOME, SECURITY
from valetkey.authorization.layout.contexts import When, qr_code
from valetkey.authorization.model.user import Authenticator
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.account.security.confirm import (
    RecentProof,
    Removed,
    RemovePage,
    address_after,
    back_of,
    require_still_signed_in,
    target_of,
)
from valetkey.authorization.site.page import (
    Act,
    Download,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
    confirmed_to_add_factor,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.keyring import Ticket, open_ticket, seal_ticket
from valetkey.kernel.moment import later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.text import translatable

RECOVERY_CODES = ADDRESSES["recovery_codes"]
DOWNLOAD = "/account/security/recovery-codes/download"

_SHOWN = minutes(15)
_RECOVERY_CODES = "recovery codes"


class _Shown(Ticket, frozen=True, array_like=True, kw_only=True):
    """The codes on a page, encrypted, so that a download contains the same ones."""

    codes: tuple[str, ...]


class RecoveryPage(Struct, frozen=True):
    """The context of recovery_codes.html. Its form posts `csrf` for a new set."""

    template: ClassVar[str] = "account/security/recovery_codes.html"

    action: str
    left: int
    since: When | None = None


class RecoveryCodesPage(Struct, frozen=True):
    """The context of new_recovery_codes.html.

    Its form posts `csrf` and `codes` (the set, sealed) for the file.
    """

    template: ClassVar[str] = "account/security/new_recovery_codes.html"
    title: ClassVar[str] = translatable("Save your recovery codes")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    download: str
    sealed: str
    codes: tuple[str, ...]
    #: Where the user was going when a second factor was required; "" for the overview of security.
    continue_url: str = ""


class RecoveryCodePages(Struct, frozen=True):
    """Issue recovery codes to the signed-in user; they are shown once."""

    store: Store
    browsers: Browsers
    factors: Factors

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page, and the form that downloads the codes that were just issued."""
        title = translatable("Recovery codes")
        return (
            Page(RECOVERY_CODES, confirmed, self.show, Act(self.issue), title=title),
            Page(DOWNLOAD, signed_in, act=Act(self.download)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the number of recovery codes left."""
        uid, now = request.user.uid, request.now

        def read(tx: Transaction) -> RecoveryPage | None:
            if not tx.users.has_second_factor(uid):
                return None
            codes = tx.credentials.recovery_codes_of(uid)
            since = None if codes.made_at is None else When(codes.made_at, now)
            return RecoveryPage(RECOVERY_CODES, codes.left, since)

        context = await self.store.read(read)
        # Without a second factor, recovery codes are not needed.
        return SeeOther(SECURITY) if context is None else Show(context)

    async def issue(self, request: SignedInRequest) -> Outcome:
        """Issue new recovery codes, which replace the old ones, and show them once."""
        now = request.now
        fresh, key = FreshCodes.draw(self.browsers.random), self.browsers.keyring.fingerprint_key

        def issue(tx: Transaction) -> tuple[str, ...]:
            user = require_still_signed_in(tx, self.browsers, request)
            # Locked: the parallel removal of the second factor removes its codes, too.
            tx.users.find_to_change(user.uid)
            if not tx.users.has_second_factor(user.uid):
                return ()
            return issue_recovery_codes(tx, user, fresh, key, now)

        codes = await self.store.write(issue, done_by=request.actor)
        return show_codes(self.factors, request, codes) if codes else SeeOther(SECURITY)

    async def download(self, request: SignedInRequest) -> Outcome:
        """Send the recovery codes that a page has just shown, as a file."""
        sealer = self.browsers.keyring.sealer
        sealed = request.form.get("codes") or ""
        shown = open_ticket(sealed, _Shown, _RECOVERY_CODES, sealer, _SHOWN, request.now)
        if shown is None or shown.uid != request.user.uid:
            return SeeOther(RECOVERY_CODES)
        lines = (f"{self.browsers.issuer}  {request.user.username}", "", *shown.codes, "")
        return Download("recovery-codes.txt", "text/plain", "\r\n".join(lines).encode())


def show_codes(factors: Factors, request: SignedInRequest, codes: tuple[str, ...]) -> Show:
    """Return the page that shows new codes, once."""
    shown = _Shown(
        uid=request.user.uid, browser="", expires_at=later(request.now, _SHOWN), codes=codes
    )
    sealed = seal_ticket(shown, _RECOVERY_CODES, factors.keyring.sealer, factors.random)
    required = request.signed_in.must_add_factor
    way = address_after(target_of(request.request)) or (HOME if required else "")
    return Show(RecoveryCodesPage(DOWNLOAD, sealed, codes, way))


NEW = ADDRESSES["new_authenticator"]
REMOVE = ADDRESSES["remove_authenticator"]

_SETUP = minutes(15)
_PURPOSE = "authenticator"
_BAD_REQUEST = 400


class _Setup(Ticket, frozen=True, array_like=True, kw_only=True):
    """A secret that is stored once a code generated from it was entered in the same session."""

    key: bytes
    session: str


class NewAuthenticatorPage(Struct, frozen=True):
    """The context of new_authenticator.html: a secret to scan or to type.

    Its form posts `csrf`, `setup` (the secret, sealed) and `code`.
    """

    template: ClassVar[str] = "account/security/new_authenticator.html"
    title: ClassVar[str] = translatable("Set up an authenticator app")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    action: str
    setup: str
    #: The dark squares of the QR code as an SVG path, in a square of so many units.
    picture: str
    size: int
    #: The same as text.
    key: str
    wrong: bool = False
    #: The page that requires a second factor; "" if none is required.
    back: str = ""


class AuthenticatorApp(Struct, frozen=True):
    """Set up and remove the authenticator app of the signed-in user."""

    store: Store
    browsers: Browsers
    factors: Factors
    notices: Notices

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the set-up, and the confirmation before it is removed."""
        return (
            Page(NEW, confirmed_to_add_factor, self.show, Act(self.add, opaque=("code", "setup"))),
            Page(REMOVE, confirmed, self.ask_to_remove, Act(self.remove)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show a new secret, which is stored once a code of it is submitted."""
        uid = request.user.uid
        present = await self.store.read(lambda tx: tx.credentials.authenticator_of(uid))
        if present is not None:
            return SeeOther(SECURITY)
        setup = _Setup(
            uid=uid,
            browser="",
            expires_at=later(request.now, _SETUP),
            key=typed_codes.fresh_key(self.browsers.random),
            session=request.session.id,
        )
        return self._form(request, setup)

    async def add(self, request: SignedInRequest) -> Outcome:
        """Store the app if the code is valid; show recovery codes for a first factor."""
        now, user = request.now, request.user
        sealed = request.form.get("setup") or ""
        setup = open_ticket(sealed, _Setup, _PURPOSE, self.browsers.keyring.sealer, _SETUP, now)
        if setup is None or setup.uid != user.uid or setup.session != request.session.id:
            # Expired, or of another user: start again.
            return SeeOther(target_of(request.request).address_of(NEW))
        step = typed_codes.step_of(setup.key, request.form.get("code") or "", now)
        if step is None:
            return self._form(request, setup, wrong=True)
        blank = Authenticator(fresh_id("cr", self.browsers.random), user.uid, "", now)
        authenticator = self.factors.sealed(blank, setup.key)
        fresh, key = FreshCodes.draw(self.browsers.random), self.browsers.keyring.fingerprint_key
        proof = RecentProof.for_request(self.browsers, request)
        methods = (Amr.ONE_TIME_CODE.value, Amr.SEVERAL.value)

        def add(tx: Transaction) -> tuple[tuple[str, ...], bool] | None:
            there = require_still_signed_in(tx, self.browsers, request)
            codes = add_authenticator(
                tx, there, authenticator, step, fresh, key, now, session_id=request.session.id
            )
            if codes is None:
                return None
            self.notices.sign_in_method_added(tx, there, SignInMethod.AUTHENTICATOR, now)
            return codes, proof.record(tx, methods)

        added = await self.store.write(add, done_by=request.actor)
        if added is None:
            return SeeOther(SECURITY)
        codes, noted = added
        cookies = (*request.headers, *proof.cookies) if noted else request.headers
        if codes:
            return replace(show_codes(self.factors, request, codes), headers=cookies)
        return SeeOther(f"{SECURITY}?done=authenticator-added", cookies)

    async def ask_to_remove(self, request: SignedInRequest) -> Outcome:
        """Ask before the authenticator app is removed."""
        uid = request.user.uid

        def is_last(tx: Transaction) -> bool | None:
            if tx.credentials.authenticator_of(uid) is None:
                return None
            return not tx.credentials.passkeys_of(uid)

        last = await self.store.read(is_last)
        if last is None:
            return SeeOther(SECURITY)
        return Show(RemovePage(REMOVE, Removed.AUTHENTICATOR, last=last))

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove the authenticator app."""
        await self.store.write(
            lambda tx: remove_authenticator(
                tx, require_still_signed_in(tx, self.browsers, request), request.now
            ),
            done_by=request.actor,
        )
        return SeeOther(f"{SECURITY}?done=authenticator-removed")

    def _form(self, request: SignedInRequest, setup: _Setup, *, wrong: bool = False) -> Show:
        address = typed_codes.address(setup.key, self.factors.name(), request.user.username)
        picture, size = qr_code(address)
        context = NewAuthenticatorPage(
            action=target_of(request.request).address_of(NEW),
            setup=seal_ticket(setup, _PURPOSE, self.browsers.keyring.sealer, self.browsers.random),
            picture=picture,
            size=size,
            key=typed_codes.written(setup.key),
            wrong=wrong,
            back=back_of(request),
        )
        return Show(context, _BAD_REQUEST if wrong else 200)
