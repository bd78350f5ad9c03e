"""PKCE: which challenges pass, and which verifier fits."""

import pytest

from valetkey.authorization.protocol.authorization_request import (
    challenge_of,
    check_challenge,
    matches,
)
from valetkey.kernel.refusal import ErrorCode, Refused

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636 appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_verifier_of_the_rfc_example_matches_its_challenge() -> None:
    assert challenge_of(VERIFIER) == CHALLENGE
    assert matches(CHALLENGE, VERIFIER)


@pytest.mark.parametrize(
    "verifier", ["", VERIFIER[:-1] + "l", VERIFIER[:42], VERIFIER + "\n", "é" * 43, "a" * 129]
)
def test_other_verifier_does_not_match(verifier: str) -> None:
    assert not matches(CHALLENGE, verifier)


def test_challenge_sent_as_verifier_does_not_match() -> None:
    challenge = challenge_of("a" * 43)
    assert not matches(challenge, challenge)


def test_shortest_and_longest_verifier_match() -> None:
    for verifier in ("a" * 43, "~" * 128):
        assert matches(challenge_of(verifier), verifier)


def test_valid_challenge_is_accepted_and_optional_one_may_be_missing() -> None:
    assert check_challenge(CHALLENGE, "S256", needed=True) == CHALLENGE
    assert check_challenge(None, None, needed=False) == ""


@pytest.mark.parametrize(
    ("challenge", "method", "needed", "check"),
    [
        (None, None, True, "pkce.missing"),
        ("", "S256", True, "pkce.missing"),
        (None, "S256", False, "pkce.alone"),
        (CHALLENGE, None, False, "pkce.method"),
        (CHALLENGE, "plain", False, "pkce.method"),
        (CHALLENGE, "s256", False, "pkce.method"),
        (CHALLENGE, "S256\n", False, "pkce.method"),
        (CHALLENGE, "plain\nS256", False, "pkce.method"),
        (CHALLENGE[:-1], "S256", False, "pkce.malformed"),
        (CHALLENGE + "A", "S256", False, "pkce.malformed"),
        (CHALLENGE[:-1] + "N", "S256", False, "pkce.malformed"),  # not the canonical spelling
        (CHALLENGE[:-1] + "=", "S256", False, "pkce.malformed"),
        (CHALLENGE[:-1] + "+", "S256", False, "pkce.malformed"),
        ("é" * 43, "S256", False, "pkce.malformed"),
    ],
)
def test_missing_or_invalid_code_challenge_is_refused(
    challenge: str | None, method: str | None, needed: bool, check: str
) -> None:
    with pytest.raises(Refused) as caught:
        check_challenge(challenge, method, needed=needed)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST
    assert caught.value.refusal.check == check
