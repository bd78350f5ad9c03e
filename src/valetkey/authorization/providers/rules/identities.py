"""Linked accounts at upstream providers: sign in with one, link one, unlink one.

An email address never identifies an account, not even a verified one: its holder may change. Only a
signed-in user can link an identity, and only one that is not linked to another user.
"""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.account.usernames import is_choosable, is_reserved
from valetkey.authorization.actions.users import Accounts, Faults, UserRecord
from valetkey.authorization.authentication.federation.provider import ClaimedIdentity
from valetkey.authorization.model.account.user import Identity, Uid, User
from valetkey.authorization.model.event.users import IdentityLinked, IdentityUnlinked
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


def user_of_identity(tx: Transaction, claimed: ClaimedIdentity, now: Instant) -> User | None:
    """Return the user of a linked account, disabled or not, and record its use."""
    identity = tx.identities.find(claimed.issuer, claimed.subject)
    if identity is None:
        return None
    # Before the write: every transaction takes the lock of a user before it changes rows.
    tx.users.hold_alone(identity.uid)
    if not tx.identities.touch(identity, now):
        return None
    if claimed.kept is not None or identity.claims:
        tx.identities.keep_claims(replace(identity, claims=_encoded(claimed)))
    return tx.users.find(identity.uid)


def connect(tx: Transaction, user: User, claimed: ClaimedIdentity, now: Instant) -> bool:
    """Link the identity to `user`.

    False if it is already linked to an account, including this one.
    """
    shown = claimed.email or claimed.username or claimed.name or claimed.subject
    identity = Identity(claimed.issuer, claimed.subject, user.uid, shown, now, now)
    if claimed.kept is not None:
        # Before the row, as everywhere; the user's claims change below.
        tx.users.hold_alone(user.uid)
    if not tx.identities.link(identity):
        return False
    if claimed.kept is not None:
        tx.identities.keep_claims(replace(identity, claims=_encoded(claimed)))
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
    if not tx.identities.unlink(user.uid, issuer, subject):
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
        each.issuer in usable and (each.issuer, each.subject) != (issuer, subject)
        for each in tx.identities.of_user(uid)
    )


def _encoded(claimed: ClaimedIdentity) -> str:
    return msgspec.json.encode(claimed.kept).decode() if claimed.kept else ""


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
        if tx.identities.find(claimed.issuer, claimed.subject) is not None:
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
