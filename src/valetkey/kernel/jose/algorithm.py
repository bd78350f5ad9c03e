"""Names of the signature algorithms, importable without loading cryptography."""

from enum import StrEnum


class Algorithm(StrEnum):
    """A signature algorithm (RFC 7518 section 3.1, RFC 8037 section 3.1)."""

    ES256 = "ES256"
    RS256 = "RS256"
    PS256 = "PS256"
    EDDSA = "EdDSA"
