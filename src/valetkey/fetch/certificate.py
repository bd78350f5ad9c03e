"""Until when a certificate is good."""

from cryptography import x509

from valetkey.kernel.moment import Instant


def good_until(pem: bytes) -> Instant | None:
    """The end of the first certificate in it; None where there is none that can be read."""
    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    return Instant(int(found.not_valid_after_utc.timestamp()))
