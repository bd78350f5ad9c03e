"""Ways into an account that are not its first person's: what goes when it is taken back."""

from valetkey.authorization.actions.admin.issued import end_issued
from valetkey.authorization.authentication.factors.device import forget_devices
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.factors import AuthenticatorRemoved, PasskeyRemoved
from valetkey.authorization.model.event.people import IdentityUnlinked
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


def remove_sign_in_methods(
    tx: Transaction, uid: Uid, since: Instant, because: str, now: Instant
) -> None:
    """Remove passkeys, authenticators and linked accounts that were added at `since` or later.

    Older ones stay: otherwise an attacker who reads old emails could remove them. Remembered
    devices, admin API tokens and open invitations are removed whatever their age.
    """
    for passkey in tx.credentials.passkeys_of(uid):
        if passkey.created_at >= since and tx.credentials.remove_passkey(uid, passkey.id):
            tx.events.add(PasskeyRemoved(uid, passkey.id), now)
    app = tx.credentials.authenticator_of(uid)
    if app is not None and app.created_at >= since and tx.credentials.remove_authenticator(uid):
        tx.events.add(AuthenticatorRemoved(uid), now)
    made_at = tx.credentials.recovery_codes_of(uid).made_at
    if not tx.users.has_second_factor(uid) or (made_at is not None and made_at >= since):
        tx.credentials.remove_recovery_codes(uid)
    for identity in tx.identities.of_user(uid):
        if identity.linked_at >= since:
            tx.identities.unlink(uid, identity.issuer, identity.subject)
            tx.events.add(IdentityUnlinked(uid, identity.issuer, because), now)
    forget_devices(tx, uid, now)
    end_issued(tx, uid, now)
