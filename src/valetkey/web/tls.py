"""The TLS of the servers' own listeners."""

import ssl
from collections.abc import Sequence
from pathlib import Path

from valetkey.kernel.refusal import OperatorError

# Only authenticated encryption with forward secrecy; TLS 1.3 has nothing else (RFC 9325).
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_HTTP = ("http/1.1",)


def tls_context(certificate: Path, key: Path, protocols: Sequence[str] = _HTTP) -> ssl.SSLContext:
    """Return a context for TLS 1.2 (AEAD only) and 1.3. Raises OperatorError for unusable files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "certificate and key do not match"
        raise OperatorError(f"cannot use this certificate: {reason}", "tls_certificate") from error
    return context
