"""The search for secrets finds those that are there, wherever and however they are written."""

import sqlite3
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, quote_plus

import psycopg
import pytest

from tests.stories.canary import Canaries, files, processes, tables

_SECRET = "canary1Zk3pQ8vT5xW2yR7sN0bM4cL6dJ9fH1gK+/"
_JWT = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJzaWduZXIifQxyz.c2lnbmF0dXJlLW9mLTY0LWJ5dGVzLWFuZC1tb3Jl"


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    quote_plus,
    lambda text: quote(text, safe="").lower(),
    lambda text: "".join(f"%{ord(letter):02X}" for letter in text),
    lambda text: text.encode().hex(),
    lambda text: b64encode(text.encode()).decode(),
    lambda text: b64encode(f"printer:{text}".encode()).decode(),
    lambda text: b64encode(f"printers:{text}".encode()).decode(),
    lambda text: urlsafe_b64encode(f"printers1:{text}".encode()).decode().rstrip("="),
    lambda text: text[:24],
    lambda text: text[-24:],
)


@pytest.fixture
def canaries() -> Canaries:
    """A search for one secret and one JWT."""
    search = Canaries()
    search.add("secret", _SECRET)
    search.add("token", _JWT)
    return search


@pytest.mark.parametrize("spell", _SPELLINGS)
def test_planted_secret_is_found_in_every_encoding(
    canaries: Canaries, spell: Callable[[str], str]
) -> None:
    written = f'{{"received":"{spell(_SECRET)}"}}'.encode()
    assert canaries.in_places({"a log": written, "another": b"nothing"}) == {"a log": {"secret"}}


def test_header_of_a_jwt_does_not_count_as_a_secret(canaries: Canaries) -> None:
    header, claims, signature = _JWT.split(".")
    assert canaries.in_bytes(header.encode()) == set()
    for piece in (claims, signature, _JWT):
        assert canaries.in_bytes(f"Bearer {piece}".encode()) == {"token"}


def test_unknown_path_is_not_found(canaries: Canaries) -> None:
    others = _SECRET.swapcase()[::-1].encode() + b64encode(b"canary2" * 30)
    assert canaries.in_places({"a log": others, "empty": b""}) == {}


def test_a_row_is_found_that_is_only_in_the_write_ahead_log(
    canaries: Canaries, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE a (text TEXT)")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.execute("INSERT INTO a VALUES (?)", (_SECRET,))
        findings = canaries.in_places(files(tmp_path, but=()))
        assert findings == {str(tmp_path / "a.db-wal"): {"secret"}}
        assert canaries.in_places(files(tmp_path, but=["a.db-wal"])) == {}


def test_a_row_of_a_table_is_found(canaries: Canaries, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute(b"CREATE TABLE a (text TEXT)")
        raw.execute(b"CREATE TABLE b (text TEXT)")
        raw.execute(b"INSERT INTO b VALUES (%s)", (f"x {_SECRET} y",))
    assert canaries.in_places(tables(postgres_url)) == {"table b": {"secret"}}


def test_secret_in_command_line_or_environment_is_found(canaries: Canaries) -> None:
    sleeping = "import sys, time; print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", sleeping, _SECRET],
        env={"TOKEN": _JWT},
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            findings = canaries.in_places(processes(process.pid))
        finally:
            process.kill()
    assert findings == {
        f"cmdline of {process.pid}": {"secret"},
        f"environ of {process.pid}": {"token"},
    }
