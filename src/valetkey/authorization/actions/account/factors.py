"""Second factors: passkeys, authenticator apps, recovery codes and remembered devices."""

from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.authentication import factors
from valetkey.authorization.authentication.factors import forget_devices
from valetkey.authorization.authentication.passkey import MOST, NewPasskey
from valetkey.authorization.authentication.session import close_session, end_sessions
from valetkey.authorization.model.event.accounts import (
    AuthenticatorAdded,
    AuthenticatorRemoved,
    FactorsRemoved,
    PasskeyAdded,
    PasskeyRemoved,
    PasskeyRenamed,
    PasswordRemoved,
    RecoveryCodesIssued,
)
from valetkey.authorization.model.user import Authenticator, Passkey, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import FingerprintKey, fresh_id

LONGEST_NAME = 60
"""Maximum length of a passkey's name, in characters."""


@dataclass(frozen=True, slots=True)
class FreshCodes:
    """Recovery codes and their ids, generated before the transaction that may need them."""

    codes: tuple[str, ...]
    ids: tuple[str, ...]

    @staticmethod
    def draw(random: Callable[[int], bytes]) -> "FreshCodes":
        """Generate a set of recovery codes."""
        codes = factors.fresh_codes(random)
        return FreshCodes(codes, tuple(fresh_id("cr", random) for _ in codes))

    def __repr__(self) -> str:
        """Return a text that does not contain the codes."""
        return f"FreshCodes({len(self.codes)})"


def name_fault(name: str) -> bool:
    """Return whether a passkey cannot have this name."""
    return not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip()


def add_passkey(
    tx: Transaction,
    user: User,
    name: str,
    new: NewPasskey,
    passkey_id: str,
    fresh: FreshCodes,
    key: FingerprintKey,
    now: Instant,
    *,
    session_id: str = "",
) -> tuple[str, ...] | None:
    """Add a passkey. Return the recovery codes if it is the first factor, otherwise an empty tuple.

    If it was required, all sessions but `session_id` end. Returns None if the response was used
    before, the passkey is registered already, or the account has too many.
    """
    held = tx.users.find_to_change(user.uid)
    if held is None or len(tx.credentials.passkeys_of(user.uid)) >= MOST:
        return None
    if not tx.vouchers.issue(new.once):
        return None
    passkey = Passkey(
        passkey_id, user.uid, name, new.handle, new.public, new.synced, new.counter, now
    )
    if not tx.credentials.add_passkey(passkey):
        return None
    _end_requirement(tx, user, session_id, now)
    tx.events.add(PasskeyAdded(user.uid, passkey_id), now)
    return _first_codes(tx, user, fresh, key, now)


def _end_requirement(tx: Transaction, user: User, session_id: str, now: Instant) -> None:
    # The password alone started the others: it must not be enough to wait for the user's factor.
    if tx.users.waive_factor(user.uid):
        end_sessions(tx, user.uid, now, "signed_out_elsewhere", keep=session_id)


def rename_passkey(tx: Transaction, user: User, passkey_id: str, name: str, now: Instant) -> bool:
    """Rename a passkey. False if the user has no such passkey."""
    present = next((p for p in tx.credentials.passkeys_of(user.uid) if p.id == passkey_id), None)
    if present is None:
        return False
    if present.name != name:
        tx.credentials.rename_passkey(user.uid, passkey_id, name)
        tx.events.add(PasskeyRenamed(user.uid, passkey_id), now)
    return True


def remove_passkey(tx: Transaction, user: User, passkey_id: str, now: Instant) -> bool:
    """Remove a passkey. False if it is not the user's, or is their only way to sign in."""
    held = tx.users.find_to_change(user.uid)
    if held is None or is_only_sign_in_method(tx, user):
        return False
    if not tx.credentials.remove_passkey(user.uid, passkey_id):
        return False
    tx.events.add(PasskeyRemoved(user.uid, passkey_id), now)
    _after_removal(tx, user, now)
    return True


def is_only_sign_in_method(tx: Transaction, user: User) -> bool:
    """Return whether the user can sign in with one passkey and in no other way."""
    if tx.users.password_hash(user.uid) is not None or tx.has_other_sign_in_method(user.uid):
        return False
    return len(tx.credentials.passkeys_of(user.uid)) <= 1


def add_authenticator(
    tx: Transaction,
    user: User,
    authenticator: Authenticator,
    step: int,
    fresh: FreshCodes,
    key: FingerprintKey,
    now: Instant,
    *,
    session_id: str = "",
) -> tuple[str, ...] | None:
    """Add the app. Return recovery codes for a first factor, else (); None if there was an app.

    If a factor was required, all sessions but `session_id` end.
    """
    held = tx.users.find_to_change(user.uid)
    if held is None or not tx.credentials.add_authenticator(authenticator, step):
        return None
    _end_requirement(tx, user, session_id, now)
    tx.events.add(AuthenticatorAdded(user.uid), now)
    return _first_codes(tx, user, fresh, key, now)


def remove_authenticator(tx: Transaction, user: User, now: Instant) -> bool:
    """Remove the authenticator app. False if there was none."""
    # Locked: no recovery codes are added for a second factor that is being removed.
    held = tx.users.find_to_change(user.uid)
    if held is None or not tx.credentials.remove_authenticator(user.uid):
        return False
    tx.events.add(AuthenticatorRemoved(user.uid), now)
    _after_removal(tx, user, now)
    return True


def issue_recovery_codes(
    tx: Transaction, user: User, fresh: FreshCodes, key: FingerprintKey, now: Instant
) -> tuple[str, ...]:
    """Replace the recovery codes by a new set."""
    # Locked: of two parallel requests, the second replaces the codes of the first.
    tx.users.find_to_change(user.uid)
    prints = factors.fingerprints(key, user.uid, fresh.codes)
    tx.credentials.replace_recovery_codes(user.uid, list(zip(fresh.ids, prints, strict=True)), now)
    tx.events.add(RecoveryCodesIssued(user.uid), now)
    return fresh.codes


def remove_password(tx: Transaction, user: User, now: Instant) -> bool:
    """Remove the password. False without a passkey, or if there is no password."""
    held = tx.users.find_to_change(user.uid)
    if held is None or not tx.credentials.remove_password(user.uid):
        return False
    tx.events.add(PasswordRemoved(user.uid), now)
    return True


def reset_factors(tx: Transaction, user: User, now: Instant) -> bool:
    """Remove all second factors of the account and sign its user out everywhere.

    For users who lost their devices: they sign in with their password, or set a new one by email.
    Returns False if there was no factor.
    """
    held = tx.users.find_to_change(user.uid)
    if held is None:
        return False
    forget_devices(tx, user.uid, now)
    if not tx.credentials.remove_factors(user.uid):
        return False
    tx.events.add(FactorsRemoved(user.uid), now)
    for session in tx.sessions.live_of(user.uid, now):
        close_session(tx, session, now, "factors_reset")
    return True


def _first_codes(
    tx: Transaction, user: User, fresh: FreshCodes, key: FingerprintKey, now: Instant
) -> tuple[str, ...]:
    if tx.credentials.recovery_codes_of(user.uid).left:
        return ()
    return issue_recovery_codes(tx, user, fresh, key, now)


def _after_removal(tx: Transaction, user: User, now: Instant) -> None:
    """Remove recovery codes and remembered devices if no second factor is left."""
    if not tx.users.has_second_factor(user.uid):
        tx.credentials.remove_recovery_codes(user.uid)
        forget_devices(tx, user.uid, now)
