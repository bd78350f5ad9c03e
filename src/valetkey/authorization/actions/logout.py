"""Sign-out: end the session and notify every app that was signed in to by it."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from valetkey.authorization.authentication.session import end_session, end_sessions
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import LEASE, Delivery, Session
from valetkey.authorization.protocol.logout import frame_address
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.kernel.moment import Instant, later

Notify = Callable[[Sequence[Delivery]], Awaitable[None]]
"""Attempts deliveries at once, for a short time."""


class SignOut(Struct, frozen=True):
    """Ends sessions when their user signs out."""

    issuer: str
    store: Store
    subjects: Subjects
    notify: Notify

    async def end(self, session: Session, now: Instant) -> Sequence[str]:
        """End the session and notify its apps. Return the URLs for front-channel logout.

        A second caller sends no second notification, and gets the same URLs.
        """

        def end_and_lease(tx: Transaction) -> tuple[Sequence[Delivery], Sequence[str]]:
            ended = end_session(tx, session, now, "signed_out")
            until = later(now, LEASE)
            leased = tx.deliveries.lease_of_session(session.id, now, until) if ended else ()
            return leased, self._frames(tx, session)

        leased, frames = await self.store.write(end_and_lease, done_by=USUAL_ACTOR)
        await self.notify(leased)
        return frames

    async def end_other_sessions(self, by: Session, now: Instant, *, only: str = "") -> int:
        """End the other sessions of the user of session `by`, or `only` one. Return their number.

        Their apps are notified. Does nothing if `by` has ended.
        """

        def end_others(tx: Transaction) -> tuple[int, Sequence[Delivery]]:
            tx.users.hold_alone(by.uid)
            asking = tx.sessions.find_by_id(by.id)
            if asking is None or asking.ended_at is not None:
                return 0, ()
            because = "signed_out_elsewhere"
            if only:
                one = tx.sessions.find_by_id(only)
                is_other = one is not None and one.uid == by.uid and one.id != by.id
                if one is None or not is_other or not end_session(tx, one, now, because):
                    return 0, ()
                return 1, tx.deliveries.lease_of_session(only, now, later(now, LEASE))
            # The count includes the session that continues.
            count = tx.sessions.count_live(by.uid, now) - 1
            ended = end_sessions(tx, by.uid, now, because, keep=by.id) if count else ()
            until = later(now, LEASE)
            return count, [
                delivery
                for session in ended
                for delivery in tx.deliveries.lease_of_session(session.id, now, until)
            ]

        count, leased = await self.store.write(end_others, done_by=USUAL_ACTOR)
        await self.notify(leased)
        return count

    def _frames(self, tx: Transaction, session: Session) -> Sequence[str]:
        addresses: list[str] = []
        for client_id in tx.participants.of_session(session.id):
            client = tx.clients.find(client_id)
            if client is None or client.disabled_at or not client.openid.frontchannel_logout_uri:
                continue
            uri, which = (
                client.openid.frontchannel_logout_uri,
                client.openid.frontchannel_logout_session_required,
            )
            session_id = self.subjects.session(session.id, client)
            addresses.append(frame_address(uri, self.issuer, session_id, says_which=which))
        return addresses
