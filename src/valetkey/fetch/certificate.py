"""Read and make PEM certificates: expiry, renewal, and what ACME needs besides an authority."""

import datetime as dt
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from valetkey.kernel.moment import Instant

_CLOCKS = dt.timedelta(hours=1)  # by how much a client's clock may be behind


def expiry_of(pem: bytes) -> Instant | None:
    """Return when the first certificate expires; None if none can be read."""
    certificate = _first(pem)
    return None if certificate is None else _expiry(certificate)


def is_renewal_due(pem: bytes, host: str, now: Instant) -> bool:
    """Return whether a third or less of the certificate's lifetime is left.

    Also due if it is signed by itself, is for other names than `host`, or cannot be read.
    """
    certificate = _first(pem)
    if (
        certificate is None
        or certificate.issuer == certificate.subject
        or host not in _names(certificate)
    ):
        return True
    begins = int(certificate.not_valid_before_utc.timestamp())
    return _expiry(certificate) - now <= (_expiry(certificate) - begins) // 3


def serves(pem: bytes, host: str) -> bool:
    """Return whether the first certificate is for `host`, also by a wildcard (RFC 9525)."""
    certificate = _first(pem)
    wildcard = f"*.{host.partition('.')[2]}"
    names = () if certificate is None else (name.lower() for name in _names(certificate))
    return any(name in {host, wildcard} for name in names)


def fresh_key() -> str:
    """Return a new P-256 key as PEM."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def private_key(pem: str) -> ec.EllipticCurvePrivateKey:
    """Return a key that `fresh_key` made. Raises ValueError for any other text."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not a P-256 key")
    return key


def self_signed(host: str, now: Instant, *, days: int, challenge: str = "") -> str:
    """Return a key and a certificate for `host` that it signed itself, as one PEM text.

    `challenge` makes it the answer to an authority: the key authorization (RFC 8737 section 3).
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host[:64])])
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _CLOCKS)
        .not_valid_after(moment + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if challenge:
        # An OCTET STRING of 32 bytes in DER.
        value = b"\x04\x20" + hashlib.sha256(challenge.encode()).digest()
        builder = builder.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"), value),
            critical=True,
        )
    made = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return _pem(key) + made.decode()


def _first(pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def _expiry(certificate: x509.Certificate) -> Instant:
    return Instant(int(certificate.not_valid_after_utc.timestamp()))


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return []
    return names.get_values_for_type(x509.DNSName)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
