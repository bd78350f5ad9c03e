"""/account/confirm and /account/security/second-factor: proof before anything else."""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.factors import (
    Factors,
    SubmittedFactor,
    VerificationFailed,
    VerifiedPasskey,
)
from valetkey.authorization.authentication.password import PasswordSignIn
from valetkey.authorization.authentication.session import (
    NewSession,
    find_still_signed_in,
    record_authentication,
)
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.endpoints.authorize.pending import sealed_in
from valetkey.authorization.layout.addresses import (
    ADDRESSES,
    AUTHORIZE,
    HOME,
    REQUIRED_FACTOR,
    safe_return_path,
)
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.model.user import FactorKind, Passkey, User
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.page import (
    CONFIRM,
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmation_page,
    signed_in_to_add_factor,
)
from valetkey.authorization.site.presentation import shown_user
from valetkey.authorization.site.sign_in.flow import ReturnTarget
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import read_query
from valetkey.web.exchange import Pairs, Request


def require_still_signed_in(tx: Transaction, browsers: Browsers, request: SignedInRequest) -> User:
    """Return the user within the transaction. Refused (forbidden) if the session has ended."""
    signed_in = find_still_signed_in(tx, request.session.id, browsers.sessions, request.now)
    if signed_in is None or signed_in.user.uid != request.user.uid:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "you have been signed out; sign in and try again",
            "account.signed_out",
        )
    return signed_in.user


class RecentProof(Struct, frozen=True):
    """Count the addition of a factor as recent authentication.

    Otherwise the user would have to authenticate again at once.
    """

    browsers: Browsers
    request: SignedInRequest
    new: NewSession

    @staticmethod
    def for_request(browsers: Browsers, request: SignedInRequest) -> "RecentProof":
        """Return the recent proof for one request."""
        agent = request.request.headers.get("user-agent") or ""
        return RecentProof(browsers, request, NewSession.fresh(agent, browsers.random))

    def record(self, tx: Transaction, methods: tuple[str, ...]) -> bool:
        """Record the proof under a new session cookie. False if another request was faster."""
        now = self.request.now
        asking = find_still_signed_in(tx, self.request.session.id, self.browsers.sessions, now)
        if asking is None:
            return False
        cookie = self.browsers.cookies.session(self.request.request)
        key = self.browsers.keyring.fingerprint_key
        return record_authentication(tx, cookie, self.new, asking, key, now, methods=methods)

    @property
    def cookies(self) -> Pairs:
        """Return the headers that set the session cookie."""
        return self.browsers.cookies.begin(self.new.cookie, self.request.session.id)


class Removed(StrEnum):
    """The kinds of factors that can be removed."""

    PASSKEY = "passkey"
    AUTHENTICATOR = "authenticator"
    PASSWORD = "password"


class RemovePage(Struct, frozen=True):
    """The context of remove.html. Its form posts `csrf`."""

    template: ClassVar[str] = "account/security/remove.html"

    action: str
    what: Removed
    #: The name of the passkey.
    name: str = ""
    #: Whether it is the last second factor of the account.
    last: bool = False
    #: Whether the user could no longer sign in.
    impossible: bool = False


PURPOSE = "confirm"
"""The purpose of the challenge for a passkey."""

_OPAQUE = ("password", "code", "recovery", "credential")
_UNAUTHORIZED = 401
_TOO_MANY = 429


class ConfirmFactorPage(Struct, frozen=True):
    """Ask for the strongest factor of the account. Context of confirm.html.

    Its form posts `csrf` and `password`; or `credential`, `code` or `recovery` for a second factor.
    """

    template: ClassVar[str] = "account/security/confirm.html"
    title: ClassVar[str] = translatable("Confirm your identity")
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js", "show.js")

    action: str
    person: CurrentUser
    #: For password managers.
    username: str
    #: Whether the account has a password, and nothing stronger.
    by_password: bool = True
    #: The options for using a passkey, as JSON; "" if the account has none.
    passkey: str = ""
    has_code: bool = False
    has_recovery: bool = False
    #: The wrong factor: "password", "passkey", "code" or "recovery"; "" for none.
    wrong: str = ""
    #: Seconds until another attempt is allowed.
    wait: int = 0
    #: Whether a form was submitted that has to be submitted again.
    repeats: bool = False


class Confirm(Struct, frozen=True):
    """Ask for the strongest factor of the account, and verify it."""

    store: Store
    browsers: Browsers
    factors: Factors
    notices: Notices
    passwords: PasswordSignIn

    @property
    def password(self) -> PasswordSignIn:
        """Return the password check of this page, which counts failures separately."""
        return replace(self.passwords, channel="confirm")

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        act = Act(self.verify_factor, opaque=_OPAQUE)
        return (Page(CONFIRM, signed_in_to_add_factor, self.show, act),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the form that asks for the password or another proof."""
        return await self._form(request)

    async def verify_factor(self, request: SignedInRequest) -> Outcome:
        """Verify the factor, and redirect to the page that required it."""
        user, form = request.user, request.form
        guarded = await self.store.read(lambda tx: tx.users.has_second_factor(user.uid))
        if guarded:
            return await self._by_factor(request)
        proof = RecentProof.for_request(self.browsers, request)
        noted: list[bool] = []
        judged = await self.password.authenticate(
            user.username,
            form.get("password") or "",
            request.request.address,
            request.now,
            lambda tx, who: noted.append(
                who.uid == user.uid and proof.record(tx, (Amr.PASSWORD.value,))
            ),
            self.browsers.known_browser(request.request).mark,
        )
        if isinstance(judged, Refusal):
            return await self._form(request, "password", judged.retry_after)
        return _go_on(request, proof, noted=noted[-1])

    async def _by_factor(self, request: SignedInRequest) -> Outcome:
        now, user, form = request.now, request.user, request.form
        shown = SubmittedFactor(
            form.get("code") or "", form.get("recovery") or "", form.get("credential") or ""
        )
        if shown == SubmittedFactor():
            # With a second factor, a password alone is not enough.
            return await self._form(request, "password" if "password" in form else "code")
        looked: VerifiedPasskey | None = None
        if shown.credential:
            bound = self.browsers.cookies.browser_fingerprint(request.browser) or ""
            looked = await self.factors.find_passkey(
                self.store, shown.credential, PURPOSE, bound, now, user.uid
            )
        recent = RecentProof.for_request(self.browsers, request)
        familiar = self.browsers.known_browser(request.request).mark(user.uid)

        def verify(tx: Transaction) -> bool | VerificationFailed:
            # Before rows are changed, as decision 0015 orders locks.
            tx.users.hold_alone(user.uid)
            proof = self.factors.verify_factor(tx, user, shown, looked, familiar, "confirm", now)
            if isinstance(proof, VerificationFailed):
                return proof
            if proof.left is not None:
                self.notices.recovery_code_used(tx, user, proof.left, now)
            return recent.record(tx, proof.methods)

        noted = await self.store.write(verify, done_by=request.actor)
        if isinstance(noted, VerificationFailed):
            wrong = "passkey" if shown.credential else "recovery" if shown.recovery else "code"
            return await self._form(request, wrong, noted.wait)
        return _go_on(request, recent, noted=noted)

    async def _form(self, request: SignedInRequest, wrong: str = "", wait: int = 0) -> Show:
        user = request.user
        to, repeats = safe_return_path(request.query.get("to")), bool(request.query.get("repeat"))
        bound, passkeys = (
            self.browsers.cookies.browser_fingerprint(request.browser) or "",
            self.factors.passkeys,
        )

        def read_state(tx: Transaction) -> tuple[frozenset[FactorKind], Sequence[Passkey]]:
            return tx.credentials.kinds_of(user.uid), tx.credentials.passkeys_of(user.uid)

        kinds, keys = await self.store.read(read_state)
        guarded = bool(kinds & {FactorKind.PASSKEY, FactorKind.AUTHENTICATOR})
        question = ""
        if keys and passkeys.domain:
            question = passkeys.authentication_options(
                PURPOSE, bound, request.now, uid=user.uid, of=keys
            )
        context = ConfirmFactorPage(
            action=confirmation_page(to, repeats=repeats),
            person=shown_user(request.signed_in),
            username=user.username,
            by_password=not guarded and FactorKind.PASSWORD in kinds,
            passkey=question,
            has_code=FactorKind.AUTHENTICATOR in kinds,
            has_recovery=guarded and FactorKind.RECOVERY_CODE in kinds,
            wrong=wrong,
            wait=wait,
            repeats=repeats,
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        return Show(context, status, (("retry-after", str(wait)),) if wait else ())


def _go_on(request: SignedInRequest, proof: RecentProof, *, noted: bool) -> SeeOther:
    to = safe_return_path(request.query.get("to")) or HOME
    # If the session ended or another request was faster, that page asks again.
    return SeeOther(to, proof.cookies if noted else ())


class RequiredFactorPage(Struct, frozen=True):
    """Offer the second factors that a user can add. Context of required_factor.html."""

    template: ClassVar[str] = "account/security/required_factor.html"
    title: ClassVar[str] = translatable("Add a second factor")

    person: CurrentUser
    authenticator_url: str
    #: "" where the address of this server allows no passkeys.
    passkey_url: str


class RequiredFactor(Struct, frozen=True):
    """Ask a user for a second factor, and redirect one who has it to where they were going."""

    factors: Factors

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        return (Page(REQUIRED_FACTOR, signed_in_to_add_factor, self.show),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Offer passkey and authenticator app; both keep the app or page to which the user goes."""
        target = target_of(request.request)
        if not request.signed_in.must_add_factor:
            return SeeOther(address_after(target) or HOME)
        passkey = target.address_of(ADDRESSES["new_passkey"])
        page = RequiredFactorPage(
            person=shown_user(request.signed_in),
            authenticator_url=target.address_of(ADDRESSES["new_authenticator"]),
            passkey_url=passkey if self.factors.passkeys.domain else "",
        )
        return Show(page)


def target_of(request: Request) -> ReturnTarget:
    """Return where a user goes after adding a factor, from the address of the request.

    The authorization endpoint checks the sealed request of an app.
    """
    sealed = sealed_in(request)
    to = "" if sealed else safe_return_path(read_query(request.query).get("to"))
    return ReturnTarget(sealed, to)


def address_after(target: ReturnTarget) -> str:
    """Return the address of the app's request or page; "" for none."""
    return target.address_of(AUTHORIZE) if target.sealed else target.to


def back_of(request: SignedInRequest) -> str:
    """Return the page that leads to one that adds a factor; "" for the overview of security."""
    if not request.signed_in.must_add_factor:
        return ""
    return target_of(request.request).address_of(REQUIRED_FACTOR)
