"""Sealing: opened with its key and in its place, or not at all."""

import pytest

from valetkey.kernel.keyring import Sealer, SealingKey, open_with, seal_with
from valetkey.kernel.runtime import SYSTEM

_OLD = SealingKey(1, b"o" * 32)
_NEW = SealingKey(2, b"n" * 32)


def test_sealed_text_opens_only_in_its_context() -> None:
    sealer = Sealer((_NEW,))
    sealed = sealer.seal(b"the plain text", "table.column:1", SYSTEM.random)
    assert sealed.startswith("v2.")
    assert "plain" not in sealed
    assert sealer.open(sealed, "table.column:1") == b"the plain text"
    assert sealer.open(sealed, "table.column:2") is None
    assert sealer.open(sealed, "\ud800") is None


def test_the_same_text_never_seals_the_same_way() -> None:
    sealer = Sealer((_NEW,))
    assert sealer.seal(b"x", "c", SYSTEM.random) != sealer.seal(b"x", "c", SYSTEM.random)


def test_older_keys_open_and_the_newest_seals() -> None:
    old = Sealer((_OLD,)).seal(b"x", "c", SYSTEM.random)
    both = Sealer((_NEW, _OLD))
    assert both.open(old, "c") == b"x"
    assert not both.is_current(old)
    assert both.is_current(both.seal(b"x", "c", SYSTEM.random))
    assert Sealer((_NEW,)).open(old, "c") is None
    assert Sealer((SealingKey(1, b"p" * 32),)).open(old, "c") is None


def test_sealed_text_with_a_changed_character_does_not_open() -> None:
    sealer = Sealer((_OLD,))
    sealed = sealer.seal(b"", "c", SYSTEM.random)
    for index in range(len(sealed)):
        other = "A" if sealed[index] != "A" else "B"
        assert sealer.open(sealed[:index] + other + sealed[index + 1 :], "c") is None


@pytest.mark.parametrize(
    "text",
    ["", "v1.", "v1.AQ", "v1.AR", "v0.AAAA", "v１.AAAA", "v1.AAAA\n", "AAAA", "v1.é", "\ud800"],
)
def test_malformed_sealed_text_does_not_open_and_raises_no_exception(text: str) -> None:
    assert Sealer((_OLD,)).open(text, "c") is None
    assert open_with("secret", text, "c") is None


def test_text_sealed_with_a_secret_opens_only_with_it_and_its_context() -> None:
    sealed = seal_with("the old token", b"the successor", "refresh", SYSTEM.random)
    assert open_with("the old token", sealed, "refresh") == b"the successor"
    assert open_with("another token", sealed, "refresh") is None
    assert open_with("the old token", sealed, "elsewhere") is None
    assert open_with("the old token", sealed.replace("v1.", "v2."), "refresh") is None


def test_a_sealing_key_has_32_bytes_and_a_version_and_does_not_print() -> None:
    for version, secret in ((1, b"short"), (0, b"x" * 32)):
        with pytest.raises(ValueError, match="32 bytes"):
            SealingKey(version, secret)
    assert "ooo" not in repr(_OLD)
    assert "ooo" not in repr(Sealer((_OLD,)))
