"""/account/security/authenticator: set up an authenticator app, or remove it."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.factors import (
    FreshCodes,
    add_authenticator,
    remove_authenticator,
)
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.factors import typed_codes
from valetkey.authorization.authentication.factors.proof import Factors
from valetkey.authorization.email.notices import Notices, SignInMethod
from valetkey.authorization.layout.addresses import SECURITY
from valetkey.authorization.layout.drawing import qr_code
from valetkey.authorization.model.account.factors import Authenticator
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.site.account.security.confirm import (
    RecentProof,
    Removed,
    RemovePage,
    require_still_signed_in,
)
from valetkey.authorization.site.account.security.recovery_codes import show_codes
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.seal import Ticket, open_ticket, seal_ticket
from valetkey.kernel.secret import fresh_id

NEW = "/account/security/authenticator/new"
REMOVE = "/account/security/authenticator/remove"

_SETUP = minutes(15)
_PURPOSE = "authenticator"
_BAD_REQUEST = 400


class _Setup(Ticket, frozen=True, array_like=True, kw_only=True):
    """A secret that is stored once a code of it was typed in the session that was shown it."""

    key: bytes
    session: str


class NewAuthenticatorPage(Struct, frozen=True):
    """The context of new_authenticator.html: a secret to scan or to type.

    Its form posts `csrf`, `setup` (the secret, sealed) and `code`.
    """

    template: ClassVar[str] = "account/security/new_authenticator.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    action: str
    csrf: str
    setup: str
    #: The dark squares of the QR code as an SVG path, in a square of so many units.
    picture: str
    size: int
    #: The same as text.
    key: str
    wrong: bool = False


class AuthenticatorApp(Struct, frozen=True):
    """Set up and remove the authenticator app of the signed-in user."""

    store: Store
    browsers: Browsers
    factors: Factors
    notices: Notices

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """The set-up, and the question before it is removed."""
        return (
            Page(NEW, confirmed, self.show, Act(self.add, opaque=("code", "setup"))),
            Page(REMOVE, confirmed, self.ask_to_remove, Act(self.remove)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """A new secret; nothing is stored before a code of it comes back."""
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
        """Store it if the code is right; show recovery codes with the first factor."""
        now, user = request.now, request.user
        sealed = request.form.get("setup") or ""
        setup = open_ticket(sealed, _Setup, _PURPOSE, self.browsers.keyring.sealer, _SETUP, now)
        if setup is None or setup.uid != user.uid or setup.session != request.session.id:
            # Expired, or shown to somebody else: start again.
            return SeeOther(NEW)
        step = typed_codes.step_of(setup.key, request.form.get("code") or "", now)
        if step is None:
            return self._form(request, setup, wrong=True)
        blank = Authenticator(fresh_id("cr", self.browsers.random), user.uid, "", now)
        authenticator = self.factors.sealed(blank, setup.key)
        fresh, key = FreshCodes.draw(self.browsers.random), self.browsers.keyring.fingerprint_key
        proof = RecentProof.of(self.browsers, request)
        methods = (Method.ONE_TIME_CODE.value, Method.SEVERAL.value)

        def add(tx: Transaction) -> tuple[tuple[str, ...], bool] | None:
            there = require_still_signed_in(tx, self.browsers, request)
            codes = add_authenticator(tx, there, authenticator, step, fresh, key, now)
            if codes is None:
                return None
            self.notices.way_in_added(tx, there, SignInMethod.AUTHENTICATOR, now)
            return codes, proof.note(tx, methods)

        added = await self.store.write(add, done_by=request.actor)
        if added is None:
            return SeeOther(SECURITY)
        codes, noted = added
        cookies = (*request.headers, *proof.cookies) if noted else request.headers
        if codes:
            return replace(show_codes(self.factors, request, codes), headers=cookies)
        return SeeOther(f"{SECURITY}?done=authenticator-added", cookies)

    async def ask_to_remove(self, request: SignedInRequest) -> Outcome:
        """The question."""
        uid = request.user.uid

        def is_last(tx: Transaction) -> bool | None:
            if tx.credentials.authenticator_of(uid) is None:
                return None
            return not tx.credentials.passkeys_of(uid)

        last = await self.store.read(is_last)
        if last is None:
            return SeeOther(SECURITY)
        return Show(RemovePage(REMOVE, request.csrf, Removed.AUTHENTICATOR, last=last))

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove it."""
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
            action=NEW,
            csrf=request.csrf,
            setup=seal_ticket(setup, _PURPOSE, self.browsers.keyring.sealer, self.browsers.random),
            picture=picture,
            size=size,
            key=typed_codes.written(setup.key),
            wrong=wrong,
        )
        return Show(context, _BAD_REQUEST if wrong else 200)
