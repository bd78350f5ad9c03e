"""`valetkey init`: ask for the settings of an installation, test them, write the configuration."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import click

from valetkey.authorization.actions.inspection.check import Level
from valetkey.authorization.actions.inspection.queues import mail
from valetkey.authorization.actions.users import username_fault
from valetkey.authorization.model.user import is_mailable
from valetkey.cli import say
from valetkey.cli.commands import database
from valetkey.cli.commands.groups import group_of
from valetkey.cli.register.store import open_database
from valetkey.config.agreement import servers
from valetkey.config.load import USUAL_FILE, OperatorErrors, load
from valetkey.config.paths import database_file
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.database.identity import is_missing
from valetkey.kernel.refusal import OperatorError

_LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
_PROXY, _OWN, _ACME = "proxy", "own", "acme"
_HEADER = (
    "# Written by `valetkey init`. It may hold passwords: keep it readable by its owner only.\n"
)
_Document = dict[str, dict[str, object]]
_Check = Callable[[Settings], None]
_OPTIONS = {
    "authorization.url": "--url",
    "resource.url": "--api-url",
    "authorization.trusted_proxies": "--trusted-proxy",
    "resource.trusted_proxies": "--trusted-proxy",
    "authorization.tls_certificate": "--certificate",
    "authorization.tls_key": "--key",
    "tls.acme_email": "--acme-email",
    "authorization.database": "--database",
    "resource.database": "--api-database",
    "mail.host": "--mail-host",
    "mail.tls": "--mail-tls",
    "mail.port": "--mail-port",
    "mail.user": "--mail-user",
    "mail.password_file": "--mail-password-file",
    "mail.from_address": "--mail-from",
}
"""The option that is written as each setting."""

_T = TypeVar("_T")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--url", help="Public URL of the authorization server.")
@click.option("--api-url", help="Public URL of the resource server.")
@click.option(
    "--tls",
    type=click.Choice([_PROXY, _OWN, _ACME]),
    help="Where TLS is terminated, if a URL is https.",
)
@click.option("--trusted-proxy", help="Address or network of the proxy.")
@click.option("--certificate", help="PEM file with the certificate and its chain.")
@click.option("--key", help="PEM file with the certificate's private key.")
@click.option("--acme-email", help="Where the ACME authority may send notices.")
@click.option("--database", help="Database of users, clients, grants.")
@click.option("--api-database", help="Database of the resource server.")
@click.option("--mail-host", help='The mail server; "" sends no email.')
@click.option(
    "--mail-tls",
    type=click.Choice(["starttls", "implicit", "none"]),
    help="How the connection to the mail server is encrypted.",
)
@click.option("--mail-port", help="The mail server's port; 0 for the usual one.")
@click.option("--mail-user", help='User name at the mail server; "" for none.')
@click.option("--mail-password-file", help="File with the password at the mail server.")
@click.option("--mail-from", help="The sender address.")
@click.option("--owner-email", help="Email address of the first owner.")
@click.option("--owner-username", help="Username of the first owner.")
@click.option("--no-input", is_flag=True, help="Ask nothing: use the options and the defaults.")
def command(directory: Path, no_input: bool, **options: str | None) -> None:
    """Write a configuration for production into DIRECTORY, and create its databases.

    Asks for URLs, TLS, databases, email and the first owner, unless they are given as options.
    Databases and the mail server are tested before anything is written. An existing configuration
    is never overwritten. Only you can read the file.

    Example: valetkey init --no-input --url http://localhost:8400 --owner-email ada@example.com
    """
    file = directory / USUAL_FILE
    if file.exists():
        raise OperatorError(f"{file} exists; remove it, or name another directory")
    ask = _Dialogue(options, asks=not no_input and sys.stdin.isatty())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    document: _Document = {"authorization": {}, "resource": {}}
    for step in (_addresses, _tls, _databases, _email):
        _answered(directory, document, step, ask)
    email = _until_valid(ask, lambda: _owner_email(ask))
    name = _until_valid(ask, lambda: _owner_username(ask, email))
    _write(file, _toml(document))
    try:
        database.command.main(["migrate", "--config", str(file)], standalone_mode=False)
        password = _create_owner(file, name, email)
    except BaseException:
        say.note(f"{file} is written; a later step failed. Repeat that step with its command.")
        raise
    say.line(f"The first owner is {name}, who signs in with {email} and this password:")
    say.line(f"password: {password}")
    say.note("The password is shown only now.")
    say.line(f"{file} is written. Next: {say.program()} serve --config {file}")
    say.line(f"Then sign in at {document['authorization']['url']}/admin")
    say.line(f"While it runs, look for problems: {say.program()} doctor --config {file}")


def _create_owner(file: Path, name: str, email: str) -> str:
    """Create the account with the commands for it, and return the generated password."""
    create = (*("create", name, "--email", email), "--email-verified", "--generate-password")
    output = StringIO()
    for arguments in (create, ("role", name, "owner")):
        with redirect_stdout(output), redirect_stderr(StringIO()):
            group_of("user").main(
                [*arguments, "--json", "--config", str(file)], standalone_mode=False
            )
    created, _ = json.JSONDecoder().raw_decode(output.getvalue())
    return str(created["password"])


class _Dialogue:
    """Answers questions from options, the terminal, or the defaults."""

    def __init__(self, options: Mapping[str, str | None], *, asks: bool) -> None:
        self.asked = 0
        self._given, self._asks = options, asks

    def __call__(self, name: str, question: str, default: str | None = None) -> str:
        """Return the answer. Raises OperatorError if a required answer cannot be asked for."""
        option = self._given.get(name)
        if option is not None:
            return option
        if not self._asks:
            if default is None:
                raise OperatorError(f"--{name.replace('_', '-')} is needed, since nothing is asked")
            return default
        self.asked += 1
        answer: str = click.prompt(question, default=default, show_default=bool(default))
        return answer


def _until_valid(ask: "_Dialogue", step: Callable[[], _T]) -> _T:
    """Return the result of `step`; ask again while it is invalid, if `ask` is interactive."""
    while True:
        before = ask.asked
        try:
            return step()
        except (OperatorError, DatabaseUnavailable) as wrong:
            if ask.asked == before:
                raise
            say.error(str(wrong))


def _answered(
    directory: Path,
    document: _Document,
    step: Callable[[_Document, "_Dialogue"], _Check],
    ask: "_Dialogue",
) -> None:
    """Ask until the settings are valid and their servers respond; once if not interactive."""

    def tried() -> _Document:
        changed: _Document = {name: dict(section) for name, section in document.items()}
        check = step(changed, ask)
        check(_settings(directory, changed))
        return changed

    document.update(_until_valid(ask, tried))


def _addresses(document: _Document, ask: "_Dialogue") -> _Check:
    url = ask("url", "Public URL of the authorization server", "http://localhost:8400")
    port, parts = _port(url), urlsplit(url)
    host = parts.hostname or ""
    usual = f"https://api.{host.partition('.')[2]}" if parts.scheme == "https" else ""
    local = f"http://{host}:{port + 1}"
    api = ask("api_url", "Public URL of the API", usual or local)
    document["authorization"]["url"], document["resource"]["url"] = url, api
    if parts.scheme != "https":
        document["authorization"]["listen"] = f"127.0.0.1:{_port(url)}"
        document["resource"]["listen"] = f"127.0.0.1:{_port(api)}"
        return _nothing
    # Until TLS is configured, as behind a proxy, so that the settings are valid.
    document["authorization"]["tls_proxy"] = document["resource"]["tls_proxy"] = True
    return _nothing


def _tls(document: _Document, ask: "_Dialogue") -> _Check:
    if "listen" in document["authorization"]:
        return _nothing
    kind = ask("tls", "TLS ends at a proxy, here with your own certificate, or by ACME", _PROXY)
    if kind not in {_PROXY, _OWN, _ACME}:
        raise OperatorError(f"write {_PROXY}, {_OWN} or {_ACME}")
    ports = [_port(str(document[name]["url"])) for name in ("authorization", "resource")]
    if ports[0] == ports[1]:
        ports[1] = 8443
    for name, port in zip(("authorization", "resource"), ports, strict=True):
        section = document[name]
        del section["tls_proxy"]
        section["listen"] = f"0.0.0.0:{port}"
    if kind == _PROXY:
        network = ask("trusted_proxy", "Address of the proxy", "127.0.0.1")
        # A proxy on another machine could not reach loopback.
        host = "127.0.0.1" if network.startswith("127.") else "0.0.0.0"  # noqa: S104 - as asked
        for name, port in (("authorization", 8400), ("resource", 8401)):
            document[name].update(listen=f"{host}:{port}", trusted_proxies=[network])
    elif kind == _OWN:
        certificate = ask("certificate", "PEM file with the certificate and its chain")
        key = ask("key", "PEM file with its private key")
        for name in ("authorization", "resource"):
            document[name].update(
                tls_certificate=str(Path(certificate).absolute()),
                tls_key=str(Path(key).absolute()),
            )
        return lambda _: _readable(certificate, key)
    else:
        email = ask("acme_email", "Email address for notices of the authority", "")
        document["tls"] = {"acme": _LETS_ENCRYPT, "acme_email": email}
    return _nothing


def _databases(document: _Document, ask: "_Dialogue") -> _Check:
    usual = "sqlite:///valetkey/{}.db"
    main = ask(
        "database",
        "Database of the authorization server",
        usual.format("authorization"),
    )
    api = ask("api_database", "Database of the resource server", usual.format("resource"))
    document["authorization"]["database"], document["resource"]["database"] = main, api
    return lambda settings: asyncio.run(_empty(settings))


async def _empty(settings: Settings) -> None:
    """Raise unless both databases can be used and have no tables; create no file."""
    for name, server in servers(settings):
        file = database_file(settings, server)
        if file is not None:
            if file.exists():
                raise OperatorError(f"{file} exists: an installation begins with empty databases")
            continue
        engine = open_database(settings, server, begins=True)
        try:
            if not await is_missing(engine):
                raise OperatorError(f"{name}: the database has tables already")
        finally:
            await engine.close()


def _email(document: _Document, ask: "_Dialogue") -> _Check:
    host = ask("mail_host", "Mail server, empty for none", "")
    if not host:
        return _nothing
    encryption = ask("mail_tls", "TLS to it: starttls, implicit or none", "starttls")
    port = ask("mail_port", "Port, 0 for the usual one", "0")
    name = ask("mail_user", "User name at the mail server, empty for none", "")
    section: dict[str, object] = {"host": host, "tls": encryption, "user": name}
    section["port"] = int(port) if port.isdigit() else port
    if name:
        file = ask("mail_password_file", "File with the password")
        section["password_file"] = str(Path(file).absolute())
    section["from_address"] = ask("mail_from", "Sender address")
    document["mail"] = section
    return lambda settings: asyncio.run(_mail_answers(settings))


async def _mail_answers(settings: Settings) -> None:
    finding = await mail(settings)
    if finding.level is Level.ERROR:
        raise OperatorError(f"{finding.sentence} {finding.fix}")


def _owner_email(ask: "_Dialogue") -> str:
    email = ask("owner_email", "Email address of the first owner").strip()
    if not is_mailable(email):
        raise OperatorError(f"{email} is not an email address")
    return email


def _owner_username(ask: "_Dialogue", email: str) -> str:
    local, _, host = email.partition("@")
    name = local.partition("+")[0]
    # Names such as admin are reserved, and the usual start of the first owner's address.
    named = (name, f"{name}-{host.partition('.')[0]}")
    usual = next((candidate for candidate in named if not username_fault(candidate)), None)
    username = ask("owner_username", "Username of the first owner", usual)
    if fault := username_fault(username):
        raise OperatorError(f"the username {username} cannot be used: it has to be {fault}")
    return username


def _nothing(_: Settings) -> None:
    """Return whether the settings are valid without a trial run."""


def _readable(*files: str) -> None:
    for name in files:
        try:
            Path(name).read_bytes()
        except OSError as reason:
            raise OperatorError(f"{name}: {(reason.strerror or 'unreadable').lower()}") from None


def _port(url: str) -> int:
    try:
        parts = urlsplit(url)
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise OperatorError(f"{url} is not a URL") from None


def _settings(directory: Path, document: Mapping[str, Mapping[str, object]]) -> Settings:
    """Return the settings in the document, read as the servers read them."""
    with tempfile.NamedTemporaryFile("w", dir=directory, suffix=".toml", encoding="utf-8") as file:
        file.write(_toml(document))
        file.flush()
        try:
            return load(Path(file.name), {})
        except OperatorErrors as errors:
            raise _named(errors) from None


def _named(errors: OperatorErrors) -> OperatorError:
    """Return the errors with the options in place of their settings, and without the file.

    Without its option, the URL of the resource server follows from that of the other.
    """
    wrong = {problem.path for problem in errors.problems}
    lines = [
        f"{_OPTIONS.get(problem.path, problem.path)}: {problem.wrong}; {problem.right}"
        for problem in errors.problems
        if problem.path != "resource.url" or "authorization.url" not in wrong
    ]
    return OperatorError("\n  ".join(lines))


def _toml(document: Mapping[str, Mapping[str, object]]) -> str:
    # A string of JSON is a basic string of TOML.
    sections = (
        f"\n[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in member.items())
        for name, member in document.items()
    )
    return _HEADER + "".join(sections)


def _write(file: Path, text: str) -> None:
    """Write a new file that only its owner can read. Raises OperatorError if it exists."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OperatorError(f"{file} exists; remove it, or name another directory") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        with suppress(OSError):
            os.fsync(out.fileno())
