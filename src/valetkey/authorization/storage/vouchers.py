"""Strings that can be redeemed once: codes, replay marks, nonces, finished interactions."""

from msgspec import Struct

from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class Vouchers(Struct, frozen=True):
    """Issue, find, redeem; never save."""

    db: Connection

    def issue(self, voucher: Voucher) -> bool:
        """Hand it out. False if the same string was handed out or marked before."""
        issued = self.db.run(
            "INSERT INTO vouchers"
            " (kind, fingerprint, client_id, grant_id, payload, expires_at, redeemed_at)"
            " VALUES (:kind, :fingerprint, :client_id, :grant_id, :payload, :expires_at,"
            " :redeemed_at)"
            " ON CONFLICT (kind, fingerprint) DO NOTHING",
            kind=voucher.kind.value,
            fingerprint=voucher.fingerprint,
            client_id=voucher.client_id,
            grant_id=voucher.grant_id,
            payload=voucher.payload,
            expires_at=voucher.expires_at,
            redeemed_at=voucher.redeemed_at,
        )
        return issued == 1

    def find(self, kind: VoucherKind, fingerprint: Fingerprint) -> Voucher | None:
        """The voucher, redeemed or not, expired or not."""
        row = self.db.row(
            "SELECT client_id, grant_id, payload, expires_at, redeemed_at FROM vouchers"
            " WHERE kind = :kind AND fingerprint = :fingerprint",
            kind=kind.value,
            fingerprint=fingerprint,
        )
        if row is None:
            return None
        return Voucher(kind, fingerprint, row[0], row[1], row[2], Instant(row[3]), row[4])

    def redeem(self, voucher: Voucher, now: Instant) -> bool:
        """Spend it. Of all who try, exactly one is told True; nobody once it expired."""
        redeemed = self.db.run(
            "UPDATE vouchers SET redeemed_at = :now"
            " WHERE kind = :kind AND fingerprint = :fingerprint"
            " AND redeemed_at IS NULL AND expires_at > :now",
            kind=voucher.kind.value,
            fingerprint=voucher.fingerprint,
            now=now,
        )
        return redeemed == 1

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` vouchers that expired before `before`."""
        return self.db.run(
            "DELETE FROM vouchers WHERE expires_at <= :before AND (kind, fingerprint) IN"
            " (SELECT kind, fingerprint FROM vouchers WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )
