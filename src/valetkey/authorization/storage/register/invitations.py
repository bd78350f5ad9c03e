"""Initial access tokens: who may register a client, and how often (RFC 7591 section 3)."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class InitialAccessToken(Struct, frozen=True):
    """A token that an operator issued; `note` is the operator's label.

    `made_by` is the user in whose role it was issued; None for the command line.
    """

    id: str
    note: str
    uses_left: int
    created_at: Instant
    expires_at: Instant
    made_by: Uid | None = None


class InitialAccessTokens(Struct, frozen=True):
    """Issue, use and withdraw initial access tokens."""

    db: Connection

    def issue(self, token: Fingerprint, invitation: InitialAccessToken) -> None:
        """Issue a token."""
        _INVITATIONS.send(
            self.db,
            "INSERT INTO invitations (*, token_print) VALUES (*, :token)",
            invitation,
            token=token,
        )

    def is_live(self, token: Fingerprint, now: Instant) -> bool:
        """Return whether it could be used now; only `spend` decides."""
        row = self.db.row(
            "SELECT id FROM invitations"
            " WHERE token_print = :token AND uses_left > 0 AND expires_at > :now",
            token=token,
            now=now,
        )
        return row is not None

    def spend(self, token: Fingerprint, now: Instant) -> bool:
        """Use it once. At most as many callers get True as it has uses."""
        spent = self.db.run(
            "UPDATE invitations SET uses_left = uses_left - 1"
            " WHERE token_print = :token AND uses_left > 0 AND expires_at > :now",
            token=token,
            now=now,
        )
        return spent == 1

    def live(self, now: Instant) -> Sequence[InitialAccessToken]:
        """Return the usable tokens, oldest first."""
        return _INVITATIONS.all(
            self.db,
            "SELECT * FROM invitations WHERE uses_left > 0 AND expires_at > :now"
            " ORDER BY created_at, id",
            now=now,
        )

    def made_by(self, uid: Uid, now: Instant) -> Sequence[str]:
        """Return the ids of all usable tokens issued in the role of one user."""
        rows = self.db.rows(
            "SELECT id FROM invitations"
            " WHERE made_by = :uid AND uses_left > 0 AND expires_at > :now",
            uid=uid,
            now=now,
        )
        return [row[0] for row in rows]

    def withdraw(self, id: str) -> bool:
        """Withdraw it. False if there is none."""
        return self.db.run("DELETE FROM invitations WHERE id = :id", id=id) == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that are no longer usable."""
        return self.db.run(
            "DELETE FROM invitations WHERE token_print IN"
            " (SELECT token_print FROM invitations WHERE expires_at <= :now OR uses_left = 0"
            " LIMIT :limit)",
            now=now,
            limit=limit,
        )


_INVITATIONS = Record(InitialAccessToken, "invitations")
