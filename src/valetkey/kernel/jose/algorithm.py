"""The algorithms of signatures, by name alone: whoever only names them needs no cryptography."""

from enum import StrEnum


class Algorithm(StrEnum):
    """How a signature is made (RFC 7518 section 3.1, RFC 8037 section 3.1)."""

    ES256 = "ES256"
    RS256 = "RS256"
    PS256 = "PS256"
    EDDSA = "EdDSA"
