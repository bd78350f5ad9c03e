"""Where tokens are between two runs."""

import stat
from pathlib import Path

import pytest

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.token_file import TokenFile, Tokens

TOKENS = Tokens(Secret("a"), "read", Instant(20), Instant(10), Secret("r"))


def _file(folder: Path, issuer: str = "https://as.example", client: str = "tool") -> TokenFile:
    return TokenFile(folder / "deep" / "tokens.json", issuer, client)


def test_token_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = _file(tmp_path)
    with file.locked():
        assert file.read() is None
        file.write(TOKENS)
        tokens = file.read()
    assert tokens is not None
    assert tokens.refresh_token is not None
    assert (tokens.access_token.reveal(), tokens.refresh_token.reveal()) == ("a", "r")
    assert (tokens.scope, tokens.expires_at, tokens.renew_at) == ("read", 20, 10)
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.iterdir()} == {0o600}
    file.remove()
    file.remove()
    assert file.read() is None


def test_tokens_are_not_read_for_another_issuer_or_client(tmp_path: Path) -> None:
    file = _file(tmp_path)
    with file.locked():
        file.write(TOKENS)
    assert _file(tmp_path, issuer="https://evil.example").read() is None
    assert _file(tmp_path, client="other").read() is None


def test_a_file_that_others_may_read_is_not_trusted(tmp_path: Path) -> None:
    file = _file(tmp_path)
    with file.locked():
        file.write(TOKENS)
    file.path.chmod(0o640)
    with pytest.raises(OperatorError, match="chmod 600"):
        file.read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"issuer":1}'])
def test_malformed_token_file_is_ignored(tmp_path: Path, content: bytes) -> None:
    file = _file(tmp_path)
    with file.locked():
        file.write(TOKENS)
    file.path.write_bytes(content)
    assert file.read() is None


def test_symbolic_link_is_refused(tmp_path: Path) -> None:
    file = _file(tmp_path)
    with file.locked():
        file.write(TOKENS)
    moved = file.path.rename(tmp_path / "elsewhere.json")
    file.path.symlink_to(moved)
    with pytest.raises(OSError, match="symbolic links"):
        file.read()


def test_failed_write_keeps_the_old_tokens_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    file = _file(tmp_path)
    with file.locked():
        file.write(TOKENS)
    broken = Tokens(Secret("\ud800"), "read", Instant(1), Instant(1))
    with pytest.raises(UnicodeEncodeError):
        file.write(broken)
    tokens = file.read()
    assert tokens is not None
    assert tokens.access_token.reveal() == "a"
    assert {path.name for path in file.path.parent.iterdir()} == {"tokens.json", "tokens.json.lock"}
