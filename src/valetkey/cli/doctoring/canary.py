"""The canary check: send a secret in a query string, and search logs for it."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from valetkey.cli.doctoring.finding import CheckResult, error, ok
from valetkey.cli.doctoring.reach import send_request, trust
from valetkey.config.agreement import servers
from valetkey.config.paths import database_file
from valetkey.config.settings import Settings
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url

_WINDOW = 1 << 20
_WRITTEN_WITHIN = 1.5  # seconds until logs and decision records are on disk


def canary_in(settings: Settings, logs: tuple[Path, ...]) -> AsyncIterator[CheckResult]:
    """Send a worthless secret in the query string of a token request, and search for it.

    Searches the databases of this machine, and the files and directories in `logs`.
    """
    return _canary(settings, logs)


async def _canary(settings: Settings, logs: tuple[Path, ...]) -> AsyncIterator[CheckResult]:
    canary = f"canary{to_base64url(SYSTEM.random(18)).replace('-', '0').replace('_', '0')}"
    target = (
        "/oauth/token?grant_type=client_credentials&client_id=valetkey-doctor"
        f"&client_secret={canary}"
    )
    url = settings.authorization.url
    try:
        answer = await asyncio.to_thread(send_request, "POST", url, target, trust(settings))
    except (OSError, http.client.HTTPException):
        return
    if canary.encode() in answer.body:
        yield error("canary", "the response repeats a secret of the query string")
    await asyncio.sleep(_WRITTEN_WITHIN)
    places = [*_database_files(settings), *_files_in(logs)]
    hits = [place for place in places if await asyncio.to_thread(holds, place, canary)]
    for place in hits:
        yield error(
            "canary",
            f"{place} contains a secret that was sent in a query string",
            "Keep queries out of that log.",
            "how-to/operate/run-behind-a-proxy",
        )
    if not hits:
        yield ok(
            "canary",
            f"a test secret was sent in a query string, and is in none of {len(places)} files; "
            f"search the logs of proxies for {canary}",
        )


def _database_files(settings: Settings) -> Iterator[Path]:
    for _, server in servers(settings):
        file = database_file(settings, server)
        for end in ("", "-wal"):
            place = file.with_name(file.name + end) if file else None
            if place is not None and place.exists():
                yield place


def _files_in(logs: tuple[Path, ...]) -> Iterator[Path]:
    for place in logs:
        if place.is_dir():
            yield from (file for file in sorted(place.rglob("*")) if file.is_file())
        elif place.is_file():
            yield place


def holds(file: Path, text: str) -> bool:
    """Return whether the file contains the text; False if the file cannot be read."""
    wanted, before = text.encode(), b""
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_WINDOW):
                if wanted in before + chunk:
                    return True
                before = chunk[-len(wanted) :]
    except OSError:
        return False
    return False
