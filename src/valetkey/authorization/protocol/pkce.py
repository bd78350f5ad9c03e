"""PKCE: a code can be redeemed only by the client that requested it (RFC 7636, RFC 9700 2.1.1)."""

import re
from hashlib import sha256

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import from_base64url, same, to_base64url

METHOD = "S256"
"""The only supported method."""

_DIGEST = 32
_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


def check_challenge(challenge: str | None, method: str | None, *, needed: bool) -> str:
    """Check the code challenge of an authorization request; "" for none.

    Refused with `invalid_request` if it is `needed` and missing, if its method is not S256 (a
    missing method means `plain`), and if it cannot be a SHA-256 digest.
    """
    if not challenge:
        if needed:
            raise _refused("missing", "code_challenge is required for this client", "nothing")
        if method:
            raise _refused("alone", "code_challenge_method came without code_challenge", "nothing")
        return ""
    if method != METHOD:
        description = "code_challenge_method must be S256; without it the method would be plain"
        raise _refused("method", description, "another method" if method else "no method")
    digest = from_base64url(challenge)
    if digest is None or len(digest) != _DIGEST:
        description = "code_challenge must be the base64url of a SHA-256 digest, 43 characters"
        raise _refused("malformed", description, f"{len(challenge)} characters")
    return challenge


def matches(challenge: str, verifier: str) -> bool:
    """Return whether `challenge` was derived from `verifier`; False for a malformed verifier."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    return same(challenge_of(verifier), challenge)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of an ASCII verifier."""
    return to_base64url(sha256(verifier.encode("ascii")).digest())


def _refused(check: str, description: str, received: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        description,
        f"pkce.{check}",
        "code_challenge with code_challenge_method=S256",
        received,
    )
