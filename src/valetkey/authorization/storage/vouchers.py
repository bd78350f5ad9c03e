"""Single-use token records: codes, replay marks, nonces, finished interactions."""

from msgspec import Struct

from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


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
