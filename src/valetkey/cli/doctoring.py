"""The checks of `valetkey doctor` that need a shell or the network."""

import ast
import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.actions.admin.search import summary
from valetkey.authorization.actions.inspection.check import Finding, Installation, Level
from valetkey.authorization.actions.inspection.inspector import in_database
from valetkey.authorization.actions.inspection.machine import (
    DatabaseOf,
    judged_certificate,
    judged_clock,
    of_database,
)
from valetkey.authorization.actions.users import username_fault
from valetkey.authorization.app.foundation import check_grant_types, check_scopes
from valetkey.authorization.app.parts import brand_of, geo_database_of
from valetkey.authorization.authentication.places import open_geo_database
from valetkey.authorization.feature import NeededServer
from valetkey.authorization.features import CHECKS, FEATURES
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.revision import token_state
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.cli.register.store import SCHEMAS, foundation_without_setup, is_begun, open_database
from valetkey.config import rules
from valetkey.config.agreement import Problem, missing_files, servers
from valetkey.config.load import OperatorErrors
from valetkey.config.paths import certificate_files, database_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.connect import connect
from valetkey.database.copying import copy_of
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine, SelfTest
from valetkey.database.identity import check_writable, is_missing, is_standby
from valetkey.database.migrate import applied, find, migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url
from valetkey.resource.objects.declared import read_directory

_BOTH = ("authorization", "resource")


def problems_of(settings: Settings) -> Iterator[Problem]:
    """Return the errors that keep a server from starting or issuing, and a logo not shown."""
    yield from missing_files(settings, _BOTH)
    yield from read_directory(settings)[1]
    yield from _read_as_serve_does(settings)
    yield from _foreign_logo(settings)


def _read_as_serve_does(settings: Settings) -> Iterator[Problem]:
    """Return the errors in files that the authorization server reads, at start or for tokens."""
    folder = settings.source.directory
    claims_file = settings.tokens.claims_file
    readers: tuple[tuple[str, bool, Callable[[], object]], ...] = (
        ("grant_types", True, lambda: check_grant_types(settings)),
        ("scopes", True, lambda: check_scopes(settings)),
        ("privacy.geo_database", bool(settings.privacy.geo_database), lambda: _geo(settings)),
        ("brand.theme", bool(settings.brand.theme), lambda: brand_of(settings)),
        ("tokens.claims_file", bool(claims_file), lambda: _parse(folder / claims_file)),
    )
    for setting, is_there, read in readers:
        try:
            if is_there:
                read()
        except OperatorError as error:
            yield Problem(setting, error.message, "correct it, or leave the setting out")


def _parse(file: Path) -> None:
    """Parse a Python file without running it."""
    try:
        ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise OperatorError(f"{file}, line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise OperatorError(f"{file} cannot be read: {error}") from None


def _geo(settings: Settings) -> None:
    path = geo_database_of(settings)
    if path is not None:
        open_geo_database(path).close()


def _foreign_logo(settings: Settings) -> Iterator[Problem]:
    """Report a logo on another server: pages do not show it, although the server starts."""
    try:
        rules.LOGO.read(settings.brand.logo_url)
    except rules.InvalidValue as wrong:
        yield Problem("brand.logo_url", str(wrong), f"write {rules.LOGO.expected}")


class CheckResult(Struct, frozen=True):
    """The result of one check; `next` says what to do, "" if nothing.

    `check` is the name of the condition, "" for a check that needs a shell; `console` says whether
    the console's overview shows it too. `page` is a page of the documentation, without its ending.
    """

    level: Level
    about: str
    found: str
    next: str = ""
    check: str = ""
    page: str = ""
    console: bool = False


def ok(about: str, sentence: str) -> CheckResult:
    """Return a finding without a problem."""
    return CheckResult(Level.OK, about, sentence)


def warning(about: str, sentence: str, next: str = "", page: str = "") -> CheckResult:
    """Return a finding of something that works but has a risk."""
    return CheckResult(Level.WARNING, about, sentence, next, page=page)


def error(about: str, sentence: str, next: str = "", page: str = "") -> CheckResult:
    """Return a finding of something that does not work or is unsafe."""
    return CheckResult(Level.ERROR, about, sentence, next, page=page)


def from_shared(finding: Finding, *, console: bool = True) -> CheckResult:
    """Return a finding of the shared table; `console` says whether the console shows it too."""
    row = finding.condition
    advice = " ".join(part for part in (finding.fix, finding.command) if part)
    return CheckResult(
        row.level, finding.about, finding.sentence, advice, row.name, row.page, console=console
    )


_DAMAGED = "The file is damaged. Stop the servers, then restore a backup: valetkey database restore"
_WRITES_NOT = "It answers, but cannot be written to: see its log, standbys, locks and disk."


class DatabaseHealth(Struct, frozen=True):
    """The health of one database."""

    server: str
    ok: bool
    found: str
    next: str = ""
    is_readable: bool = False
    """Whether its tables can be read, although it cannot be written to."""


async def health_of_servers(settings: Settings) -> Sequence[DatabaseHealth]:
    """Return the health of both databases."""
    return [await _health(settings, name, server) for name, server in servers(settings)]


async def _health(settings: Settings, name: str, server: ServerSettings) -> DatabaseHealth:
    try:
        if not is_begun(settings, server):
            return DatabaseHealth(name, False, "there is no database yet", "Next: valetkey serve")
        engine = open_database(settings, server)
    except (DatabaseUnavailable, OperatorError) as reason:
        return DatabaseHealth(name, False, str(reason), _advice(str(reason), ""))
    is_file = database_file(settings, server) is not None
    is_empty = True
    advice = "Is its disk full?" if is_file else "Is it running, and is the URL right?"
    try:
        is_empty = await is_missing(engine)
        # Its reasons say what to do.
        advice = ""
        tested = await engine.self_test(SYSTEM.random)
        advice = "Is its disk full?" if is_file else _WRITES_NOT
        notes = _file_size(settings, server) + _pooler(tested)
        return await _health_of(engine, name, notes, is_empty=is_empty)
    except OperatorError as error:
        return DatabaseHealth(name, False, str(error))
    except DatabaseUnavailable as reason:
        advice = _advice(str(reason), advice)
        return DatabaseHealth(name, False, str(reason), advice, is_readable=not is_empty)
    finally:
        await engine.close()


def _advice(reason: str, usual: str) -> str:
    """Return what to do about an unavailable database; SQLite names a damaged file."""
    return _DAMAGED if "malformed" in reason or "not a database" in reason else usual


async def _health_of(engine: Engine, name: str, notes: str, *, is_empty: bool) -> DatabaseHealth:
    if is_empty:
        return DatabaseHealth(
            name, False, "it has no tables yet", "Next: valetkey database migrate"
        )
    numbers = await engine.scan(applied)
    missing = [
        migration.name for migration in find(SCHEMAS[name]) if migration.number not in numbers
    ]
    if missing:
        sentence = f"its tables are older than this version: {', '.join(missing)}"
        return DatabaseHealth(name, False, sentence, "Next: valetkey database migrate")
    began = perf_counter()
    # Nothing is missing, so this only compares the applied migrations.
    await migrate(engine, SCHEMAS[name])
    if await engine.scan(copy_of):
        sentence = "it is being copied to another database and accepts no writes"
        return DatabaseHealth(
            name, False, sentence, "Next: finish `valetkey database copy`, or --cancel"
        )
    await check_writable(engine, SYSTEM.random)
    took = (perf_counter() - began) * 1_000
    return DatabaseHealth(
        name, True, f"answers, up to date, can be written to ({took:.0f} ms{notes})"
    )


def _file_size(settings: Settings, server: ServerSettings) -> str:
    file = database_file(settings, server)
    return f", {size(file)}" if file else ""


def _pooler(tested: SelfTest) -> str:
    return f", through a pooler in {tested.pooling} mode" if tested.pooling else ""


def size(file: Path) -> str:
    """Return the size of a file as text, in MiB."""
    mebibytes = file.stat().st_size / (1 << 20)
    return f"{mebibytes:.1f} MiB"


_PAGE = "how-to/operate/alerts/database-failing"


async def databases(settings: Settings) -> AsyncIterator[CheckResult]:
    """Check both databases, and the content of the authorization server's."""
    for health, (name, server) in zip(
        await health_of_servers(settings), servers(settings), strict=True
    ):
        yield _shown(health)
        if not health.ok and not health.is_readable:
            continue
        try:
            if name == "authorization":
                for finding in await _own(settings):
                    yield finding
                async for finding in replicas(settings):
                    yield finding
            else:
                for shared_finding in await _other(settings, name, server):
                    yield from_shared(shared_finding, console=False)
        except OperatorErrors:
            # The check of the configuration reports it.
            continue
        except (DatabaseUnavailable, OperatorError) as reason:
            yield error(f"{name} database", str(reason), page=_PAGE)


def _shown(health: DatabaseHealth) -> CheckResult:
    about = f"{health.server} database"
    if health.ok:
        return ok(about, health.found)
    return error(about, health.found, health.next, _PAGE)


async def _own(settings: Settings) -> Sequence[CheckResult]:
    foundation = foundation_without_setup(settings)
    try:
        installation = Installation(settings, foundation.keyring, foundation.roles, SYSTEM.now())
        findings = await foundation.store.scan(
            partial(in_database, installation=installation, of_features=CHECKS)
        )
        return [
            *(from_shared(finding) for finding in findings),
            *await usernames(foundation.store, settings),
        ]
    finally:
        await foundation.close()


async def _other(settings: Settings, name: str, server: ServerSettings) -> Sequence[Finding]:
    of, engine = DatabaseOf(name, settings, server), open_database(settings, server)

    def read_state(db: Connection) -> Sequence[Finding]:
        return tuple(of_database(db, of, SYSTEM.now()))

    try:
        return await engine.scan(read_state)
    finally:
        await engine.close()


_REPLICA_PAGE = "how-to/operate/three-machines"
_REPLAYS_WITHIN = 2.0


class _ReplicaState(NamedTuple):
    """What a check of a replica compares; `is_replica` says whether it replays another server."""

    database: str
    number: int
    is_replica: bool


def _replica_state(db: Connection) -> _ReplicaState:
    seen = identity.find(db)
    return _ReplicaState("" if seen is None else seen.database, token_state(db), is_standby(db))


async def replicas(settings: Settings) -> AsyncIterator[CheckResult]:
    """Check each replica: reachable, of this database, and not behind."""
    server = settings.authorization
    if not server.replicas or database_file(settings, server) is not None:
        return
    primary = open_database(settings, server)
    try:
        for url in server.replicas:
            about = f"replica {rules.DATABASE.show(url)}"
            try:
                yield await _judge_replica(settings, primary, url, about)
            except (DatabaseUnavailable, OperatorError) as reason:
                fix = "Requests go on with the primary. Start it, or correct authorization.replicas"
                yield warning(about, str(reason), fix, _REPLICA_PAGE)
    finally:
        await primary.close()


async def _judge_replica(settings: Settings, primary: Engine, url: str, about: str) -> CheckResult:
    replica = connect(
        url,
        directory=settings.source.directory,
        pool_size=1,
        begins=False,
        timeouts=settings.database.timeouts,
    )
    try:
        # Only what had ended by now is waited for.
        expected = await primary.read(_replica_state)
        until = monotonic() + _REPLAYS_WITHIN
        while (state := await replica.read(_replica_state)).number < expected.number:
            if state.database != expected.database or monotonic() >= until:
                break
            await asyncio.sleep(0.1)
    finally:
        await replica.close()
    if state.database != expected.database:
        fix = "It never answers. Correct authorization.replicas"
        return error(about, "it has another database", fix, _REPLICA_PAGE)
    if not state.is_replica:
        fix = "It relieves no other server: name a standby in authorization.replicas"
        return warning(about, "it is a primary", fix, _REPLICA_PAGE)
    if state.number < expected.number:
        fix = "The primary answers meanwhile. See its log, its disk and the network"
        return warning(about, f"it is more than {_REPLAYS_WITHIN:.0f} s behind", fix, _REPLICA_PAGE)
    return ok(about, "It has replayed every revocation.")


_PER_PAGE = 500
_MOST_NAMED = 20


async def usernames(store: Store, settings: Settings) -> Sequence[CheckResult]:
    """Report usernames that could be taken for a uid, an id or the operator; they keep working."""
    brand, last, accounts = (settings.brand.name,), 0, list[tuple[User, str]]()

    def page(tx: Transaction, after: int) -> tuple[int, list[tuple[User, str]]]:
        users = tx.users.page(after, _PER_PAGE)
        faults = [(user, _username_fault(tx, user, brand)) for user in users]
        return (users[-1].uid if users else 0), [pair for pair in faults if pair[1]]

    while len(accounts) < _MOST_NAMED:
        last, more = await store.scan(partial(page, after=last))
        accounts += more
        if not last:
            break
    return [
        warning(
            f"user {summary(user)}",
            f"not allowed for new accounts: it has to be {fault}",
            f"Change it: valetkey user change uid:{user.uid} --username NAME",
        )
        for user, fault in accounts[:_MOST_NAMED]
    ]


def _username_fault(tx: Transaction, user: User, brand: tuple[str, ...]) -> str:
    """Return what the username has to be instead; "" if it may stay."""
    if not user.email:
        # A deleted account.
        return ""
    is_taken = tx.users.is_number_taken(user.username, user.uid)
    return (
        "another one: it is the uid of a user" if is_taken else username_fault(user.username, brand)
    )


_Look = Callable[[str, ServerSettings, ssl.SSLContext], CheckResult | None]
_CERTIFICATE = {
    9: "It is not valid yet: check this machine's clock.",
    62: "Get one for the host name in url, at the proxy if that has it.",
}
"""Certificates that another one does not help, or only one for another name."""

_WITHIN = 5.0
_LARGEST = 1 << 20
_RENEWAL = "how-to/operate/renew-certificates"
_PROXY = "how-to/operate/run-behind-a-proxy"


class ProbeResponse(Struct, frozen=True):
    """A response, and when the certificate expires (None without TLS)."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    certificate_until: int | None


async def check_reachability(settings: Settings) -> AsyncIterator[CheckResult]:
    """Check both servers at their public URLs."""
    for name, server in servers(settings):
        context = trust_of_settings(settings)
        answer = await asyncio.to_thread(_ready, name, server, context)
        if not isinstance(answer, ProbeResponse):
            yield answer
            continue
        about = f"{name} server"
        if answer.status != http.client.OK:
            yield error(about, f"{server.url} answers {answer.status}", "Look at its log.")
        else:
            yield ok(about, f"{server.url} responds, and its database accepts writes")
        for finding in _from_headers(name, answer):
            yield finding
        looks: tuple[_Look, ...] = (_publicly_trusted, _forwarded)
        for look in looks:
            if (result := await asyncio.to_thread(look, name, server, context)) is not None:
                yield result
        # A server that is not ready does not return its metadata.
        if name == "authorization" and answer.status != http.client.SERVICE_UNAVAILABLE:
            yield await _issuer(settings, context)


def certificate_advice(code: int) -> str:
    """Return what to do about a certificate that OpenSSL refused with this X509_V_ERR_… code."""
    return _CERTIFICATE.get(
        code, "Renew it, at the proxy if that has it; servers notice new files."
    )


def _ready(
    name: str, server: ServerSettings, context: ssl.SSLContext
) -> ProbeResponse | CheckResult:
    about = f"{name} server"
    try:
        return send_request("GET", server.url, "/health/ready", context)
    except ssl.SSLCertVerificationError as problem:
        advice = certificate_advice(problem.verify_code)
        return error(f"{name} certificate", problem.verify_message, advice, _RENEWAL)
    except TimeoutError:
        what = f"{server.url} does not respond within {_WITHIN:.0f} seconds"
        return error(about, what, "Look at its log: it may be stuck, or out of open files.")
    except (OSError, http.client.HTTPException) as reason:
        return error(
            about, f"{server.url} cannot be reached: {reason}", "Check that it is running."
        )


async def _issuer(settings: Settings, context: ssl.SSLContext) -> CheckResult:
    url = settings.authorization.url
    path = "/.well-known/oauth-authorization-server"
    try:
        answer = await asyncio.to_thread(send_request, "GET", url, path, context)
        issuer = json.loads(answer.body).get("issuer")
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        issuer = None
    if issuer == url:
        return ok("issuer", f"{url}, as clients will compare it")
    return error("issuer", f"{url}{path} does not name {url}", "Is this another server's address?")


def _forwarded(name: str, server: ServerSettings, context: ssl.SSLContext, /) -> CheckResult | None:
    """Check what a proxy tells the server about host and TLS.

    Health endpoints accept any host, so another path is requested.
    """
    try:
        status = send_request("GET", server.url, "/", context).status
    except (OSError, http.client.HTTPException):
        return None
    host = urlsplit(server.url).netloc
    if status == http.client.MISDIRECTED_REQUEST:
        return error(
            f"{name} proxy",
            f"requests to {server.url} arrive with another Host than {host}: they get 421",
            "In nginx: proxy_set_header Host $host;",
            _PROXY,
        )
    if status == http.client.FORBIDDEN and server.url.startswith("https://"):
        return error(
            f"{name} proxy",
            f"requests to {server.url} arrive as http: they get 403",
            "In nginx: proxy_set_header X-Forwarded-Proto $scheme;",
            _PROXY,
        )
    return None


def _from_headers(name: str, answer: ProbeResponse) -> Iterator[CheckResult]:
    if (judged := clock_of(f"{name} server", answer)) is not None:
        yield from_shared(judged, console=False)
    if answer.certificate_until is not None:
        until = Instant(answer.certificate_until)
        yield from_shared(judged_certificate(f"served {name}", until, SYSTEM.now()), console=False)


def clock_of(server: str, answer: ProbeResponse) -> Finding | None:
    """Compare the response's Date with this machine's clock; None if it has none."""
    try:
        theirs = int(parsedate_to_datetime(answer.headers["date"]).timestamp())
    except (KeyError, ValueError):
        return None
    return judged_clock(server, abs(theirs - SYSTEM.now()))


def _publicly_trusted(
    name: str, server: ServerSettings, _: ssl.SSLContext, /
) -> CheckResult | None:
    """Check that other clients trust the certificate, without what only our servers trust."""
    if not server.url.startswith("https://"):
        return None
    try:
        send_request("GET", server.url, "/health/live", ssl.create_default_context())
    except ssl.SSLCertVerificationError as problem:
        return warning(
            f"{name} certificate",
            f"no authority known on this machine vouches for it: {problem.verify_message}",
            "Apps and browsers refuse it until it is added to their trust store.",
        )
    except (OSError, http.client.HTTPException):
        return None
    return None


def send_request(method: str, url: str, target: str, context: ssl.SSLContext) -> ProbeResponse:
    """Send one request to a server's URL. Raises OSError or HTTPException without a response."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=_WITHIN, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=_WITHIN)
    )
    try:
        connection.request(method, target, headers={"Accept": "application/json"})
        until = _certificate_until(connection.sock)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return ProbeResponse(response.status, headers, response.read(_LARGEST), until)
    finally:
        connection.close()


def _certificate_until(socket: object) -> int | None:
    if not isinstance(socket, ssl.SSLSocket):
        return None
    certificate = socket.getpeercert() or {}
    until = certificate.get("notAfter")
    return int(ssl.cert_time_to_seconds(until)) if isinstance(until, str) else None


def trust_of_settings(settings: Settings) -> ssl.SSLContext:
    """Return a context that trusts the system, `fetch.ca_file` and the servers' certificates."""
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    certificates = [certificate_files(settings, server) for _, server in servers(settings)]
    files = [chain for chain, _ in filter(None, certificates)]
    if settings.fetch.ca_file:
        files.append(settings.source.directory / settings.fetch.ca_file)
    for file in files:
        # An unusable certificate is reported separately.
        with suppress(OSError):
            context.load_verify_locations(file)
    return context


async def needed_servers(settings: Settings) -> AsyncIterator[CheckResult]:
    """Send a request to each server that features need."""
    context = trust_of_settings(settings)
    for server in (server for feature in FEATURES for server in feature.needed_servers(settings)):
        for finding in await asyncio.to_thread(_check_certificate, server, context):
            yield finding


def _check_certificate(server: NeededServer, context: ssl.SSLContext) -> tuple[CheckResult, ...]:
    about, address = server.name, server.address
    try:
        answer = send_request("HEAD", address, server.path, context)
    except (OSError, http.client.HTTPException) as reason:
        sentence = f"{address} cannot be reached: {reason}"
        return (warning(about, sentence, server.advice, server.guide),)
    responds = ok(about, f"{address} responds")
    judged = clock_of(about, answer)
    return (responds,) if judged is None else (responds, from_shared(judged, console=False))


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
        answer = await asyncio.to_thread(
            send_request, "POST", url, target, trust_of_settings(settings)
        )
    except (OSError, http.client.HTTPException):
        return
    if canary.encode() in answer.body:
        yield error("canary", "the response repeats a secret of the query string")
    await asyncio.sleep(_WRITTEN_WITHIN)
    places = [*_database_files(settings), *_files_in(logs)]
    hits = [file for file in places if await asyncio.to_thread(holds, file, canary)]
    for file in hits:
        yield error(
            "canary",
            f"{file} contains a secret that was sent in a query string",
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
            path = file.with_name(file.name + end) if file else None
            if path is not None and path.exists():
                yield path


def _files_in(logs: tuple[Path, ...]) -> Iterator[Path]:
    for path in logs:
        if path.is_dir():
            yield from (file for file in sorted(path.rglob("*")) if file.is_file())
        elif path.is_file():
            yield path


def holds(file: Path, text: str) -> bool:
    """Return whether the file contains the text; False if the file cannot be read."""
    expected, before = text.encode(), b""
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_WINDOW):
                if expected in before + chunk:
                    return True
                before = chunk[-len(expected) :]
    except OSError:
        return False
    return False
