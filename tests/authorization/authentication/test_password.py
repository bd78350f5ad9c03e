"""Passwords: what may be one, how it is kept, and what it costs to be wrong."""

import pytest

from valetkey.authorization.authentication.password import (
    hash_password,
    hash_prepared,
    is_current,
    password_problem,
    prepare,
    verify,
)
from valetkey.config.settings import PasswordSettings
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM

SETTINGS = PasswordSettings()


def test_password_matches_only_its_own_hash() -> None:
    stored = hash_password("correct horse", SETTINGS, SYSTEM.random)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert verify("correct horse", stored, SETTINGS)
    assert not verify("correct horsf", stored, SETTINGS)
    assert not verify("correct horse ", stored, SETTINGS)
    assert hash_password("correct horse", SETTINGS, SYSTEM.random) != stored


def test_every_character_of_a_long_password_is_compared() -> None:
    stored = hash_password("a" * 72 + "b", SETTINGS, SYSTEM.random)
    assert not verify("a" * 72 + "c", stored, SETTINGS)


def test_composed_and_decomposed_letters_are_the_same_password() -> None:
    stored = hash_password("cafe\u0301 creme", SETTINGS, SYSTEM.random)
    assert verify("caf\u00e9 creme", stored, SETTINGS)


def test_no_password_matches_a_missing_or_malformed_hash() -> None:
    assert not verify("anything", None, SETTINGS)
    assert not verify("anything", "", SETTINGS)
    assert not verify("anything", "no phc string", SETTINGS)


@pytest.mark.parametrize("text", ["", "a\0b", "a\nb", "\x7f", "\x85", "a" * 1_025, "\u00e9" * 513])
def test_invalid_passwords_are_not_hashed(text: str) -> None:
    assert prepare(text) is None
    with pytest.raises(Refused):
        hash_password(text, SETTINGS, SYSTEM.random)


def test_password_with_a_lone_surrogate_is_refused() -> None:
    assert prepare("password\ud800") is None


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("k3ttl3s", False),
        ("k3ttles!", True),
        ("a kettle " * 113, True),
        ("a kettle " * 114, False),
        ("12345678", False),
    ],
)
def test_too_short_too_long_and_common_new_passwords_are_refused(text: str, good: bool) -> None:
    assert (password_problem(text) == "") is good


def test_hash_with_other_parameters_is_not_current() -> None:
    stored = hash_prepared(b"x", SETTINGS, bytes(16))
    assert is_current(stored, SETTINGS)
    assert not is_current(stored, PasswordSettings(passes=3))
    assert not is_current(stored, PasswordSettings(memory=20))
