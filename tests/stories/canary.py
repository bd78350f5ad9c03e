"""Finding secrets where none may be: in logs, database files, tables, processes and answers."""

import os
import subprocess
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.cli.running import valetkey
from tests.support import postgres

BACKUP = "backup"
"""The folder of the backup, in that of the servers."""

_SHORTEST = 16  # characters of which a secret must have so many to be told from chance
_TELLING = 20  # characters at either end that give a secret away
_PUBLIC = ("gr_", "eyJhbGciOi")  # a grant's id, the header of a JWT

REGISTER = """
[[users]]
username = "ada"
email = "ada@example.com"
name = "Ada Lovelace"
password = "{password}"

[[clients]]
client_id = "printer"
client_secret = "{secret}"
name = "Notes Printer"
description = "{planted}"
redirect_uris = ["{callback}"]
grant_types = ["authorization_code", "refresh_token", "client_credentials", "password", "implicit"]
scopes = ["notes:read", "notes:write", "account:read"]

[[clients]]
client_id = "archive"
client_secret = "{other}"
name = "Archive"
redirect_uris = ["{callback}"]
grant_types = ["authorization_code", "refresh_token"]
scopes = ["notes:read"]
access_token_format = "reference"

[[clients]]
client_id = "signer"
name = "Signer"
grant_types = ["client_credentials"]
key_set = '''{keys}'''
"""


class Canaries:
    """Every secret of the story, in each spelling in which it could be written down."""

    def __init__(self) -> None:
        """Know no secret yet."""
        self._said: dict[str, str] = {}
        self._signs: dict[bytes, str] = {}

    def __len__(self) -> int:
        """How many secrets."""
        return len(self._said)

    def add(self, kind: str, secret: str) -> str:
        """Remember one, and return it."""
        if secret not in self._said:
            self._said[secret] = kind
            for sign in _signs(secret):
                self._signs[sign] = kind
        return secret

    def in_bytes(self, data: bytes) -> set[str]:
        """The kinds of those that `data` holds, whole or so much of them that it tells."""
        folded = data.lower()
        return {kind for sign, kind in self._signs.items() if sign in folded}

    def in_places(self, places: Mapping[str, bytes]) -> dict[str, set[str]]:
        """What was found where; empty if nothing was."""
        findings = {name: self.in_bytes(data) for name, data in places.items()}
        return {name: kinds for name, kinds in findings.items() if kinds}


def _signs(secret: str) -> Iterator[bytes]:
    for piece in secret.split("."):
        if len(piece) < _SHORTEST or piece.startswith(_PUBLIC):
            continue
        raw = piece.encode()
        # The middle of a base64 text does not depend on what stands around it.
        for shift in range(3):
            for encode in (b64encode, urlsafe_b64encode):
                yield encode(b"\0" * shift + raw)[4:-4].lower()
        yield "".join(f"%{octet:02x}" for octet in raw).encode()
        yield "".join(f"{octet:02x}" for octet in raw).encode()
        for part in (piece[:_TELLING], piece[-_TELLING:]):
            yield part.lower().encode()
            yield quote(part, safe="").lower().encode()


def files(folder: Path, *, but: Iterable[str]) -> dict[str, bytes]:
    """Every file below `folder` except those with these names."""
    kept = set(but)
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in kept
    }


def back_up(here: Path, database: str) -> None:
    """Back up the authorization server's database to a folder in `here`, while it is served."""
    if database.startswith("sqlite"):
        done = valetkey("database", "backup", BACKUP, here=here)
        assert done.code == 0, done.err
        return
    programs = postgres.binaries()
    assert programs is not None
    (here / BACKUP).mkdir()
    # As plain text: a compressed archive hides what is in it.
    file = here / BACKUP / "authorization.sql"
    subprocess.run([str(programs / "pg_dump"), "--file", str(file), database], check=True)


def tables(url: str) -> dict[str, bytes]:
    """Every table of a PostgreSQL database, as `COPY` writes it."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        ).fetchall()
        dumped: dict[str, bytes] = {}
        for (name,) in names:
            command = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(name))
            with connection.cursor().copy(command) as copy:
                dumped[f"table {name}"] = b"".join(bytes(row) for row in copy)
    return dumped


def processes(first: int) -> dict[str, bytes]:
    """What anyone on the machine sees of a process and its children: arguments, environment."""
    contents: dict[str, bytes] = {}
    for pid in (first, *_children(first)):
        for name in ("cmdline", "environ", "comm"):
            contents[f"{name} of {pid}"] = Path(f"/proc/{pid}/{name}").read_bytes()
    return contents


def _children(parent: int) -> list[int]:
    listed = subprocess.run(
        ["pgrep", "-P", str(parent)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    return [int(line) for line in listed.stdout.split()]
