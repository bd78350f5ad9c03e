"""Paths of the files that settings name, or their defaults."""

import os
from contextlib import suppress
from pathlib import Path

from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError

_SQLITE = "sqlite:///"


def keyring_path(settings: Settings) -> Path:
    """Return the keyring's file: `authorization.keyring`, or `valetkey.keyring` by default."""
    return _placed(
        settings, settings.authorization, settings.authorization.keyring, "valetkey.keyring"
    )


def credential_path(settings: Settings) -> Path:
    """Return the file with the resource server's credential."""
    return _placed(
        settings, settings.resource, settings.resource.credential, "resource-server.credential"
    )


def owner_link_path(settings: Settings) -> Path:
    """Return the path of the file with the owner link, readable by the server's user only."""
    # Beside the keyring, where a server may write: the configuration can be read-only.
    return keyring_path(settings).with_name("owner.link")


def last_seen_path(settings: Settings, server: ServerSettings) -> Path:
    """Return the path of the file that records the database's last known state."""
    if server is settings.authorization:
        return keyring_path(settings).with_name("authorization.last-seen")
    return credential_path(settings).with_name("resource.last-seen")


def process_path(settings: Settings, server: ServerSettings) -> Path:
    """Return the file with the process id of this server's supervisor, while it runs."""
    return last_seen_path(settings, server).with_suffix(".pid")


def write_note(note: Path, process: int) -> None:
    """Write the id of a supervisor; where that is not permitted, `valetkey reload` finds none."""
    with suppress(OSError):
        file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w") as written:
            written.write(f"{process}\n")


_SUPERVISOR = b"valetkey.cli.serving.parent"


def supervisor_of(settings: Settings, server: ServerSettings) -> int:
    """Return the process id of this server's supervisor on this machine; 0 if it does not run."""
    try:
        process = int(process_path(settings, server).read_text(encoding="ascii"))
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    # The number may belong to another program by now.
    return process if _SUPERVISOR in command else 0


def revocation_log_path(settings: Settings) -> Path:
    """Return the path of the file, beside the keyring, that records disabled users and clients."""
    return keyring_path(settings).with_name("authorization.endings")


def database_file(settings: Settings, server: ServerSettings) -> Path | None:
    """Return the file of this server's SQLite database; None for another database."""
    if not server.database.startswith(_SQLITE):
        return None
    return settings.source.directory / server.database.removeprefix(_SQLITE)


def certificate_files(settings: Settings, server: ServerSettings) -> tuple[Path, Path] | None:
    """Return certificate chain and private key, both PEM; None if this server has no TLS."""
    if uses_acme(settings, server):
        # One file, so that both change together.
        return (file := acme_file(settings, server, "pem")), file
    if not (server.tls_certificate and server.tls_key):
        return None
    directory = settings.source.directory
    return directory / server.tls_certificate, directory / server.tls_key


def uses_acme(settings: Settings, server: ServerSettings) -> bool:
    """Return whether this server gets its certificate from the authority of `tls.acme`."""
    proxy = server.tls_proxy or server.trusted_proxies
    tls_file = server.tls_certificate or server.tls_key
    return bool(
        settings.tls.acme and not proxy and not tls_file and server.url.startswith("https:")
    )


def acme_file(settings: Settings, server: ServerSettings, end: str) -> Path:
    """Return a file of this server in `tls.acme_folder`, with the extension `end`."""
    name = "authorization" if server is settings.authorization else "resource"
    return settings.source.directory / settings.tls.acme_folder / f"{name}.{end}"


def monitoring_token(settings: Settings) -> str:
    """Return the bearer token of scrapes and of health in detail, or "". Raises OperatorError."""
    metrics = settings.metrics
    if metrics.bearer_token is not None:
        return metrics.bearer_token.reveal()
    if not metrics.bearer_token_file:
        return ""
    try:
        file = settings.source.directory / metrics.bearer_token_file
        token = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        message = f"cannot read {metrics.bearer_token_file}: {type(error).__name__}"
        raise OperatorError(message, "metrics.bearer_token_file") from error
    if not token:
        raise OperatorError(f"{metrics.bearer_token_file} is empty", "metrics.bearer_token_file")
    return token


def _placed(settings: Settings, server: ServerSettings, written: str, usual: str) -> Path:
    if written:
        return settings.source.directory / written
    file = database_file(settings, server)
    return (file.parent if file else settings.source.directory) / usual


def failed_orders(settings: Settings, server: ServerSettings) -> tuple[int, Instant]:
    """Return how often the authority refused in a row, and when it did last."""
    with suppress(OSError, ValueError):
        count, when = acme_file(settings, server, "failed").read_text(encoding="ascii").split()
        return max(1, int(count)), Instant(int(when))
    return 0, Instant(0)
