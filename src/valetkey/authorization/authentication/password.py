"""Passwords: Argon2id hashes (RFC 9106), rules for new ones, and sign-in with them.

Hashes of imported accounts may be of another format until the first sign-in, and may be of another
form of the password: ours are of NFC, as keyboards differ in how they compose letters (RFC 8265).

Those most frequent in data breaches are refused: docs/well_known_passwords.py makes their file.

Attempts are counted before they are verified, for the account and for the IP address, so that
parallel guesses count too; a successful attempt is uncounted.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import resources

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from msgspec import Struct

from valetkey.authorization.authentication.password_formats import (
    OWN,
    HashFault,
    read_hash,
    spellings,
)
from valetkey.authorization.model.event.accounts import SignInFailed
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import Uid, User, fold
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import LimitSettings, PasswordSettings
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import FingerprintKey
from valetkey.web import log
from valetkey.web.client_address import network_of
from valetkey.web.offload import Busy, Offload, Slot

FILE = resources.files("valetkey.authorization.authentication") / "well_known_passwords.bin"
"""The list: four bytes of each hash, sorted; one good password in 40,000 is rejected by chance."""

LARGEST = 98_000
"""Maximum number of passwords in the list."""

_SHORTEST = 8
_TAIL = "0123456789!?.*#$@_-"


def is_well_known(text: str) -> bool:
    """Return whether the password is in the list, in any spelling or with an added ending."""
    listed_prints = _known()
    for print_ in prints(forms(text)):
        index = bisect_left(listed_prints, print_)
        if index < len(listed_prints) and listed_prints[index] == print_:
            return True
    return _is_poor(text)


def forms(text: str) -> tuple[str, ...]:
    """Return the text as the list has it, and without trailing digits and marks."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    bare = plain.rstrip(_TAIL)
    return tuple(form for form in dict.fromkeys((plain, bare)) if len(form) >= _SHORTEST)


def prints(words: Iterable[str]) -> Sequence[int]:
    """Return the list entries of these texts."""
    digests = (hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest() for word in words)
    return [int.from_bytes(digest[:4], "big") for digest in digests]


def _is_poor(text: str) -> bool:
    """Return whether the text is little more than one character or a short repeated piece."""
    for size in range(1, 4):
        piece = text[:size]
        if len(text) >= _SHORTEST and (piece * len(text))[: len(text)] == text:
            return True
    return False


@cache
def _known() -> Sequence[int]:
    data = memoryview(FILE.read_bytes())
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]


SHORTEST = 8
"""Minimum number of characters in a new password."""

LONGEST = 1_024
"""Maximum number of bytes in a password, in UTF-8."""

_SALT = 16
_LENGTH = 32
_KIB_PER_MIB = 1_024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def password_problem(text: str) -> str:
    """Return why `text` is not allowed, as the end of a sentence; "" if it is allowed."""
    if len(text) < SHORTEST:
        return f"must have at least {SHORTEST} characters"
    prepared = prepare(text)
    if prepared is None:
        return f"must have at most {LONGEST} bytes and no control characters"
    if is_well_known(text):
        return "is too common; use several words instead"
    return ""


def hash_password(text: str, settings: PasswordSettings, random: Callable[[int], bytes]) -> str:
    """Return the PHC string for a new password; takes tens of milliseconds of one core.

    Raises Refused (invalid_request) for a password that `password_problem` rejects.
    """
    prepared = prepare(text)
    problem = password_problem(text)
    if prepared is None or problem:
        raise Refused.because(ErrorCode.INVALID_REQUEST, f"the password {problem}", "password.rule")
    return hash_prepared(prepared, settings, random(_SALT))


def prepare(text: str) -> bytes | None:
    """Return the bytes to hash; None for an impossible password."""
    # The length first: normalising a megabyte for an unauthenticated client is expensive.
    if not text or len(text) > LONGEST or _CONTROL.search(text):
        return None
    try:
        prepared = unicodedata.normalize("NFC", text).encode()
    except UnicodeEncodeError:
        return None
    return prepared if len(prepared) <= LONGEST else None


def hash_prepared(prepared: bytes, settings: PasswordSettings, salt: bytes) -> str:
    """Return the PHC string of the bytes from `prepare`."""
    return Argon2id(
        salt=salt,
        length=_LENGTH,
        iterations=settings.passes,
        lanes=1,
        memory_cost=settings.memory * _KIB_PER_MIB,
    ).derive_phc_encoded(prepared)


def verify(text: str, stored: str | None, settings: PasswordSettings) -> bool:
    """Return whether the password matches; a stored text that is no hash matches none.

    Without a hash that can be verified, False at the cost of one of ours.
    """
    if prepare(text) is None:
        return False
    matches = _check(stored)
    if matches is None:
        for spelling in spellings(text, stored):
            hash_prepared(spelling, settings, bytes(_SALT))
        return False
    try:
        return any(matches(spelling) for spelling in spellings(text, stored))
    except MemoryError:
        raise
    except Exception as failure:  # noqa: BLE001 - a library may fail on what is stored
        log.throttled("error", "password.unverifiable", type(failure).__name__, failure)
        return False


def _check(stored: str | None) -> Callable[[bytes], bool] | None:
    if stored is None:
        return None
    try:
        return read_hash(stored, OWN).matches
    except HashFault as fault:
        log.throttled("error", "password.unverifiable", fault.code)
        return None


def is_current(stored: str, settings: PasswordSettings) -> bool:
    """Return whether the hash was made with the current parameters."""
    memory = settings.memory * _KIB_PER_MIB
    return stored.startswith(f"$argon2id$v=19$m={memory},t={settings.passes},p=1$")


_LONGEST_NAME = 320
_EVERYWHERE = 5
"""The limit on failures from all places, as a multiple of the limit for one place."""
_WRONG = "the username or password is wrong, or this account must sign in at the sign-in page"

AfterSignIn = Callable[[Transaction, User], object]
"""Further work in the transaction that accepts the password."""


class _Attempt(Struct, frozen=True):
    """The data found before the password is verified."""

    user: User | None
    stored: str | None
    buckets: tuple[str, ...]
    wait: int


class PasswordSignIn(Struct, frozen=True):
    """Find the user with a username (or email address) and a password.

    `channel` names the caller for the audit log: "page" or "password_grant". Argon2 runs on
    `offload`, whose `Busy` is raised when too many calls are queued.
    """

    store: Store
    offload: Offload
    key: FingerprintKey
    passwords: PasswordSettings
    limits: LimitSettings
    random: Callable[[int], bytes]
    channel: str = "page"

    async def authenticate(
        self,
        username: str,
        password: str,
        address: str,
        now: Instant,
        then: AfterSignIn | None = None,
        familiar: Callable[[Uid], str] = lambda _: "",
    ) -> User | Refusal:
        """Return the user, or a refusal that does not reveal whether the user exists.

        `familiar` names the browser if it is familiar to an account, otherwise "": such a browser
        has its own counters (docs/decisions/0011-familiar-browsers.md).

        `slow_down` with `retry_after` when account or address must wait (nothing is hashed then),
        `invalid_grant` otherwise. `then` runs in the transaction that accepts the password.
        """
        # Before anything is written: a burst of sign-ins begins no more of them than it may hash,
        # and the transactions of other requests do not wait for the rest.
        with self.offload.slot() as slot:
            sign_in = username, password, address, now, then, familiar
            return await self._authenticate(slot, *sign_in)

    async def _authenticate(
        self,
        slot: Slot,
        username: str,
        password: str,
        address: str,
        now: Instant,
        then: AfterSignIn | None,
        familiar: Callable[[Uid], str],
    ) -> User | Refusal:
        places = (self._address_bucket(address), username, familiar, now)
        attempt = await self.store.write(lambda tx: self._count(tx, *places), done_by=USUAL_ACTOR)
        if attempt.wait:
            metrics.SIGN_INS.add("pwd", "throttled")
            return Refusal(
                ErrorCode.SLOW_DOWN,
                "too many attempts for this account or from this address; try again later",
                "password.throttled",
                f"{self.limits.sign_in_failures} failures at most",
                f"wait {attempt.wait} seconds",
                attempt.wait,
            )
        prepared = prepare(password)
        try:
            good = prepared is not None and await slot.run(
                verify, password, attempt.stored, self.passwords
            )
        except Busy:
            # Nothing was verified, so nothing counts: otherwise an attacker's flood would lock
            # users out.
            await self.store.write(
                lambda tx: tx.throttles.give_back(*attempt.buckets), done_by=USUAL_ACTOR
            )
            raise
        if not good or prepared is None or attempt.user is None or attempt.stored is None:
            return await self._fail(attempt, _why(attempt), now)
        renewed = await self._renewed(prepared, attempt.stored)
        accept = partial(_accept, attempt.user.uid, attempt.stored, renewed, attempt.buckets, then)
        user = await self.store.write(accept, done_by=USUAL_ACTOR)
        if user is not None:
            return user
        # The password was right when it was verified.
        return await self._fail(attempt, _why(attempt, "password_changed"), now)

    def _count(
        self,
        tx: Transaction,
        address_bucket: str,
        username: str,
        familiar: Callable[[Uid], str],
        now: Instant,
    ) -> _Attempt:
        # No database stores a NUL, so no user has such a name; querying it would be an error.
        possible = len(username) <= _LONGEST_NAME and "\0" not in username
        user = tx.users.find_by_name(username) if possible else None
        # One counter for all names of one account; unknown names are counted too.
        name = f"uid:{user.uid}" if user else f"name:{fold(username[:_LONGEST_NAME])}"
        account = f"sign_in:{self.key.fingerprint('throttle', name)}"
        here = f"sign_in:{self.key.fingerprint('throttle here', f'{address_bucket} {name}')}"
        few, window = self.limits.sign_in_failures, self.limits.sign_in_window
        # Few from one place, more from everywhere: one attacker cannot lock a user out.
        buckets = {
            address_bucket: Limit(self.limits.sign_in_failures_per_address, window),
            here: Limit(few, window),
            account: Limit(few * _EVERYWHERE, window),
        }
        if user is not None and (mark := familiar(user.uid)):
            # Attackers elsewhere have used up the shared counters, but not this one.
            own = f"sign_in:{self.key.fingerprint('throttle familiar', f'{mark} {user.uid}')}"
            buckets = {own: Limit(few, window)}
        taken: list[str] = []
        wait = 0
        for bucket, limit in buckets.items():
            if wait := tx.throttles.take(bucket, limit, now):
                tx.throttles.give_back(*taken)
                break
            taken.append(bucket)
        stored = tx.users.password_hash(user.uid) if user else None
        return _Attempt(user, stored, tuple(buckets), wait)

    async def _renewed(self, prepared: bytes, stored: str) -> str | None:
        if is_current(stored, self.passwords):
            return None
        try:
            return await self.offload.run(hash_prepared, prepared, self.passwords, self.random(16))
        except Busy:
            # The password was right; its hash is renewed later, under less load.
            return None

    async def _fail(self, attempt: _Attempt, because: str, now: Instant) -> Refusal:
        uid = None if attempt.user is None else attempt.user.uid
        await self.store.write(
            lambda tx: tx.events.add(SignInFailed(uid, self.channel, because), now),
            done_by=USUAL_ACTOR,
        )
        return Refusal(ErrorCode.INVALID_GRANT, _WRONG, "password.wrong")

    def _address_bucket(self, address: str) -> str:
        return f"sign_in_from:{self.key.fingerprint('throttle', network_of(address))}"


def _why(attempt: _Attempt, otherwise: str = "wrong_password") -> str:
    """Return why the sign-in failed, for the event; the response does not say it."""
    if attempt.user is None:
        return "unknown_user"
    if attempt.user.disabled_at is not None:
        return "account_disabled"
    return "no_password" if attempt.stored is None else otherwise


def _accept(
    uid: Uid,
    stored: str,
    renewed: str | None,
    buckets: tuple[str, ...],
    then: AfterSignIn | None,
    tx: Transaction,
) -> User | None:
    user = tx.users.find_to_change(uid)
    if user is None or user.disabled_at is not None:
        return None
    # Hashing took a while: the password may have been changed.
    if tx.users.password_hash(uid) != stored:
        return None
    if renewed is not None:
        tx.users.renew_password_hash(uid, stored, renewed)
    tx.throttles.give_back(*buckets)
    if then is not None:
        then(tx, user)
    return user
