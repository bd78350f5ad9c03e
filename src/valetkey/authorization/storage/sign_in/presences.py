"""A session, its user and the user's consent for one client, in one query."""

from msgspec import Struct

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.session import Session
from valetkey.authorization.storage.register.consents import CONSENTS
from valetkey.authorization.storage.sign_in.sessions import SESSIONS
from valetkey.authorization.storage.users import USERS
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.secret import Fingerprint


class SessionAndUser(Struct, frozen=True):
    """A session, ended or not, and its user, disabled or not.

    `consent` is the user's for the requested client, `told` whether that client was told of the
    session.
    """

    session: Session
    user: User
    consent: Consent | None
    told: bool


class SignedInRows(Struct, frozen=True):
    """One statement instead of four: every authorization request runs it twice."""

    db: Connection

    def find(self, fingerprint: Fingerprint, client_id: str) -> SessionAndUser | None:
        """Return the presence of a cookie. A `client_id` of "" asks about no client."""
        return _PRESENCES.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " LEFT JOIN consents ON consents.uid = sessions.uid"
            " AND consents.client_id = :client_id"
            " AND consents.generation = users.consent_generation"
            " LEFT JOIN participants ON participants.session_id = sessions.id"
            " AND participants.client_id = :client_id"
            " WHERE sessions.fingerprint = :fingerprint",
            fingerprint=fingerprint,
            client_id=client_id,
        )

    def find_by_id(self, session_id: str, client_id: str) -> SessionAndUser | None:
        """Return the presence of a session's public id."""
        return _PRESENCES.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " LEFT JOIN consents ON consents.uid = sessions.uid"
            " AND consents.client_id = :client_id"
            " AND consents.generation = users.consent_generation"
            " LEFT JOIN participants ON participants.session_id = sessions.id"
            " AND participants.client_id = :client_id"
            " WHERE sessions.id = :id",
            id=session_id,
            client_id=client_id,
        )


_PRESENCES = Record(
    SessionAndUser,
    session=SESSIONS,
    user=USERS,
    consent=CONSENTS,
    told=Column(sql="participants.client_id IS NOT NULL"),
)
