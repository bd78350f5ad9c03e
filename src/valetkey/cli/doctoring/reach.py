"""Check that the servers, at their public URLs, and the servers that features need respond."""

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.actions.inspection.certificates import judged_certificate
from valetkey.authorization.actions.inspection.check import Finding
from valetkey.authorization.actions.inspection.databases import judged_clock
from valetkey.authorization.feature import NeededServer
from valetkey.authorization.features import FEATURES
from valetkey.cli.doctoring.finding import CheckResult, error, from_shared, ok, warning
from valetkey.config.agreement import servers
from valetkey.config.paths import certificate_files
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM

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
        context = trust(settings)
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
            if (found := await asyncio.to_thread(look, name, server, context)) is not None:
                yield found
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
        said = json.loads(answer.body).get("issuer")
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        said = None
    if said == url:
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


def trust(settings: Settings) -> ssl.SSLContext:
    """Return a context that trusts the system, `fetch.ca_file` and the servers' certificates."""
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    found = [certificate_files(settings, server) for _, server in servers(settings)]
    files = [chain for chain, _ in filter(None, found)]
    if settings.fetch.ca_file:
        files.append(settings.source.directory / settings.fetch.ca_file)
    for file in files:
        # An unusable certificate is reported separately.
        with suppress(OSError):
            context.load_verify_locations(file)
    return context


async def needed_servers(settings: Settings) -> AsyncIterator[CheckResult]:
    """Send a request to each server that features need."""
    context = trust(settings)
    for server in (server for feature in FEATURES for server in feature.needed_servers(settings)):
        for finding in await asyncio.to_thread(_look, server, context):
            yield finding


def _look(server: NeededServer, context: ssl.SSLContext) -> tuple[CheckResult, ...]:
    about, address = server.name, server.address
    try:
        answer = send_request("HEAD", address, server.path, context)
    except (OSError, http.client.HTTPException) as reason:
        found = f"{address} cannot be reached: {reason}"
        return (warning(about, found, server.advice, server.guide),)
    responds = ok(about, f"{address} responds")
    judged = clock_of(about, answer)
    return (responds,) if judged is None else (responds, from_shared(judged, console=False))
