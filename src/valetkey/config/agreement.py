"""Contradictions between settings, and files that are missing or of no use."""

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from valetkey.config.paths import certificate_files, credential_path, database_file
from valetkey.config.rules import quoted, show_lifetime
from valetkey.config.sections.people import MailTls
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import ServerSettings, Settings


@dataclass(frozen=True, slots=True)
class Problem:
    """An error to fix: where it is, what is wrong, what would be valid."""

    path: str
    wrong: str
    right: str
    about: tuple[str, ...] = ()
    """Other settings that take part; not reported while one of them is invalid by itself."""

    def __str__(self) -> str:
        return f"{self.path}: {self.wrong}; {self.right}"


def disagreements(settings: Settings) -> Iterator[Problem]:
    """Return every contradiction between settings. Does not access the disk."""
    for name, server in servers(settings):
        yield from _transport(settings, name, server)
    if settings.resource.enabled:
        yield from _two_servers(settings)
        yield from _elsewhere(settings.resource)
        yield from _no_scopes(settings.resource)
    yield from _replicas(settings)
    yield from _lifetimes(settings)
    yield from _mail(settings)
    yield from _metrics(settings)


def missing_files(settings: Settings, names: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for every file that the named servers need and this process cannot use."""
    for name, server in servers(settings):
        if name not in names:
            continue
        files = {
            f"{name}.{key}": settings.source.directory / written
            for key, written in (
                ("tls_certificate", server.tls_certificate),
                ("tls_key", server.tls_key),
            )
            if written
        }
        unreadable = [
            problem for path, file in files.items() for problem in _unreadable(path, file)
        ]
        yield from unreadable
        if not unreadable and len(files) > 1:
            yield from _not_a_pair(f"{name}.tls_certificate", *files.values())
    for key, trusted in (
        ("tls.acme_ca_file", settings.tls.acme_ca_file),
        ("fetch.ca_file", settings.fetch.ca_file),
        ("mail.ca_file", settings.mail.ca_file if "authorization" in names else ""),
    ):
        if trusted:
            yield from _no_authority(key, settings.source.directory / trusted)
    if "authorization" in names and settings.mail.password_file:
        file = settings.source.directory / settings.mail.password_file
        yield from _unreadable("mail.password_file", file, "a file that can be read")
    if names == ("resource",) and not settings.resource.credential_text:
        path = credential_path(settings)
        if not path.exists():
            yield Problem(
                "resource.credential",
                f"there is no file {path}",
                "the authorization server makes it at its first start: copy it from there, or give "
                "its content as VALETKEY__RESOURCE__CREDENTIAL_TEXT",
            )


def servers(settings: Settings) -> tuple[tuple[str, ServerSettings], ...]:
    """Return the servers of the installation, with the names of their sections."""
    authorization = ("authorization", settings.authorization)
    if not settings.resource.enabled:
        return (authorization,)
    return (authorization, ("resource", settings.resource))


def is_loopback(host: str) -> bool:
    """Return whether this host name or address is that of this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _transport(settings: Settings, name: str, server: ServerSettings) -> Iterator[Problem]:
    """Require TLS wherever secrets travel, except on loopback."""
    url = urlsplit(server.url)
    own_tls = certificate_files(settings, server) is not None
    proxy = server.tls_proxy or bool(server.trusted_proxies)
    public = not is_loopback(server.listen.rpartition(":")[0])
    tls = (f"{name}.tls_certificate", f"{name}.tls_key")
    if bool(server.tls_certificate) != bool(server.tls_key):
        setting, absent = tls if server.tls_certificate else reversed(tls)
        yield Problem(absent, "it is empty", f"{setting} has no effect without it: set both", tls)
    elif public and not own_tls and not proxy:
        yield Problem(
            f"{name}.listen",
            f"{quoted(server.listen)} can be reached from other machines, in clear",
            f"set {name}.tls_certificate and {name}.tls_key, or tls.acme, or {name}.tls_proxy = "
            "true behind a proxy that uses TLS, or listen on 127.0.0.1",
            tls,
        )
    if own_tls and server.tls_proxy:
        yield Problem(
            f"{name}.tls_proxy",
            "this server uses TLS itself",
            f"remove it, or {name}.tls_certificate and {name}.tls_key",
            tls,
        )
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield Problem(
            f"{name}.url",
            f"{quoted(server.url)} sends secrets in clear",
            'write an https URL; only loopback, such as "http://localhost:8400", may do without',
        )
    elif url.scheme == "http" and (own_tls or proxy or public):
        yield Problem(
            f"{name}.url",
            f"{quoted(server.url)} is http, but this server uses TLS",
            "write the https URL under which they do",
            (*tls, f"{name}.tls_proxy", f"{name}.trusted_proxies", f"{name}.listen"),
        )


def _two_servers(settings: Settings) -> Iterator[Problem]:
    authorization, resource = settings.authorization, settings.resource
    # Port 0 twice becomes two ports.
    chosen = authorization.url.endswith(":0")
    free = authorization.listen.endswith(":0")
    for key, same, why in (
        (
            "url",
            authorization.url == resource.url and not chosen,
            "each server needs an address of its own",
        ),
        (
            "listen",
            authorization.listen == resource.listen and not free,
            "two servers cannot share a port",
        ),
        (
            "database",
            authorization.database == resource.database,
            "two servers never share a database: give it one of its own",
        ),
    ):
        if same:
            yield Problem(
                f"resource.{key}",
                f"it is the same as authorization.{key}",
                why,
                (f"authorization.{key}",),
            )
    one, other = (database_place(settings, server) for _, server in servers(settings))
    if one == other and authorization.database != resource.database:
        yield Problem(
            "resource.database",
            "it is another way to write authorization.database",
            "two servers never share a database: give it one of its own",
            ("authorization.database",),
        )


def _replicas(settings: Settings) -> Iterator[Problem]:
    if settings.authorization.replicas and database_file(settings, settings.authorization):
        yield Problem(
            "authorization.replicas",
            "authorization.database is a file, which has no replicas",
            "remove them, or write the URL of a PostgreSQL database",
            ("authorization.database",),
        )


def database_place(settings: Settings, server: ServerSettings) -> tuple[str, ...]:
    """Return what distinguishes a database from others, however its URL is written."""
    file = database_file(settings, server)
    if file:
        return (str(file.resolve()),)
    try:
        url = urlsplit(server.database)
        host, port, user = url.hostname or "", str(url.port or 5432), url.username or ""
    except ValueError:
        return (server.database,)
    # User, password and options do not distinguish databases; the query may name the place.
    query = dict(parse_qsl(url.query))
    name = query.get("dbname") or unquote(url.path.strip("/")) or query.get("user") or user
    hosts = query.get("host") or query.get("hostaddr") or host
    return hosts, query.get("port") or port, name


def _elsewhere(resource: ResourceSettings) -> Iterator[Problem]:
    elsewhere = urlsplit(resource.authorization_url)
    if elsewhere.scheme == "http" and not is_loopback(elsewhere.hostname or ""):
        yield Problem(
            "resource.authorization_url",
            f"{quoted(resource.authorization_url)} sends secrets in clear",
            "write its https URL",
        )


def _no_scopes(resource: ResourceSettings) -> Iterator[Problem]:
    if resource.scopes:
        yield Problem(
            "resource.scopes",
            "the resource server has its scopes from its objects",
            "leave it out, or set resource.enabled = false",
            ("resource.enabled",),
        )


def _lifetimes(settings: Settings) -> Iterator[Problem]:
    tokens = settings.tokens
    if tokens.key_publication * 2 > tokens.signing_key_lifetime:
        yield Problem(
            "tokens.key_publication",
            f'"{show_lifetime(tokens.key_publication)}" is too long for keys that live '
            f'"{show_lifetime(tokens.signing_key_lifetime)}"',
            "at most half of tokens.signing_key_lifetime lets the next key wait its turn",
            ("tokens.signing_key_lifetime",),
        )


def _metrics(settings: Settings) -> Iterator[Problem]:
    metrics = settings.metrics
    public = metrics.listen and not is_loopback(metrics.listen.rpartition(":")[0])
    if public and metrics.bearer_token is None and not metrics.bearer_token_file:
        yield Problem(
            "metrics.listen",
            f"{quoted(metrics.listen)} can be reached from other machines without a token",
            "set metrics.bearer_token_file, or VALETKEY__METRICS__BEARER_TOKEN, or listen on "
            "127.0.0.1",
            ("metrics.bearer_token", "metrics.bearer_token_file"),
        )


def _mail(settings: Settings) -> Iterator[Problem]:
    """Emails contain links that sign users in: no other user may read them."""
    mail = settings.mail
    ours = urlsplit(settings.authorization.url).hostname or ""
    if mail.is_mailbox and not is_loopback(ours):
        yield Problem(
            "mail.transport",
            "the mailbox page shows all emails to everyone",
            'write "smtp": only a server on loopback may have a mailbox',
            ("authorization.url",),
        )
    if not mail.host:
        return
    if mail.tls is MailTls.NONE and not is_loopback(mail.host):
        yield Problem(
            "mail.tls",
            f"letters to {quoted(mail.host)} would be sent unencrypted",
            'write "starttls" or "implicit"',
            ("mail.host",),
        )
    if not mail.from_address:
        yield Problem(
            "mail.from_address",
            "it is empty",
            "set the sender address of emails",
            ("mail.host",),
        )
    if mail.user and mail.password is None and not mail.password_file:
        yield Problem(
            "mail.password_file",
            "there is a mail.user and no password",
            "name the file that holds it, or give it as VALETKEY__MAIL__PASSWORD",
            ("mail.user",),
        )
    if not mail.user and (mail.password is not None or mail.password_file):
        yield Problem(
            "mail.user",
            "there is a password but no username",
            "write the name that goes with the password",
            ("mail.password_file",),
        )


def _unreadable(
    path: str, file: Path, right: str = "a PEM file that can be read"
) -> Iterator[Problem]:
    try:
        with file.open("rb"):
            return
    except OSError as reason:
        why = (reason.strerror or "unreadable").lower()
        yield Problem(path, f"{file}: {why}", f"write the path of {right}")


def _no_authority(path: str, file: Path) -> Iterator[Problem]:
    unreadable = list(_unreadable(path, file))
    yield from unreadable
    if not unreadable:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
        except (OSError, ssl.SSLError):
            yield Problem(path, f"{file} holds no certificates", "write the path of a PEM file")


def _not_a_pair(path: str, certificate: Path, key: Path) -> Iterator[Problem]:
    # Found before a server starts: both read the authorization server's certificate, and which of
    # them reported it first would be a matter of chance.
    try:
        # Without a password OpenSSL would ask for it at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError, ValueError) as reason:
        why = "it does not match the key" if _is_of_another(reason) else "it cannot be read"
        wrong = f"{certificate} with {key}: {why}"
        right = "write a certificate in PEM and its key in PEM, without a password"
        yield Problem(path, wrong, right)


def _is_of_another(reason: Exception) -> bool:
    return isinstance(reason, ssl.SSLError) and reason.reason == "KEY_VALUES_MISMATCH"
