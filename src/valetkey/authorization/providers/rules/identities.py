"""Identities at other servers: how a request is sent to one, and the account of who returns.

An email address never identifies an account, not even a verified one: its holder may change. Only a
signed-in user can link an identity, and only one that is not linked to another user.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Protocol

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.account.removal import moment
from valetkey.authorization.actions.users import (
    Accounts,
    Faults,
    UserRecord,
    is_choosable,
    is_reserved,
)
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.providers.model import Identity, IdentityLinked, IdentityUnlinked
from valetkey.authorization.providers.settings import ProviderSettings
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.storage.transaction import Transaction
from valetkey.fetch.outbound import Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, FingerprintKey, Secret, to_base64url
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.text import printable

FEDERATED = "fed"
"""The authentication method of upstream sign-ins; RFC 8176 defines none."""

WITH = f"{SIGN_IN}/with"
"""The path of the page that redirects to a provider, without the id of the provider."""

LONGEST_CODE = 2_000
NEVER_ISSUED = "test"
"""A code that no provider issues."""

LONGEST_SUBJECT = 255
"""Maximum number of characters in a `sub` (OpenID Connect Core section 2)."""

LARGEST_KEPT = 8_192
"""Maximum size of the kept claims of one account in bytes of JSON."""

_LONGEST_RECEIVED = 300
_LONGEST_EMAIL = 254
_LONGEST_NAME = 100


class ClaimedIdentity(Struct, frozen=True):
    """The identity a provider asserts. `issuer` and `subject` together are unique.

    `email` is "" if the provider sends none; `email_verified` is whether it has verified it.
    `kept_claims` are the claims that `keep_claims` names, None if it names none.
    """

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    username: str = ""
    kept_claims: Mapping[str, object] | None = None
    auth_time: Instant | None = None
    """When the provider authenticated the user, None if it does not say; never in the future."""

    @property
    def proven_email(self) -> str:
        """Return the user's verified email address; "" for none."""
        return self.email if self.email_verified else ""


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamState:
    """The state, nonce and verifier of one upstream sign-in. Never printed."""

    state: str
    nonce: str
    verifier: str
    callback: str
    departed_at: Instant = Instant(0)
    """When the browser was redirected to the provider."""

    fresh: bool = False
    """Whether the provider must authenticate the user again, after `departed_at`."""


SignAssertion = Callable[[str, str, Collection[str]], Awaitable[str]]
"""Sign a client assertion of this client ID, for an audience, with one of these algorithms."""


class Provider(Protocol):
    """One upstream server."""

    @property
    def settings(self) -> ProviderSettings:
        """Return its configuration."""
        ...

    async def authorization_url(self, upstream_state: UpstreamState) -> str:
        """Return the URL to redirect to. Refused if the provider is unreachable."""
        ...

    async def read(
        self, answer: Mapping[str, str], upstream_state: UpstreamState, now: Instant
    ) -> ClaimedIdentity:
        """Return the identity for the callback's parameters.

        Refused if they do not prove one; the state was compared before.
        """
        ...

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Do what a sign-in does without a user, with a code that the provider never issued.

        Nothing is taken from a cache. Refused if something is wrong besides the code.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProviderConnection:
    """The connection to one provider: its configuration, our secret and the HTTP client."""

    settings: ProviderSettings
    secret: Secret = field(repr=False)
    http: OutboundHttp
    now: Callable[[], Instant]
    sign: SignAssertion | None = None


def unusable(
    provider: ProviderSettings, check: str, received: str = "", expected: str = ""
) -> Refused:
    """Return a refusal: the provider's response proves nothing; details go to the event log.

    Never pass a secret, a token or a personal claim as `received`.
    """
    return Refused.because(
        ErrorCode.ACCESS_DENIED,
        "the other server did not confirm who you are; nothing was changed",
        f"federation.{check}",
        expected or f"an answer of {provider.id}",
        printable(received[:_LONGEST_RECEIVED], "?"),
    )


def redirect_uri(issuer: str, provider_id: str) -> str:
    """Return the URL to which a provider redirects."""
    return f"{issuer}{WITH}/{provider_id}/callback"


def code_of(answer: Mapping[str, str], provider: ProviderSettings) -> str:
    """Return the callback's code; refused if there is none (RFC 6749 section 4.1.2)."""
    if answer.get("error"):
        check = "declined" if answer["error"] == "access_denied" else "error"
        raise unusable(provider, check)
    code = answer.get("code", "")
    if not code or len(code) > LONGEST_CODE or not code.isascii() or not code.isprintable():
        raise unusable(provider, "code")
    return code


def plain(value: object, longest: int = _LONGEST_NAME) -> str:
    """Return a text from the provider that may be displayed; "" for anything else."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        return ""
    return value.strip()


def kept_claims(
    provider: ProviderSettings, claims: Mapping[str, object]
) -> Mapping[str, object] | None:
    """Return the claims that the provider's `keep_claims` names; None if it names none.

    Refused above 8 KiB: a claim that decides what a user may do must not disappear silently.
    """
    if not provider.keep_claims:
        return None
    kept = {name: claims[name] for name in provider.keep_claims if claims.get(name) is not None}
    try:
        encoded = msgspec.json.encode(kept)
    except (msgspec.MsgspecError, ValueError, OverflowError):
        encoded = b""
    if read_object(encoded) is None:
        raise unusable(provider, "kept_claims", expected="claims that every JSON parser reads")
    size = len(encoded)
    if size > LARGEST_KEPT:
        raise unusable(provider, "kept_claims", f"{size} bytes; at most {LARGEST_KEPT}")
    return kept


def address(value: object) -> str:
    """Return an email address from the provider; "" for an invalid one."""
    text = plain(value, _LONGEST_EMAIL)
    name, at, domain = text.rpartition("@")
    fine = name and at and domain and "@" not in name and not set(text) & set(' ,;:<>()[]\\"')
    return text if fine else ""


async def fetched(asking: Awaitable[Fetched], provider: ProviderSettings, what: str) -> Fetched:
    """Return the provider's response; refused unless it is a 200."""
    try:
        answered = await asking
    except Unfetchable as error:
        raise unusable(provider, what, error.check) from None
    if answered.status != HTTPStatus.OK:
        raise unusable(provider, what, f"status {answered.status}")
    return answered


_UNKNOWN_CODE = frozenset({"invalid_grant", "bad_verification_code"})
_WRONG_CLIENT = frozenset({"invalid_client", "unauthorized_client", "incorrect_client_credentials"})
_WRONG_REDIRECT_URI = "redirect_uri_mismatch"


async def only_code_refused(asking: Awaitable[Fetched], provider: ProviderSettings) -> Fetched:
    """Return the response to a token request with a code that the provider never issued.

    Refused unless it accepted our credentials and refused the code.
    """
    try:
        answered = await asking
    except Unfetchable as failure:
        raise unusable(provider, "token", failure.check) from None
    error = plain((read_object(answered.body) or {}).get("error"))
    if error in _UNKNOWN_CODE:
        return answered
    if error in _WRONG_CLIENT or answered.status == HTTPStatus.UNAUTHORIZED:
        raise unusable(provider, "client", error)
    if error == _WRONG_REDIRECT_URI:
        raise unusable(provider, "redirect_uri", error)
    raise unusable(provider, "token", error or f"status {answered.status}")


def one_line(token: str) -> str:
    """Return a token as a header value; characters a header cannot carry are replaced."""
    return token if token.isascii() and token.isprintable() and " " not in token else "-"


def user_of_identity(tx: Transaction, claimed: ClaimedIdentity, now: Instant) -> User | None:
    """Return the user of a linked account, disabled or not, and record its use."""
    identity = Identities.of(tx).find(claimed.issuer, claimed.subject)
    if identity is None:
        return None
    # Before the write: every transaction takes the lock of a user before it changes rows.
    tx.users.hold_alone(identity.uid)
    if not Identities.of(tx).touch(identity, now):
        return None
    if claimed.kept_claims is not None or identity.claims:
        Identities.of(tx).keep_claims(replace(identity, claims=_encoded(claimed)))
    return tx.users.find(identity.uid)


def connect(tx: Transaction, user: User, claimed: ClaimedIdentity, now: Instant) -> bool:
    """Link the identity to `user`.

    False if it is already linked to an account, including this one.
    """
    shown = claimed.email or claimed.username or claimed.name or claimed.subject
    identity = Identity(claimed.issuer, claimed.subject, user.uid, shown, now, now)
    if claimed.kept_claims is not None:
        # Before the row, as everywhere; the user's claims change below.
        tx.users.hold_alone(user.uid)
    if not Identities.of(tx).link(identity):
        return False
    if claimed.kept_claims is not None:
        Identities.of(tx).keep_claims(replace(identity, claims=_encoded(claimed)))
    tx.events.add(IdentityLinked(user.uid, claimed.issuer), now)
    return True


def disconnect(
    tx: Transaction,
    user: User,
    issuer: str,
    subject: str,
    now: Instant,
    usable: Collection[str],
) -> bool:
    """Unlink an account. False if it is not linked, or the only way to sign in.

    `usable` are the issuers of the current providers.
    """
    # Locked: of two parallel removals, the second sees that its link is the last one.
    held = tx.users.find_to_change(user.uid)
    if held is None or not has_other_sign_in_method(tx, user.uid, issuer, subject, usable):
        return False
    if not Identities.of(tx).unlink(user.uid, issuer, subject):
        return False
    tx.events.add(IdentityUnlinked(user.uid, issuer, "disconnected"), now)
    return True


def has_other_sign_in_method(
    tx: Transaction, uid: Uid, issuer: str, subject: str, usable: Collection[str]
) -> bool:
    """Return whether the user can sign in without this identity.

    An identity counts if its issuer is among `usable`, those of the current providers.
    """
    if tx.users.password_hash(uid) is not None or tx.credentials.passkeys_of(uid):
        return True
    return any(
        identity.issuer in usable and (identity.issuer, identity.subject) != (issuer, subject)
        for identity in Identities.of(tx).of_user(uid)
    )


def remove_added(tx: Transaction, uid: Uid, since: Instant, because: str, now: Instant) -> None:
    """Unlink the accounts that were linked at `since` or later."""
    for identity in Identities.of(tx).of_user(uid):
        if identity.linked_at >= since:
            Identities.of(tx).unlink(uid, identity.issuer, identity.subject)
            tx.events.add(IdentityUnlinked(uid, identity.issuer, because), now)


def exported(tx: Transaction, uid: Uid) -> Mapping[str, object]:
    """Return the linked accounts for the export of an account."""
    return {
        "accounts_elsewhere": [
            {
                "issuer": identity.issuer,
                "shown_as": identity.shown,
                "linked_at": moment(identity.linked_at),
                "last_used_at": moment(identity.last_used_at),
                "kept_claims": msgspec.json.decode(identity.claims or "{}"),
            }
            for identity in Identities.of(tx).of_user(uid)
        ]
    }


def _encoded(claimed: ClaimedIdentity) -> str:
    return msgspec.json.encode(claimed.kept_claims).decode() if claimed.kept_claims else ""


class FederatedAccounts(Struct, frozen=True):
    """Creates accounts for users who sign in through an upstream provider."""

    accounts: Accounts
    brand_name: str

    def register(
        self, tx: Transaction, claimed: ClaimedIdentity, username: str, name: str, now: Instant
    ) -> User | Faults | None:
        """Create an account for the identity. Return the account, or the errors.

        Returns None if the provider did not verify an email address, or if the address or the
        identity already has an account. Raises AlreadyLinked if another request linked the identity
        first.
        """
        email = claimed.proven_email
        if not email or tx.users.find_by_name(email) is not None:
            return None
        if Identities.of(tx).find(claimed.issuer, claimed.subject) is not None:
            return None
        if not is_choosable(username) or is_reserved(username, (self.brand_name,)):
            return (MetadataError("username", "letters and digits, and not a reserved name"),)
        record = UserRecord(username, email, name, email_verified=True)
        made = self.accounts.register(tx, record, now)
        if isinstance(made, User) and not connect(tx, made, claimed, now):
            # Another request linked the identity: roll back the new account.
            raise AlreadyLinked
        return made


class AlreadyLinked(Exception):
    """The identity was linked by another request while the account was being created."""


LIFETIME = minutes(15)
"""How long the user has to return."""

_PURPOSE = "federation.state"
_TRIP = "federation.upstream_sign_in"
_ARRIVAL = "federation.arrival"
_KEPT = "federation.kept_claims"


class UpstreamPurpose(StrEnum):
    """The purpose of an upstream sign-in."""

    SIGN_IN = "sign_in"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamSignIn:
    """A pending upstream sign-in, bound to the browser (by fingerprint) that started it.

    `interaction` is the pending request of an app, encrypted as in the URL; `to` is the page of
    this server that required the sign-in. `session_id` is the session whose account is to be
    linked. `counted` is the rate limit that counts the sign-in until it succeeds.
    """

    provider: str
    errand: UpstreamPurpose
    browser: str
    nonce: str
    verifier: str
    interaction: str = ""
    to: str = ""
    session_id: str = ""
    departed_at: Instant = Instant(0)
    fresh: bool = False
    counted: str = ""

    def upstream_state(self, state: str, callback: str) -> UpstreamState:
        """Return the values that prove its response."""
        return UpstreamState(
            state, self.nonce, self.verifier, callback, self.departed_at, self.fresh
        )


class UpstreamSignIns(Struct, frozen=True):
    """Store pending sign-ins, encrypted, under the fingerprints of their states."""

    key: FingerprintKey
    sealer: Sealer
    random: Callable[[int], bytes]

    def draw(self) -> tuple[str, str, str]:
        """Generate a random state, nonce and verifier."""
        state, nonce, verifier = (to_base64url(self.random(32)) for _ in range(3))
        return state, nonce, verifier

    def voucher(self, pending_sign_in: UpstreamSignIn, state: str, now: Instant) -> Voucher:
        """Return the voucher to issue before the redirect."""
        sealed = self.sealer.seal(msgspec.json.encode(pending_sign_in), _TRIP, self.random)
        print_ = self.key.fingerprint(_PURPOSE, state)
        return Voucher(VoucherKind.FEDERATION, print_, "", "", sealed, later(now, LIFETIME))

    def take(
        self, tx: Transaction, state: str, browser: Fingerprint | None, now: Instant
    ) -> UpstreamSignIn | None:
        """Return the pending sign-in of this state and browser, once; None for any other."""
        pending = self._look_up(tx, state, browser)
        # Checked before redeeming: a victim of a forwarded return link must not use it up.
        if pending is None or not pending[0].is_live(LIFETIME, now):
            return None
        return pending[1] if tx.vouchers.redeem(pending[0], now) else None

    def find(
        self, tx: Transaction, state: str, browser: Fingerprint | None
    ) -> UpstreamSignIn | None:
        """Return the sign-in of this state and browser, also if it was used or has expired."""
        pending = self._look_up(tx, state, browser)
        return None if pending is None else pending[1]

    def _look_up(
        self, tx: Transaction, state: str, browser: Fingerprint | None
    ) -> tuple[Voucher, UpstreamSignIn] | None:
        if browser is None:
            return None
        voucher = tx.vouchers.find(VoucherKind.FEDERATION, self.key.fingerprint(_PURPOSE, state))
        plain = None if voucher is None else self.sealer.open(voucher.payload, _TRIP)
        if voucher is None or plain is None:
            return None
        pending_sign_in = msgspec.json.decode(plain, type=UpstreamSignIn)
        return (voucher, pending_sign_in) if pending_sign_in.browser == browser else None

    def keep_claims(
        self, tx: Transaction, claimed: ClaimedIdentity, state: str, now: Instant
    ) -> ClaimedIdentity:
        """Store the kept claims of an unlinked identity, which are too large for its cookie.

        Return the identity without them.
        """
        if claimed.kept_claims is None:
            return claimed
        sealed = self.sealer.seal(msgspec.json.encode(claimed.kept_claims), _KEPT, self.random)
        print_ = self.key.fingerprint(_KEPT, state)
        tx.vouchers.issue(
            Voucher(VoucherKind.FEDERATION, print_, "", "", sealed, later(now, LIFETIME))
        )
        return replace(claimed, kept_claims=None)

    def with_claims(
        self, tx: Transaction, unlinked: "UnlinkedIdentity", now: Instant
    ) -> ClaimedIdentity:
        """Return the identity with its kept claims, while its cookie is valid."""
        print_ = self.key.fingerprint(_KEPT, unlinked.state)
        voucher = tx.vouchers.find(VoucherKind.FEDERATION, print_) if unlinked.state else None
        if voucher is None or not voucher.is_live(LIFETIME, now):
            return unlinked.claimed
        plain = self.sealer.open(voucher.payload, _KEPT)
        if plain is None:
            return unlinked.claimed
        return replace(
            unlinked.claimed, kept_claims=msgspec.json.decode(plain, type=dict[str, object])
        )


class UnlinkedIdentity(Struct, frozen=True):
    """A user who returned without an account here; encrypted in a cookie.

    `state` finds the kept claims; "" if there are none.
    """

    provider: str
    claimed: ClaimedIdentity
    browser: str
    at: Instant
    state: str = ""

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Return the cookie's value."""
        return sealer.seal(msgspec.json.encode(self), _ARRIVAL, random)

    @staticmethod
    def open(
        sealed: str, sealer: Sealer, browser: Fingerprint | None, now: Instant
    ) -> "UnlinkedIdentity | None":
        """Decrypt the cookie in its browser before it expires; None for anything else."""
        plain = sealer.open(sealed, _ARRIVAL) if sealed else None
        if plain is None:
            return None
        try:
            unlinked = msgspec.json.decode(plain, type=UnlinkedIdentity)
        except msgspec.MsgspecError:
            # Encrypted by this server, but by a version with another format.
            return None
        fits = unlinked.browser == browser and unlinked.at <= now < later(unlinked.at, LIFETIME)
        return unlinked if fits else None
