"""Check the servers at their public URLs: whether they respond, and with which identity."""

import asyncio
import http.client
import json
import ssl
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from valetkey.cli.doctoring.databases import judged_skew
from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.cli.register.moments import shown
from valetkey.cli.serving.renewal import failed
from valetkey.config.agreement import servers
from valetkey.config.paths import certificate_files, uses_acme
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.runtime import SYSTEM

_Look = Callable[[str, ServerSettings, ssl.SSLContext], Finding | None]
_WITHIN = 5.0
_LARGEST = 1 << 20
_DAY = 86_400
_SOON = 14 * _DAY


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and when the certificate expires (None without TLS)."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    certificate_until: int | None


async def reach(settings: Settings) -> AsyncIterator[Finding]:
    """Check both servers at their public URLs."""
    for name, server in servers(settings):
        about = f"{name} server"
        context = trust(settings)
        for finding in (*_own_files(settings, name, server), *_unissued(settings, name, server)):
            yield finding
        try:
            answer = await asyncio.to_thread(ask, "GET", server.url, "/health/ready", context)
        except ssl.SSLCertVerificationError as problem:
            yield bad(f"{name} certificate", problem.verify_message, _renewal(name))
            continue
        except (OSError, http.client.HTTPException) as reason:
            yield bad(about, f"{server.url} cannot be reached: {reason}", "Does it run?")
            continue
        if answer.status != http.client.OK:
            yield bad(about, f"{server.url} answers {answer.status}", "Look at its log.")
        else:
            yield good(about, f"{server.url} answers, and writes")
        for finding in _from_headers(name, answer):
            yield finding
        looks: tuple[_Look, ...] = (_vouched, _forwarded)
        for look in looks:
            if (found := await asyncio.to_thread(look, name, server, context)) is not None:
                yield found
        if name == "authorization":
            yield await _issuer(settings, context)


async def _issuer(settings: Settings, context: ssl.SSLContext) -> Finding:
    url = settings.authorization.url
    path = "/.well-known/oauth-authorization-server"
    try:
        answer = await asyncio.to_thread(ask, "GET", url, path, context)
        said = json.loads(answer.body).get("issuer")
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        said = None
    if said == url:
        return good("issuer", f"{url}, as clients will compare it")
    return bad("issuer", f"{url}{path} does not name {url}", "Is this another server's address?")


_PROXY = "docs/how-to/operate/run-behind-a-proxy.md"


def _forwarded(name: str, server: ServerSettings, context: ssl.SSLContext, /) -> Finding | None:
    """Check what a proxy tells the server about host and TLS.

    Health endpoints accept any host, so another path is requested.
    """
    try:
        status = ask("GET", server.url, "/", context).status
    except (OSError, http.client.HTTPException):
        return None
    host = urlsplit(server.url).netloc
    if status == http.client.MISDIRECTED_REQUEST:
        return bad(
            f"{name} proxy",
            f"requests to {server.url} arrive with another Host than {host}: they get 421",
            f"proxy_set_header Host $host; see {_PROXY}",
        )
    if status == http.client.FORBIDDEN and server.url.startswith("https://"):
        return bad(
            f"{name} proxy",
            f"requests to {server.url} arrive as http: they get 403",
            f"proxy_set_header X-Forwarded-Proto $scheme; see {_PROXY}",
        )
    return None


def _from_headers(name: str, answer: Answer) -> Iterator[Finding]:
    if date := answer.headers.get("date"):
        try:
            theirs = int(parsedate_to_datetime(date).timestamp())
        except ValueError:
            return
        yield judged_skew(f"{name} server's clock", abs(theirs - SYSTEM.now()))
    if answer.certificate_until is not None:
        days = (answer.certificate_until - SYSTEM.now()) // _DAY
        if answer.certificate_until - SYSTEM.now() < _SOON:
            yield mind(f"{name} certificate", f"good for {days} days", _renewal(name))
        else:
            yield good(f"{name} certificate", f"good for {days} days")


def _renewal(name: str) -> str:
    return f"Replace the files of {name}.tls_certificate, or renew at the proxy; nothing restarts."


def _own_files(settings: Settings, name: str, server: ServerSettings) -> Iterator[Finding]:
    files = certificate_files(settings, server)
    if files is None:
        return
    certificate, key = files
    try:
        ssl.create_default_context(cafile=certificate)
        if key.stat().st_mode & stat.S_IROTH:
            yield mind(f"{name} key", f"everybody here can read {key}", f"chmod o= {key}")
    except OSError as problem:
        yield bad(f"{name} certificate", f"its files cannot be used: {problem}")


def _unissued(settings: Settings, name: str, server: ServerSettings) -> Iterator[Finding]:
    """Report that the authority of `tls.acme` refused the last orders."""
    if not uses_acme(settings, server):
        return
    times, last = failed(settings, server)
    if times:
        yield bad(
            f"{name} certificate by ACME",
            f"{settings.tls.acme} did not issue one, {times} times, last {shown(last)}",
            "The log says why: certificate.not_issued. Port 443 of the host in url leads here?",
        )


def _vouched(name: str, server: ServerSettings, _: ssl.SSLContext, /) -> Finding | None:
    """Check that others trust the certificate too; `trust` always includes the servers' own."""
    if not server.url.startswith("https://"):
        return None
    try:
        ask("GET", server.url, "/health/live", ssl.create_default_context())
    except ssl.SSLCertVerificationError as problem:
        return mind(
            f"{name} certificate",
            f"no authority known on this machine vouches for it: {problem.verify_message}",
            "Apps and browsers refuse it until they are told to trust it.",
        )
    except (OSError, http.client.HTTPException):
        return None
    return None


def ask(method: str, url: str, target: str, context: ssl.SSLContext) -> Answer:
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
        return Answer(response.status, headers, response.read(_LARGEST), until)
    finally:
        connection.close()


def _certificate_until(socket: object) -> int | None:
    if not isinstance(socket, ssl.SSLSocket):
        return None
    certificate = socket.getpeercert() or {}
    until = certificate.get("notAfter")
    return int(ssl.cert_time_to_seconds(until)) if isinstance(until, str) else None


def trust(settings: Settings) -> ssl.SSLContext:
    """Return a context that trusts the system's certificates and the servers' own."""
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for _, server in servers(settings):
        files = certificate_files(settings, server)
        if files is not None:
            # An unusable certificate is reported separately.
            with suppress(OSError):
                context.load_verify_locations(files[0])
    return context
