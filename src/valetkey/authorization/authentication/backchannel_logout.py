"""Queue back-channel logout for the apps of a session that ended."""

from valetkey.authorization.model.session import Delivery, DeliveryKind, Session
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.secret import fresh_id

KEPT = days(1)
"""How long delivery to an unresponsive app is retried."""


def enqueue(tx: Transaction, session: Session, now: Instant) -> None:
    """Queue a logout token for each app that the session signed in to.

    Only the transaction that ended the session may call this.
    """
    for client_id in tx.participants.of(session.id):
        client = tx.clients.find(client_id)
        if client is None or client.disabled_at or not client.openid.backchannel_logout_uri:
            continue
        delivery = Delivery(
            id=fresh_id("lt", tx.random),
            kind=DeliveryKind.LOGOUT,
            client_id=client_id,
            session_id=session.id,
            uid=session.uid,
            attempts=0,
            due_at=now,
            created_at=now,
            expires_at=later(now, KEPT),
        )
        tx.deliveries.add(delivery)
