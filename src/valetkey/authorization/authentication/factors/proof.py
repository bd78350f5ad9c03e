"""Verify a second factor: a code, a recovery code, or a passkey."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from valetkey.authorization.authentication.factors import typed_codes
from valetkey.authorization.authentication.factors.passkey import (
    Passkeys,
    VerifiedAssertion,
    read_answer,
)
from valetkey.authorization.model.account.factors import Authenticator, Passkey
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.event.sessions import (
    PasskeyCounterFallen,
    RecoveryCodeUsed,
    SecondFactorFailed,
)
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.storage.sign_in.throttles import Limit
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.sections.accounts import FactorSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import FingerprintKey

LADDER = (Limit(5, minutes(15)), Limit(10, hours(2)), Limit(20, days(1)))
"""After five attempts one more every 3 minutes, after ten every 12, after twenty every 72."""
_BY_CODE = (Amr.ONE_TIME_CODE.value, Amr.SEVERAL.value)


class Attempt(Struct, frozen=True):
    """A counted attempt, or the seconds to wait before the next one."""

    buckets: tuple[str, ...]
    wait: int

    def give_back(self, tx: Transaction) -> None:
        """Uncount a successful attempt."""
        tx.throttles.give_back(*self.buckets)


def count_attempt(
    tx: Transaction, key: FingerprintKey, uid: Uid, familiar: str, now: Instant
) -> Attempt:
    """Count an attempt to enter a code of this user.

    A browser that is `familiar` to the account has its own counters, which attackers cannot use up.
    """
    who = f"{uid} {familiar}" if familiar else str(uid)
    taken: list[str] = []
    for rung, limit in enumerate(LADDER):
        bucket = f"second_factor:{rung}:{key.of('throttle code', who)}"
        if wait := tx.throttles.take(bucket, limit, now):
            tx.throttles.give_back(*taken)
            return Attempt((), wait)
        taken.append(bucket)
    return Attempt(tuple(taken), 0)


@dataclass(frozen=True, slots=True, repr=False)
class SubmittedFactor:
    """The submitted factor, one of these fields. Never printed."""

    code: str = ""
    recovery: str = ""
    credential: str = ""


class VerifiedPasskey(Struct, frozen=True):
    """A passkey and its verified assertion; neither is used up yet."""

    passkey: Passkey
    proved: VerifiedAssertion


class FactorProof(Struct, frozen=True):
    """A successful verification. `left` is the number of recovery codes left after using one."""

    methods: tuple[str, ...]
    left: int | None = None


class VerificationFailed(Struct, frozen=True):
    """A failed verification; or nothing was verified, because the user must `wait` (seconds)."""

    wait: int = 0


class Factors(Struct, frozen=True):
    """The verifier. `issuer` is this server's address, `name` returns its display name."""

    issuer: str
    name: Callable[[], str]
    keyring: Keyring
    random: Callable[[int], bytes]
    settings: FactorSettings

    @property
    def passkeys(self) -> Passkeys:
        """Passkey challenges and their verification."""
        key, sealer = self.keyring.fingerprint_key, self.keyring.sealer
        return Passkeys(self.issuer, self.name(), sealer, key, self.random)

    async def find_passkey(
        self, store: Store, text: str, purpose: str, browser: str, now: Instant, uid: int = 0
    ) -> VerifiedPasskey | None:
        """Return the passkey of a valid assertion; None for anything else.

        `uid` is the expected user, 0 for any.
        """
        answer = read_answer(text)
        if answer is None:
            return None
        handle = answer.handle
        passkey = await store.read(lambda tx: tx.credentials.find_passkey(handle))
        if passkey is None or (uid and passkey.uid != uid):
            return None
        proved = self.passkeys.verify_response(answer, passkey, purpose, browser, now, uid=uid)
        return None if proved is None else VerifiedPasskey(passkey, proved)

    def prove_by_passkey(
        self, tx: Transaction, looked: VerifiedPasskey, now: Instant
    ) -> FactorProof | VerificationFailed:
        """Use up a verified assertion. Exactly one concurrent caller succeeds."""
        passkey, proved = looked.passkey, looked.proved
        if not tx.vouchers.issue(proved.once):
            return VerificationFailed()
        if proved.fell:
            accepted = not self.settings.refuse_fallen_counters
            tx.events.add(PasskeyCounterFallen(passkey.uid, passkey.id, accepted), now)
            if not accepted:
                return VerificationFailed()
        if not tx.credentials.use_passkey(passkey, proved.counter, now):
            return VerificationFailed()
        return FactorProof(proved.methods)

    def verify_factor(
        self,
        tx: Transaction,
        user: User,
        shown: SubmittedFactor,
        looked: VerifiedPasskey | None,
        familiar: str,
        channel: str,
        now: Instant,
    ) -> FactorProof | VerificationFailed:
        """Verify and use up what this user submitted; failures are recorded.

        Codes are counted before they are verified, so that parallel attempts count too. A signature
        cannot be guessed, and is not limited.
        """
        if shown.credential:
            right = looked is not None and looked.passkey.uid == user.uid
            found = (
                self.prove_by_passkey(tx, looked, now) if looked and right else VerificationFailed()
            )
        else:
            attempt = count_attempt(tx, self.keyring.fingerprint_key, user.uid, familiar, now)
            if attempt.wait:
                return VerificationFailed(attempt.wait)
            found = self._by_code(tx, user.uid, shown, now)
            if isinstance(found, FactorProof):
                attempt.give_back(tx)
        if isinstance(found, VerificationFailed):
            tx.events.add(SecondFactorFailed(user.uid, channel), now)
        return found

    def _by_code(
        self, tx: Transaction, uid: Uid, shown: SubmittedFactor, now: Instant
    ) -> FactorProof | VerificationFailed:
        if shown.recovery:
            return self._by_recovery_code(tx, uid, shown.recovery, now)
        authenticator = tx.credentials.authenticator_of(uid)
        key = None if authenticator is None else self.open(authenticator)
        step = None if key is None else typed_codes.step_of(key, shown.code, now)
        if authenticator is None or step is None:
            return VerificationFailed()
        spent = tx.credentials.spend_step(authenticator.id, step, now)
        return FactorProof(_BY_CODE) if spent else VerificationFailed()

    def _by_recovery_code(
        self, tx: Transaction, uid: Uid, typed: str, now: Instant
    ) -> FactorProof | VerificationFailed:
        print_ = typed_codes.fingerprint(self.keyring.fingerprint_key, uid, typed)
        if print_ is None or not tx.credentials.spend_recovery_code(uid, print_):
            return VerificationFailed()
        left = tx.credentials.recovery_codes_of(uid).left
        tx.events.add(RecoveryCodeUsed(uid, left), now)
        return FactorProof(_BY_CODE, left)

    def sealed(self, authenticator: Authenticator, key: bytes) -> Authenticator:
        """Return it with its secret, encrypted for its place."""
        sealed = self.keyring.sealer.seal(key, authenticator_place(authenticator.id), self.random)
        return replace(authenticator, sealed=sealed)

    def open(self, authenticator: Authenticator) -> bytes | None:
        """Return its secret; None if it was not encrypted for its place."""
        return self.keyring.sealer.open(authenticator.sealed, authenticator_place(authenticator.id))


def authenticator_place(authenticator_id: str) -> str:
    """Return the context that binds its encrypted secret to its place."""
    return f"credentials.data:{authenticator_id}"
