"""Stores of access tokens by reference, and of vouchers: what is looked up by its fingerprint."""

from msgspec import Struct

from valetkey.authorization.model.grant import Liveness, Voucher, VoucherKind
from valetkey.authorization.storage.grants import LIVENESS
from valetkey.authorization.storage.revocations import Revocations, RevokedKind
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint


class ReferenceToken(Struct, frozen=True):
    """An access token's data; `uid` and `grant_id` are None for a client's own.

    `claims` are those beyond the protocol's, as JSON; "" for none.
    """

    id: str
    client_id: str
    grant_id: str | None
    uid: int | None
    scope: Scope
    audience: str
    issued_at: Instant
    expires_at: Instant
    actors: tuple[str, ...] = ()
    claims: str = ""


class AccessTokens(Struct, frozen=True):
    """Store access tokens by reference, found by their fingerprints."""

    db: Connection

    def issue(self, fingerprint: Fingerprint, token: ReferenceToken) -> None:
        """Insert the token."""
        _TOKENS.send(
            self.db,
            "INSERT INTO access_tokens (*, fingerprint) VALUES (*, :fingerprint)",
            token,
            fingerprint=fingerprint,
        )

    def find(self, fingerprint: Fingerprint) -> tuple[ReferenceToken, Liveness] | None:
        """Return the token with the state of everything it depends on, in one query."""
        return _TOKENS_WITH_LIVENESS.find(
            self.db,
            "SELECT * FROM access_tokens"
            " LEFT JOIN grants ON grants.id = access_tokens.grant_id"
            # An exchanged token belongs to a grant of another client.
            " LEFT JOIN clients ON clients.id = COALESCE(grants.client_id, access_tokens.client_id)"
            " LEFT JOIN users ON users.uid = grants.uid"
            " LEFT JOIN sessions ON sessions.id = grants.session_id"
            " LEFT JOIN revocations ON revocations.kind = 'client'"
            " AND revocations.subject = access_tokens.client_id"
            " WHERE access_tokens.fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )

    def revoke(self, token_id: str, fingerprint: Fingerprint, audience: str, now: Instant) -> bool:
        """Revoke one token for the API `audience`. Exactly one concurrent caller gets True."""
        revoked = self.db.run(
            "UPDATE access_tokens SET revoked_at = :now"
            " WHERE fingerprint = :fingerprint AND revoked_at IS NULL",
            fingerprint=fingerprint,
            now=now,
        )
        if revoked:
            Revocations(self.db).add(RevokedKind.TOKEN, token_id, now, audience)
        return revoked == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that expired."""
        return self.db.run(
            "DELETE FROM access_tokens WHERE fingerprint IN"
            " (SELECT fingerprint FROM access_tokens WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_TOKENS = Record(ReferenceToken, "access_tokens", uid=Column(sql="grants.uid"))


def _with_liveness(
    token: ReferenceToken, liveness: Liveness, revoked: bool, client_revoked: bool
) -> tuple[ReferenceToken, Liveness]:
    # A grant that was deleted by a sweep has ended.
    swept = token.grant_id is not None and liveness.grant_ends_at is None
    if revoked or client_revoked or swept:
        liveness = replace(
            liveness,
            client_disabled=liveness.client_disabled or client_revoked,
            grant_revoked=liveness.grant_revoked or swept,
            token_revoked=revoked,
        )
    return token, liveness


_TOKENS_WITH_LIVENESS = Record(
    _with_liveness,
    token=_TOKENS,
    liveness=LIVENESS,
    revoked=Column(sql="access_tokens.revoked_at IS NOT NULL"),
    client_revoked=Column(sql="revocations.revoked_at >= access_tokens.issued_at"),
)


class Vouchers(Struct, frozen=True):
    """Issue, find and redeem vouchers; there is no update."""

    db: Connection

    def issue(self, voucher: Voucher) -> bool:
        """Issue a voucher. False if its string was issued or marked before."""
        return _VOUCHERS.claim(
            self.db,
            "INSERT INTO vouchers (*) VALUES (*) ON CONFLICT (kind, fingerprint) DO NOTHING",
            voucher,
        )

    def replace(self, voucher: Voucher) -> None:
        """Issue a voucher instead of the last one of its kind and subject, which is void.

        Of several concurrent callers, one voucher remains.
        """
        _VOUCHERS.send(
            self.db,
            "INSERT INTO vouchers (*) VALUES (*)"
            " ON CONFLICT (kind, subject) WHERE subject IS NOT NULL DO UPDATE SET"
            " fingerprint = :fingerprint, client_id = :client_id, grant_id = :grant_id,"
            " payload = :payload, expires_at = :expires_at, redeemed_at = :redeemed_at",
            voucher,
        )

    def find(self, kind: VoucherKind, fingerprint: Fingerprint) -> Voucher | None:
        """Return the voucher, redeemed or not, expired or not."""
        return _VOUCHERS.find(
            self.db,
            "SELECT * FROM vouchers WHERE kind = :kind AND fingerprint = :fingerprint",
            kind=kind.value,
            fingerprint=fingerprint,
        )

    def redeem(self, voucher: Voucher, now: Instant) -> bool:
        """Redeem it. Exactly one concurrent caller gets True, and none after it expired."""
        return self.db.claim(
            "UPDATE vouchers SET redeemed_at = :now"
            " WHERE kind = :kind AND fingerprint = :fingerprint"
            " AND redeemed_at IS NULL AND expires_at > :now",
            kind=voucher.kind.value,
            fingerprint=voucher.fingerprint,
            now=now,
        )

    def cancel(self, kind: VoucherKind, subject: Fingerprint) -> None:
        """Delete the voucher of this kind and subject, if there is one."""
        self.db.send(
            "DELETE FROM vouchers WHERE kind = :kind AND subject = :subject",
            kind=kind.value,
            subject=subject,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` vouchers that expired before `before`."""
        return self.db.run(
            "DELETE FROM vouchers WHERE expires_at <= :before AND (kind, fingerprint) IN"
            " (SELECT kind, fingerprint FROM vouchers WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )


_VOUCHERS = Record(Voucher, "vouchers")
