"""`valetkey explain`: the decision record behind the reference of a refusal."""

import asyncio
import re
from functools import partial
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.cli import options, say
from valetkey.cli.options import shown
from valetkey.cli.register.store import is_begun, open_database
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.config.settings import Settings
from valetkey.database.decisions import Decisions
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.text import read_code

_REFERENCE = re.compile(
    r"VK-([0-9A-HJKMNP-TV-Z]{4})-([0-9A-HJKMNP-TV-Z]{4})-([0-9A-HJKMNP-TV-Z]{4})"
)
_LETTERS = 12


class _Decision(Struct, frozen=True):
    reference: str
    server: str
    at: Instant
    endpoint: str
    code: str
    check: str
    description: str
    expected: str
    received: str
    client_id: str | None
    request_id: str
    explained_at: str


@click.command()
@click.argument("reference")
@options.config_file
@options.as_json
def command(reference: str, config: Path | None, as_json: bool) -> int:
    """Explain why a request was refused: the check, what it expected, what it received.

    REFERENCE is in every error response, such as VK-7F3K-9QXM-2RTD. Records are kept for seven days
    and contain no secrets. Exit code 1 if there is none.

    Example: valetkey explain VK-7F3K-9QXM-2RTD
    """
    settings = options.settings_of(config)
    begun = any(is_begun(settings, server) for _, server in servers(settings))
    if settings.source.file is None and not begun:
        raise OperatorError("there is no database here; name the configuration with --config FILE")
    decision = asyncio.run(_find(settings, _plain(reference)))
    if decision is None:
        say.error(
            f"there is no record of {_plain(reference)}: records are kept for seven days, and "
            "are written a moment after the refusal"
        )
        return Exit.FAILED
    if as_json:
        say.as_json(asdict(decision))
    else:
        _show(decision)
    return Exit.OK


def _plain(reference: str) -> str:
    """Normalise a reference that was read out or typed."""
    letters = read_code(reference).translate(str.maketrans("OIL", "011"))
    letters = letters.removeprefix("VK")[:_LETTERS]
    normal_form = f"VK-{letters[:4]}-{letters[4:8]}-{letters[8:]}"
    if _REFERENCE.fullmatch(normal_form) is None:
        raise OperatorError("a reference looks like VK-7F3K-9QXM-2RTD")
    return normal_form


async def _find(settings: Settings, reference: str) -> _Decision | None:
    for name, server in servers(settings):
        if not is_begun(settings, server):
            continue
        engine = open_database(settings, server)
        look = partial(_look, server=name, reference=reference, url=settings.authorization.url)
        try:
            if decision := await engine.read(look):
                return decision
        finally:
            await engine.close()
    return None


def _look(db: Connection, server: str, reference: str, url: str) -> _Decision | None:
    decision = Decisions(db).find(reference)
    if decision is None:
        return None
    return _Decision(
        reference=decision.reference,
        server=server,
        at=decision.at,
        endpoint=decision.endpoint,
        code=decision.code,
        check=decision.check,
        description=decision.description,
        expected=decision.expected,
        received=decision.received,
        client_id=decision.client_id,
        request_id=decision.request_id,
        explained_at=f"{url}/errors/{decision.code}",
    )


def _show(decision: _Decision) -> None:
    say.line(f"{say.strong(decision.reference)}  {decision.description}")
    pairs = (
        ("when", shown(decision.at)),
        ("server", decision.server),
        ("endpoint", decision.endpoint),
        ("error", decision.code),
        ("check", decision.check),
        ("expected", decision.expected),
        ("received", decision.received),
        ("client", decision.client_id or ""),
        ("request", decision.request_id),
        ("more", decision.explained_at),
    )
    say.fields([(name, value) for name, value in pairs if value])
