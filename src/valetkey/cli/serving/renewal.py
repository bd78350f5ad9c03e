"""Renew the certificate of a server that gets it from an ACME authority (`tls.acme`).

One worker of each server checks once a minute whether renewal is due. The renewal runs in a process
of its own (see `acme`), so that workers do not load its packages. A lock on a file in
`tls.acme_folder` ensures that only one process of all workers and nodes contacts the authority.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from urllib.parse import urlsplit

from valetkey.config.environment import environment
from valetkey.config.orders import failed_orders
from valetkey.config.paths import acme_file, uses_acme
from valetkey.config.settings import ServerSettings, Settings
from valetkey.fetch.certificate import is_renewal_due, self_signed
from valetkey.kernel.keyring import create_or_read_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM

_LOOK_EVERY = 60.0  # seconds
_PLACEHOLDER_DAYS = 7
_FIRST_RETRY = 300  # seconds; authorities allow few failed validations in an hour
_LONGEST_RETRY = 21_600
_LONGEST_RENEWAL = 300.0  # seconds
_MOST_DOUBLINGS = 10


def host_of(server: ServerSettings) -> str:
    """Return the host name for which this server needs a certificate."""
    return urlsplit(server.url).hostname or ""


def challenge_file(settings: Settings, server: ServerSettings) -> Path | None:
    """Return the file whose certificate answers a pending challenge; None without ACME."""
    return acme_file(settings, server, "challenge") if uses_acme(settings, server) else None


def prepare(settings: Settings, server: ServerSettings) -> None:
    """Write a certificate signed by itself where there is none yet, so that TLS can start."""
    if uses_acme(settings, server):
        create_or_read_secret_file(
            acme_file(settings, server, "pem"),
            lambda: self_signed(host_of(server), SYSTEM.now(), days=_PLACEHOLDER_DAYS),
        )


def is_due(settings: Settings, server: ServerSettings, now: Instant) -> bool:
    """Return whether to contact the authority now; after failures at growing intervals."""
    try:
        pem = acme_file(settings, server, "pem").read_bytes()
    except OSError:
        pem = b""
    failures, last = failed_orders(settings, server)
    wait = (
        min(_LONGEST_RETRY, _FIRST_RETRY << min(failures - 1, _MOST_DOUBLINGS)) if failures else 0
    )
    return now >= last + wait and is_renewal_due(pem, host_of(server), now)


def _trusting(settings: Settings) -> Mapping[str, str]:
    """Return the environment that makes the library trust the authority's own certificate."""
    file = settings.tls.acme_ca_file
    path = str(settings.source.directory / file)
    return {**environment(), "REQUESTS_CA_BUNDLE": path} if file else environment()


async def renew(settings: Settings, server: ServerSettings) -> None:
    """Renew this server's certificate whenever it is due; workers notice the new file."""
    name = "authorization" if server is settings.authorization else "resource"
    command = ("-P", "-m", "valetkey.cli.serving.acme", str(settings.source.file or ""), name)
    while True:
        if is_due(settings, server, SYSTEM.now()):
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdin=DEVNULL, env=_trusting(settings)
            )
            try:
                await asyncio.wait_for(process.wait(), _LONGEST_RENEWAL)
            except (TimeoutError, asyncio.CancelledError) as ended:
                with suppress(ProcessLookupError):
                    process.kill()
                if isinstance(ended, asyncio.CancelledError):
                    raise
        await asyncio.sleep(_LOOK_EVERY)
