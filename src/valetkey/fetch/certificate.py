"""Read the expiry time of a PEM certificate."""

from cryptography import x509

from valetkey.kernel.moment import Instant


def good_until(pem: bytes) -> Instant | None:
    """Return when the first certificate expires; None if none can be read."""
    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    return Instant(int(found.not_valid_after_utc.timestamp()))
