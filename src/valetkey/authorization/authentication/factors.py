"""Second factors: codes that users enter, recovery codes, and remembered devices.

The cookie changes with every use. If an old cookie comes back, it was copied: the device is then
forgotten, and every session it signed in ends. Only a cookie that this server issued counts as an
old one: device ids appear in events and exports, and prove nothing.
"""

from base64 import b32encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from msgspec import Struct

from valetkey.authorization.authentication.passkey import Passkeys, VerifiedAssertion, read_answer
from valetkey.authorization.authentication.session import end_session, end_sessions
from valetkey.authorization.model.event.accounts import (
    DeviceForgotten,
    DeviceRemembered,
    DeviceStolen,
    PasskeyCounterFallen,
    RecoveryCodeUsed,
    SecondFactorFailed,
)
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.user import Authenticator, Passkey, RememberedDevice, Uid, User
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.sections.people import FactorSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime, days, hours, is_live, later, minutes, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    Secret,
    fresh_id,
    is_tagged,
    same,
    tagged_secret,
    well_formed,
)
from valetkey.kernel.text import read_code

PERIOD = 30
"""Length of a time step in seconds."""

_BYTES = 20
_DIGITS = 6
_AROUND = (0, -1, 1)
"""The accepted steps, which allow for a phone's clock being slightly off."""


def fresh_key(random: Callable[[int], bytes]) -> bytes:
    """Return a new secret of 160 bits, as RFC 4226 recommends."""
    return random(_BYTES)


def written(key: bytes) -> str:
    """Return the secret as users type it into their app: base32 in groups of four."""
    text = b32encode(key).decode("ascii").rstrip("=")
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def address(key: bytes, issuer: str, account: str) -> str:
    """Return the `otpauth` address for a QR code, in the form that apps agree on."""
    label = f"{quote(issuer, safe='')}:{quote(account, safe='')}"
    parameters = {
        "secret": b32encode(key).decode("ascii").rstrip("="),
        "issuer": issuer,
        "algorithm": "SHA1",
        "digits": _DIGITS,
        "period": PERIOD,
    }
    return f"otpauth://totp/{label}?{urlencode(parameters, quote_via=quote)}"


def code_at(key: bytes, step: int) -> str:
    """Return the code of a time step."""
    # SHA-1 is secure as a MAC, and the only hash that every app supports.
    return TOTP(key, _DIGITS, SHA1(), PERIOD).generate(step * PERIOD).decode("ascii")  # noqa: S303


def step_of(key: bytes, typed: str, now: Instant) -> int | None:
    """Return the step of a code: the current one or a neighbour; None for any other.

    The caller must store the step as used, so that no code is accepted twice.
    """
    digits = read_code(typed)
    if len(digits) != _DIGITS or not digits.isdigit():
        return None
    present = now // PERIOD
    steps = [
        step
        for step in (present + offset for offset in _AROUND)
        if same(code_at(key, step), digits)
    ]
    return steps[0] if steps else None


COUNT = 10
"""Number of codes in a set."""

_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Letters and digits that are not confused in print: without 0 and O, 1 and I."""

_LENGTH = 12
_GROUP = 4


def fresh_codes(random: Callable[[int], bytes]) -> tuple[str, ...]:
    """Return a new set of codes: 60 bits each, as `ABCD-EFGH-JKLM`."""
    return tuple(_written(random(_LENGTH)) for _ in range(COUNT))


def fingerprint(key: FingerprintKey, uid: Uid, typed: str) -> Fingerprint | None:
    """Return the stored fingerprint of a code, in any spelling; None for an impossible code."""
    code = read_code(typed)
    if len(code) != _LENGTH or not set(code) <= set(_ALPHABET):
        return None
    return key.fingerprint("recovery code", f"{uid}:{code}")


def fingerprints(key: FingerprintKey, uid: Uid, codes: Sequence[str]) -> list[Fingerprint]:
    """Return the fingerprints of a new set."""
    return [print_ for code in codes if (print_ := fingerprint(key, uid, code)) is not None]


def _written(drawn: bytes) -> str:
    # 32 letters divide 256: all are equally likely.
    letters = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in drawn)
    return "-".join(letters[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))


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
        bucket = f"second_factor:{rung}:{key.fingerprint('throttle code', who)}"
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
            proof = (
                self.prove_by_passkey(tx, looked, now) if looked and right else VerificationFailed()
            )
        else:
            attempt = count_attempt(tx, self.keyring.fingerprint_key, user.uid, familiar, now)
            if attempt.wait:
                return VerificationFailed(attempt.wait)
            proof = self._by_code(tx, user.uid, shown, now)
            if isinstance(proof, FactorProof):
                attempt.give_back(tx)
        if isinstance(proof, VerificationFailed):
            tx.events.add(SecondFactorFailed(user.uid, channel), now)
        return proof

    def _by_code(
        self, tx: Transaction, uid: Uid, shown: SubmittedFactor, now: Instant
    ) -> FactorProof | VerificationFailed:
        if shown.recovery:
            return self._by_recovery_code(tx, uid, shown.recovery, now)
        authenticator = tx.credentials.authenticator_of(uid)
        key = None if authenticator is None else self.open(authenticator)
        step = None if key is None else step_of(key, shown.code, now)
        if authenticator is None or step is None:
            return VerificationFailed()
        spent = tx.credentials.spend_step(authenticator.id, step, now)
        return FactorProof(_BY_CODE) if spent else VerificationFailed()

    def _by_recovery_code(
        self, tx: Transaction, uid: Uid, typed: str, now: Instant
    ) -> FactorProof | VerificationFailed:
        print_ = fingerprint(self.keyring.fingerprint_key, uid, typed)
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


PURPOSE = "remembered device"
"""The purpose under which the cookies are fingerprinted."""

_GRACE = seconds(60)
"""How long the previous cookie is accepted: two tabs may sign in at once."""

_LONGEST_ID = 40
_MOST_NAMED = 10
"""Sessions of one device that are ended one by one; beyond it, all of the user's end."""

MOST = 50
"""Maximum number of remembered devices of one user; a new one replaces the least recently used."""


@dataclass(frozen=True, slots=True, repr=False)
class FreshDevice:
    """An id and the random half of a secret, drawn before the transaction that may need them."""

    id: str
    drawn: bytes
    key: FingerprintKey

    @staticmethod
    def draw(random: Callable[[int], bytes], key: FingerprintKey) -> "FreshDevice":
        """Generate the values for one sign-in."""
        return FreshDevice(fresh_id("rd", random), random(16), key)

    def secret(self, device_id: str) -> Secret:
        """Return the device's next secret, with a MAC over its id; equal at every call."""
        return tagged_secret(Prefix.DEVICE, self.drawn, self.key, _tag_purpose(device_id))

    def fingerprint(self, device_id: str) -> Fingerprint:
        """Return the stored fingerprint of that secret."""
        return self.key.fingerprint(PURPOSE, self.secret(device_id).reveal())

    def cookie(self, device_id: str) -> str:
        """Return the browser's cookie."""
        return f"{device_id}.{self.secret(device_id).reveal()}"


class RecognisedDevice(Struct, frozen=True):
    """A device whose user skips the second factor, and its next cookie ("" for no change)."""

    device_id: str
    cookie: str
    expires_at: Instant


def remember_device(
    tx: Transaction,
    fresh: FreshDevice,
    uid: Uid,
    user_agent: str,
    now: Instant,
    lifetime: Lifetime,
) -> RecognisedDevice:
    """Skip the second factor in this browser for `lifetime`."""
    expires_at = later(now, lifetime)
    print_ = fresh.fingerprint(fresh.id)
    tx.devices.remember(
        RememberedDevice(fresh.id, uid, print_, "", now, user_agent, now, expires_at)
    )
    tx.events.add(DeviceRemembered(uid, fresh.id), now)
    for device in tx.devices.of_user(uid, now)[MOST:]:
        forget_device(tx, uid, device.id, now)
    return RecognisedDevice(fresh.id, fresh.cookie(fresh.id), expires_at)


def recognise(
    tx: Transaction, cookie: str, fresh: FreshDevice, uid: Uid, now: Instant
) -> RecognisedDevice | None:
    """Return the device of this cookie if it is remembered for this user; else None."""
    device_id, _, secret = cookie.partition(".")
    if not 0 < len(device_id) <= _LONGEST_ID or not well_formed(Prefix.DEVICE, secret):
        return None
    device = tx.devices.find(device_id)
    if (
        device is None
        or device.uid != uid
        or not is_live(device.created_at, device.expires_at, now)
    ):
        return None
    shown = fresh.key.fingerprint(PURPOSE, secret)
    if tx.devices.exchange(device.id, shown, fresh.fingerprint(device.id), now):
        return RecognisedDevice(device.id, fresh.cookie(device.id), device.expires_at)
    # Another tab may have exchanged it concurrently, even since it was read above.
    present = tx.devices.find(device.id)
    if present is not None and _is_just_past(present, shown, now):
        return RecognisedDevice(device.id, "", device.expires_at)
    # Cookies from before the MAC are recognised only by the stored fingerprints.
    was_previous = present is not None and same(present.previous, shown)
    if was_previous or is_tagged(Prefix.DEVICE, secret, fresh.key, _tag_purpose(device.id)):
        _end_all_of_it(tx, device, now)
    return None


def forget_device(tx: Transaction, uid: Uid, device_id: str, now: Instant) -> bool:
    """Forget this device; False if the user has no such device."""
    if not tx.devices.delete(uid, device_id):
        return False
    tx.events.add(DeviceForgotten(uid, device_id), now)
    return True


def forget_devices(tx: Transaction, uid: Uid, now: Instant) -> None:
    """Forget all of the user's devices."""
    for device in tx.devices.of_user(uid, now):
        forget_device(tx, uid, device.id, now)
    tx.devices.delete_all(uid)


def _tag_purpose(device_id: str) -> str:
    return f"{PURPOSE}.tag:{device_id}"


def _is_just_past(device: RememberedDevice, shown: Fingerprint, now: Instant) -> bool:
    return same(device.previous, shown) and later(device.changed_at, _GRACE) > now


def _end_all_of_it(tx: Transaction, device: RememberedDevice, now: Instant) -> None:
    if not tx.devices.delete(device.uid, device.id):
        return
    tx.events.add(DeviceStolen(device.uid, device.id), now)
    tx = tx.acting(SYSTEM)
    sessions = tx.sessions.live_of_device(device.uid, device.id, now, _MOST_NAMED + 1)
    if len(sessions) > _MOST_NAMED:
        end_sessions(tx, device.uid, now, "device_reused")
        return
    for session in sessions:
        end_session(tx, session, now, "device_reused")
