"""The demo's folder: only one that a demo made, and the same secrets the next time."""

from pathlib import Path

import pytest

from valetkey.cli.demo.site import CLUB, DESK, PRINTER, DemoSite, known_secrets, prepare_demo
from valetkey.kernel.refusal import OperatorError


def site(directory: Path) -> DemoSite:
    return DemoSite(
        directory,
        "http://127.0.0.1:8400",
        "http://127.0.0.1:8401",
        "http://127.0.0.1:8402",
        "http://127.0.0.1:8403/calendar",
        known_secrets(directory),
    )


def test_a_second_demo_in_a_folder_has_the_secrets_of_the_first(tmp_path: Path) -> None:
    first = site(tmp_path / "kept")
    prepare_demo(first)
    again = site(tmp_path / "kept")
    assert dict(again.secrets) == dict(first.secrets)
    assert again.secrets.keys() == {PRINTER, DESK, CLUB}
    prepare_demo(again)


def test_two_demos_share_no_secret(tmp_path: Path) -> None:
    assert not set(known_secrets(tmp_path / "a").values()) & set(
        known_secrets(tmp_path / "b").values()
    )


def test_folder_is_private(tmp_path: Path) -> None:
    prepare_demo(site(tmp_path / "kept"))
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0
    for file in (tmp_path / "kept").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file.name


def test_folder_with_other_files_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(OperatorError, match="not empty"):
        known_secrets(tmp_path)
    (tmp_path / "apply.toml").write_text("[[users]]\nusername = 'bob'\n")
    with pytest.raises(OperatorError, match="not what a demo wrote"):
        known_secrets(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["apply.toml", "thesis.txt"]
