"""`valetkey import`: convert the export of another server to files of this one."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from valetkey.cli import say
from valetkey.cli.applying.file import MEGABYTES
from valetkey.cli.applying.toml import toml_tables
from valetkey.cli.converting.json_values import Json
from valetkey.cli.converting.keycloak import Converted, convert, realm_of
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_LARGEST = 256 << 20
_LARGEST_USERS = 7 << 20
_MOST_USERS = 20_000
"""What one file of an import may have by default."""


@click.group("import")
def command() -> None:
    """Convert users, groups and apps of another server to files for `user import` and `apply`.

    Example: valetkey import keycloak acme-realm.json --output acme
    """


@command.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE…",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="FOLDER",
    help="Write the files to this folder. Default: the current one.",
)
@click.option("--force", is_flag=True, help="Replace files of an earlier conversion.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def keycloak(files: Sequence[Path], output: Path, *, force: bool, as_json: bool) -> None:
    """Convert the export of a Keycloak realm: clients, roles, groups, and users with their hashes.

    FILE is what `kc.sh export` or the console writes; several files are parts of one realm. Writes
    users.json for `valetkey user import`, then apply.toml for `valetkey apply`. Both contain
    secrets. No server and no database is used. What is left out or changed is listed with the
    reason.

    Example: valetkey import keycloak acme-realm.json --output acme
    """
    realm = realm_of([_document(file) for file in files])
    if realm is None:
        raise OperatorError("this is no export of one Keycloak realm")
    made = convert(realm, SYSTEM.random)
    contents = dict(_contents(made))
    output.mkdir(parents=True, exist_ok=True)
    there = [str(output / name) for name in contents if (output / name).exists()]
    if there and not force:
        raise OperatorError(f"{', '.join(there)} exists; add --force to replace it")
    for name, content in contents.items():
        _write(output / name, content)
    if as_json:
        left = [{"what": each.what, "reason": each.reason} for each in made.left_out]
        told = {kind: made.count(kind) for kind in ("clients", "groups")}
        paths = [str(output / name) for name in contents]
        say.as_json(
            {
                "realm": made.realm,
                "users": len(made.users),
                **told,
                "files": paths,
                "left_out": left,
            }
        )
        return
    _print(made, output, contents)


def _document(file: Path) -> object:
    with file.open("rb") as opened:
        content = opened.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OperatorError(
            f"{file} has more than {_LARGEST >> 20} MiB: export users to several files"
        )
    try:
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError):
        raise OperatorError(f"{file} is not JSON") from None


def _contents(made: Converted) -> Iterator[tuple[str, bytes]]:
    pieces = list(_pieces(made.users))
    for number, rows in enumerate(pieces, 1):
        name = "users.json" if len(pieces) == 1 else f"users-{number}.json"
        yield name, b"[\n" + b",\n".join(rows) + b"\n]\n"
    yield "apply.toml", toml_tables(made.tables).encode()


def _pieces(users: Sequence[Json]) -> Iterator[Sequence[bytes]]:
    """Yield the rows in as many pieces as one import takes."""
    rows: list[bytes] = []
    size = 0
    for user in users:
        row = msgspec.json.encode(user)
        if rows and (len(rows) == _MOST_USERS or size + len(row) > _LARGEST_USERS):
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += len(row) + 2
    if rows:
        yield rows


def _write(path: Path, content: bytes) -> None:
    # It contains secrets: no other user may read it, not even for a moment.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)


def _print(made: Converted, output: Path, contents: dict[str, bytes]) -> None:
    say.fields(
        [
            ("Realm", made.realm),
            ("Users", str(len(made.users))),
            ("Groups", str(made.count("groups"))),
            ("Clients", str(made.count("clients"))),
        ]
    )
    if made.left_out:
        say.line()
        say.table(
            ("LEFT OUT OR CHANGED", "REASON"), [(each.what, each.reason) for each in made.left_out]
        )
    say.line()
    for name in contents:
        does = "apply" if name.endswith(".toml") else "user import"
        say.line(f"valetkey {does} {output / name}")
    if len(contents["apply.toml"]) > MEGABYTES << 20:
        say.note(f"apply.toml has more than {MEGABYTES} MiB: divide it before you apply it.")
