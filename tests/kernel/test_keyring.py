"""The keyring file: made once, read by all, by nobody else."""

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from valetkey.kernel.keyring import (
    Keyring,
    create_or_read,
    create_or_read_secret_file,
    replace_secret_file,
)
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_KEY = "A" * 43
_GOOD = f"fingerprint 1 {_KEY}\nsealing 1 {_KEY}\n"


def test_parsed_keyring_equals_the_written_keyring() -> None:
    first = Keyring.fresh(SYSTEM.random)
    again = Keyring.parse(first.text())
    assert again.text() == first.text()
    sealed = first.sealer.seal(b"x", "c", SYSTEM.random)
    assert again.sealer.open(sealed, "c") == b"x"
    assert again.fingerprint_key.fingerprint("p", "x") == first.fingerprint_key.fingerprint(
        "p", "x"
    )


def test_keyring_in_one_line_separated_by_semicolons_is_parsed() -> None:
    assert Keyring.parse(f" fingerprint 1 {_KEY} ; sealing 1 {_KEY};").text().endswith(_GOOD)


def test_a_new_sealing_key_seals_and_the_old_still_opens() -> None:
    old = Keyring.fresh(SYSTEM.random)
    sealed = old.sealer.seal(b"x", "c", SYSTEM.random)
    new = Keyring.parse(old.with_new_sealing_key(SYSTEM.random).text())
    assert [key.version for key in new.sealer.keys] == [2, 1]
    assert new.sealer.open(sealed, "c") == b"x"
    assert not new.sealer.is_current(sealed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "one `fingerprint` line"),
        (f"sealing 1 {_KEY}", "one `fingerprint` line"),
        (f"fingerprint 1 {_KEY}", "one `fingerprint` line"),
        (_GOOD + f"fingerprint 2 {_KEY}", "one `fingerprint` line"),
        (_GOOD + f"sealing 1 {_KEY}", "line 3 of the keyring repeats"),
        (_GOOD + "sealing 2 hunter2", "line 3 of the keyring is not"),
        (_GOOD + f"sealing 2 {'A' * 42}B", "line 3 of the keyring is not"),
        (_GOOD + f"sealing 0 {_KEY}", "line 3 of the keyring is not"),
        (_GOOD + f"sealing ２ {_KEY}", "line 3 of the keyring is not"),
        (_GOOD + f"signing 2 {_KEY}", "line 3 of the keyring is not"),
    ],
)
def test_error_of_an_invalid_line_does_not_contain_its_text(text: str, problem: str) -> None:
    with pytest.raises(OperatorError, match=problem) as mistake:
        Keyring.parse(text)
    assert "hunter2" not in str(mistake.value)
    assert _KEY not in str(mistake.value)


def test_keyring_file_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keyring"
    first = create_or_read(path, SYSTEM.random)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert create_or_read(path, SYSTEM.random).text() == first.text() == path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["keyring"]


def test_concurrent_callers_create_one_secret_file_and_read_the_same_value(tmp_path: Path) -> None:
    path, barrier = tmp_path / "secret", Barrier(8)

    def race(number: int) -> str:
        barrier.wait()
        return create_or_read_secret_file(path, lambda: f"from {number}")

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(race, range(8)))
    assert answers == {path.read_text()}
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_replaced_secret_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    replace_secret_file(path, "new")
    assert create_or_read_secret_file(path, lambda: "never") == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602, 0o666, 0o610])
def test_keyring_file_accessible_to_others_is_refused_with_a_chmod_hint(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "keyring"
    path.write_text(_GOOD)
    path.chmod(mode)
    with pytest.raises(OperatorError, match="run: chmod 600"):
        create_or_read(path, SYSTEM.random)


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def _endless(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 65_537)


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _foreign(path: Path) -> None:
    path.touch(0o600)
    path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("make", [_directory, _pipe, _endless, _dangling, _foreign])
def test_unusable_keyring_file_is_an_operator_error(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "keyring"
    make(path)
    with pytest.raises(OperatorError, match="keyring"):
        create_or_read(path, SYSTEM.random)


def test_a_directory_that_cannot_be_made_is_an_operator_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot be used"):
        create_or_read(tmp_path / "file" / "keyring", SYSTEM.random)


def test_a_keyring_in_use_opens_what_a_later_key_sealed(tmp_path: Path) -> None:
    path = tmp_path / "valetkey.keyring"
    used = create_or_read(path, SYSTEM.random)
    newer = used.with_new_sealing_key(SYSTEM.random)
    sealed = newer.sealer.seal(b"secret", "place", SYSTEM.random)
    assert used.sealer.open(sealed, "place") is None
    replace_secret_file(path, newer.text())
    assert used.sealer.open(sealed, "place") == b"secret"
    assert used.sealer.open(sealed, "elsewhere") is None
    # What it seals itself is still sealed by the key it began with, which everybody has.
    assert used.sealer.seal(b"", "place", SYSTEM.random).startswith("v1.")


def test_keyring_in_use_ignores_another_invalid_or_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "valetkey.keyring"
    used = create_or_read(path, SYSTEM.random)
    stranger = Keyring.fresh(SYSTEM.random).with_new_sealing_key(SYSTEM.random)
    sealed = stranger.sealer.seal(b"secret", "place", SYSTEM.random)
    replace_secret_file(path, stranger.text())
    assert used.sealer.open(sealed, "place") is None
    replace_secret_file(path, "nonsense")
    assert used.sealer.open(sealed, "place") is None
    path.unlink()
    assert used.sealer.open(sealed, "place") is None


def test_unknown_key_version_does_not_cause_another_read_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = create_or_read(tmp_path / "valetkey.keyring", SYSTEM.random)
    monkeypatch.setattr(Path, "open", None)
    monkeypatch.setattr(os, "open", None)
    for version in (2, 999_999_999):
        assert used.sealer.open(f"v{version}.{'A' * 60}", "place") is None
