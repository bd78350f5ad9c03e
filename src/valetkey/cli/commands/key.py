"""`valetkey key`: show, rotate, back up and restore keys."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from valetkey.authorization.actions.records import credential_in_file
from valetkey.authorization.operations.server import LIST_KEYS, ROTATE_KEYS
from valetkey.authorization.operations.server_records import RotationWanted
from valetkey.cli import options, say
from valetkey.cli.operations.command import group
from valetkey.cli.operations.perform import Members, flat, perform, print_list
from valetkey.cli.register import store
from valetkey.cli.register.store import OpenedStore, confirm, with_store
from valetkey.cli.say import Exit
from valetkey.config.paths import credential_path, database_file, keyring_path
from valetkey.config.settings import Settings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.keyring import create_or_read_secret_file, replace_secret_file
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

_LARGEST = 65_536
_COLUMNS = (
    ("ALGORITHM", "algorithm"),
    ("KEY ID", "kid"),
    ("STATE", "state"),
    ("SIGNS FROM", "activates_at"),
    ("UNTIL", "retires_at"),
    ("PUBLISHED UNTIL", "removed_at"),
)


command = group(
    "key",
    """Show, rotate, back up and restore keys. Signing keys also rotate by themselves.

    Example: valetkey key list
    """,
)


@command.command("list")
@options.config_file
@options.as_json
def list_(config: Path | None, as_json: bool) -> None:
    """List signing keys, and the paths of keyring and credential. Shows no secret.

    Example: valetkey key list
    """
    settings = options.settings_of(config)

    async def list_keys(opened: OpenedStore) -> tuple[Sequence[Members], Sequence[int]]:
        signing_keys = cast("Sequence[Members]", flat(await perform(opened, LIST_KEYS))["items"])
        return store.by_algorithm(signing_keys), [key.version for key in opened.keyring.sealer.keys]

    records, versions = with_store(settings, list_keys)
    if as_json:
        say.as_json(
            {
                "signing_keys": records,
                "keyring": {"file": _keyring_file(settings), "sealing_versions": versions},
                "credential": {"file": _credential_file(settings)},
            }
        )
        return
    if records:
        print_list(records, _COLUMNS, "")
    else:
        say.line("There are no signing keys yet; `valetkey serve` makes the first.")
    say.line()
    say.fields(
        [
            ("keyring", _keyring_file(settings) or "given by the environment"),
            ("seals with", f"version {versions[0]}, opens {len(versions)}"),
            ("credential", _credential_file(settings) or "given by the environment"),
        ]
    )


@command.command()
@click.argument("kind", type=click.Choice(["signing", "sealing", "credential"]), default="signing")
@click.option(
    "--now", "at_once", is_flag=True, help="Rotate at once, because a signing key leaked."
)
@click.option(
    "--algorithm",
    type=click.Choice([algorithm.value for algorithm in Algorithm]),
    help="Only signing keys of this algorithm; otherwise all of them.",
)
@options.yes
@options.config_file
def rotate(kind: str, at_once: bool, algorithm: str | None, yes: bool, config: Path | None) -> None:
    """Replace a key before its time.

    signing: the next key of each algorithm signs once caches have expired; with --now at
    once.

    sealing: the key under which the database keeps secrets. Then restart the servers.

    credential: with which the resource server authenticates. Then restart the resource server.

    Example: valetkey key rotate --now
    """
    settings = options.settings_of(config)
    if kind != "signing" and (at_once or algorithm):
        raise OperatorError("--now and --algorithm are for signing keys")
    only = None if algorithm is None else Algorithm(algorithm)
    if only is not None and only not in settings.tokens.signing_algorithms:
        raise OperatorError(f"it does not name {only}", "tokens.signing_algorithms")
    confirm(_QUESTION[kind, at_once], yes=yes)

    async def rotate_keys(opened: OpenedStore) -> str:
        if kind == "sealing":
            version = await store.rotate_sealing_key(opened)
            return f"Secrets are sealed with version {version}. Next: restart both servers."
        if kind == "credential":
            path = await store.rotate_credential(opened)
            return (
                f"{path} contains a new credential. Next: restart the resource server within a day."
            )
        await perform(opened, ROTATE_KEYS, body=RotationWanted(algorithm=only, at_once=at_once))
        return "Signing keys are rotated; see: valetkey key list"

    say.line(with_store(settings, rotate_keys))


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@options.config_file
def backup(file: Path, config: Path | None) -> None:
    """Write the keyring, and the resource server's credential, to a new FILE of mode 0600.

    Together with the database it gives access to everything: store them apart.

    Example: valetkey key backup /media/safe/valetkey.keyring
    """
    settings = options.settings_of(config)
    path = keyring_path(settings)
    if settings.authorization.keyring_text is None and not path.exists():
        # A new keyring would decrypt nothing, and be taken for a backup until it is needed.
        raise OperatorError(f"there is no keyring at {path}; is this the right configuration?")

    async def read_backup(opened: OpenedStore) -> store.KeyringBackup:
        return store.KeyringBackup(opened.keyring, credential_in_file(settings))

    text = with_store(settings, read_backup).text()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened_file:
            opened_file.write(text)
            opened_file.flush()
            os.fsync(opened_file.fileno())
    except OSError as reason:
        why = (reason.strerror or "no reason given").lower()
        raise OperatorError(f"{file} cannot be written: {why}") from None
    say.line(f"{file} contains the keyring. Store it separately from the databases.")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@options.yes
@options.config_file
def restore(file: Path, yes: bool, config: Path | None) -> int:
    """Put a keyring that was backed up, and its credential, back in place.

    Stop the servers first. Exit code 1 if the keyring does not open this database's keys; then
    nothing is replaced.

    Example: valetkey key restore /media/safe/valetkey.keyring
    """
    settings = options.settings_of(config)
    if settings.authorization.keyring_text is not None:
        raise OperatorError(
            "VALETKEY__AUTHORIZATION__KEYRING_TEXT would win over the file: unset it"
        )
    saved = store.KeyringBackup.parse(_read(file))
    database = database_file(settings, settings.authorization)
    if database is not None and not database.exists():
        # As after the loss of a disk: the databases come next.
        path = _put_both(settings, saved, yes=yes)
        say.line(f"{path} is in place. Next: valetkey database restore")
        return Exit.OK
    # Verified before it is written: the existing keyring may be the only valid one.
    tried = replace(settings.authorization, keyring_text=Secret(saved.keyring.text()))
    opening, all_keys = with_store(
        replace(settings, authorization=tried), store.opens_all, begins=True
    )
    if opening < all_keys:
        say.error(
            f"it opens {opening} of the {all_keys} signing keys: it is another database's, or "
            "older than a rotation of the encryption key; nothing was replaced"
        )
        return Exit.FAILED
    path = _put_both(settings, saved, yes=yes)
    say.line(f"{path} is in place and opens all signing keys. Next: valetkey serve")
    return Exit.OK


_QUESTION = {
    (
        "signing",
        False,
    ): "Let the next signing key take over once it has been published long enough?",
    (
        "signing",
        True,
    ): "Sign with the next key now? APIs that cache keys reject its tokens at first.",
    (
        "sealing",
        False,
    ): "Encrypt every stored secret with a new key? Restart both servers afterwards.",
    ("credential", False): "Make a new credential? The resource server must be restarted after it.",
}


def _put_both(settings: Settings, saved: store.KeyringBackup, *, yes: bool) -> Path:
    path = keyring_path(settings)
    _put(path, saved.keyring.text(), yes=yes)
    if saved.credential is not None and settings.resource.credential_text is None:
        _put(credential_path(settings), saved.credential.reveal(), yes=yes)
    return path


def _put(path: Path, text: str, *, yes: bool) -> None:
    present = create_or_read_secret_file(path, lambda: text)
    if present.strip() == text.strip():
        return
    confirm(f"{path} contains something else. Replace it?", yes=yes)
    replace_secret_file(path, text)


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST).decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise OperatorError(f"{file} cannot be read as a backup of keys") from None


def _keyring_file(settings: Settings) -> str | None:
    from_environment = settings.authorization.keyring_text is not None
    return None if from_environment else str(keyring_path(settings))


def _credential_file(settings: Settings) -> str | None:
    from_environment = settings.resource.credential_text is not None
    return None if from_environment else str(credential_path(settings))
