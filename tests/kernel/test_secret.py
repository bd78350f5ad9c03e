"""Secrets: they do not show themselves, and everything about them has one spelling."""

import copy
import logging
import pickle

import pytest

from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import (
    FingerprintKey,
    Prefix,
    Secret,
    fresh_id,
    fresh_reference,
    fresh_secret,
    from_base64url,
    is_tagged,
    ordered_id,
    same,
    tagged_secret,
    to_base64url,
    well_formed,
)


def test_secret_is_shown_only_by_reveal(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret("hunter2")
    logging.getLogger("test").warning("got %s and %r", secret, secret)
    shown = f"{secret} {secret!r} {secret!s} {secret:>20} {[secret]} {caplog.text}"
    assert "hunter2" not in shown
    assert secret.reveal() == "hunter2"


def test_a_secret_is_not_compared_hashed_pickled_or_copied() -> None:
    secret = Secret("hunter2")
    with pytest.raises(TypeError, match="=="):
        assert secret == Secret("hunter2")
    with pytest.raises(TypeError, match="hashed"):
        hash(secret)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError, match="copied"):
        copy.copy(secret)


def test_a_fresh_secret_has_256_bits_a_prefix_and_a_checksum() -> None:
    lowest = fresh_secret(Prefix.CODE, lambda size: b"\x00" * size).reveal()
    highest = fresh_secret(Prefix.CODE, lambda size: b"\xff" * size).reveal()
    assert lowest.startswith("vk_ac_" + "0" * 43)
    assert len(lowest) == len(highest) == len("vk_ac_") + 43 + 6
    assert lowest != highest
    assert len({fresh_secret(Prefix.CODE, SYSTEM.random).reveal() for _ in range(200)}) == 200


def test_each_fresh_secret_is_well_formed_for_its_own_prefix_only() -> None:
    for prefix in Prefix:
        text = fresh_secret(prefix, SYSTEM.random).reveal()
        assert [other for other in Prefix if well_formed(other, text)] == [prefix]


def test_tagged_secret_is_proven_by_its_key_prefix_and_purpose_only() -> None:
    key = FingerprintKey(SYSTEM.random(32))
    text = tagged_secret(Prefix.REFRESH_TOKEN, SYSTEM.random(16), key, "a").reveal()
    assert is_tagged(Prefix.REFRESH_TOKEN, text, key, "a")
    assert not is_tagged(Prefix.REFRESH_TOKEN, text, key, "b")
    assert not is_tagged(Prefix.CODE, text, key, "a")
    assert not is_tagged(Prefix.REFRESH_TOKEN, text, FingerprintKey(SYSTEM.random(32)), "a")
    for _ in range(200):
        invented = fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random).reveal()
        assert not is_tagged(Prefix.REFRESH_TOKEN, invented, key, "a")


def test_tagged_secret_looks_like_a_fresh_one() -> None:
    key = FingerprintKey(SYSTEM.random(32))
    for drawn in (b"\x00" * 16, b"\xff" * 16, SYSTEM.random(16)):
        text = tagged_secret(Prefix.REFRESH_TOKEN, drawn, key, "a").reveal()
        assert well_formed(Prefix.REFRESH_TOKEN, text)
        assert len(text) == len(fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random).reveal())


def test_secret_with_one_changed_character_is_not_well_formed() -> None:
    text = fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random).reveal()
    for index in range(len(text)):
        other = "0" if text[index] != "0" else "1"
        assert not well_formed(Prefix.REFRESH_TOKEN, text[:index] + other + text[index + 1 :])


def test_malformed_text_is_not_well_formed_and_raises_no_exception() -> None:
    text = fresh_secret(Prefix.CODE, SYSTEM.random).reveal()
    start, rest = text[:10], text[11:]
    odd = ["", text[:-1], text + "\n", text * 2, text[:-1] + "é"]
    odd += [start + "\ud800" + rest, start + "²" + rest, start + "١" + rest]
    assert [other for other in odd if well_formed(Prefix.CODE, other)] == []


def test_an_id_has_a_prefix_and_128_bits() -> None:
    assert fresh_id("client", lambda size: b"\x00" * size) == "client_" + "A" * 22


def test_a_fingerprint_needs_the_key_and_the_purpose() -> None:
    key, other = FingerprintKey(b"k" * 32), FingerprintKey(b"l" * 32)
    prints = {
        key.fingerprint("code", "x"),
        other.fingerprint("code", "x"),
        key.fingerprint("session", "x"),
    }
    prints |= {key.fingerprint("code", "y"), key.fingerprint("code", "\ud800")}
    assert len(prints) == 5
    assert all(len(fingerprint) == 43 for fingerprint in prints)
    assert key.fingerprint("code", "x") == key.fingerprint("code", "x")
    assert "kkk" not in repr(key)
    with pytest.raises(ValueError, match="32 bytes"):
        FingerprintKey(b"short")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("é", "é", True),
        ("é", "e", False),
        ("", "", True),
        ("\ud800", "\ud800", True),
        ("\ud800", "\ud801", False),
        ("a", "aa", False),
    ],
)
def test_comparison_takes_any_text(a: str, b: str, equal: bool) -> None:
    assert same(a, b) is equal


def test_base64url_is_that_of_rfc_7515() -> None:
    octets = bytes([3, 236, 255, 224, 193])  # appendix C
    assert to_base64url(octets) == "A-z_4ME"
    assert from_base64url("A-z_4ME") == octets
    assert from_base64url("") == b""


# The library would take every one of these as an alias of another spelling.
@pytest.mark.parametrize(
    "text",
    [
        "AQ==",
        "AQ=",
        "AR",
        "AQ\n",
        " AQ",
        "A Q",
        "+/+/",
        "A",
        "AQ.",
        "ÁQ",
        "A\x00Q",
        "\ud800A",
        "=",
        "*",
    ],
)
def test_noncanonical_base64url_is_refused(text: str) -> None:
    assert from_base64url(text) is None


def test_reference_encodes_sixty_bits_in_readable_groups() -> None:
    assert fresh_reference(bytes) == "VK-0000-0000-0000"
    assert fresh_reference(lambda count: b"\xff" * count) == "VK-ZZZZ-ZZZZ-ZZZZ"
    assert fresh_reference(SYSTEM.random) != fresh_reference(SYSTEM.random)


def test_ordered_ids_sort_by_second_and_then_as_made() -> None:
    made = [
        ordered_id("ev", at, SYSTEM.random) for at in (7, *(1_800_000_000,) * 300, 1_800_000_001)
    ]
    assert made == sorted(made)
    assert len({identifier[-12:] for identifier in made}) == len(made)
    assert {len(identifier) for identifier in made} == {3 + 28}
