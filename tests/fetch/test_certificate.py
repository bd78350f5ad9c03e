"""Until when a certificate is good."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from valetkey.fetch.certificate import expiry_of


def certificate(until: datetime) -> bytes:
    """A certificate that names nobody, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "auth.example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(until - timedelta(days=90))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def test_expiry_of_a_certificate_is_exact_to_the_second() -> None:
    until = datetime(2027, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert expiry_of(certificate(until)) == int(until.timestamp())


def test_invalid_certificate_has_no_expiry() -> None:
    for text in (b"", b"\0", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        assert expiry_of(text) is None
