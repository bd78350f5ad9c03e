"""A folder of configurations, one for each issuer, that one server process serves together.

`NAME/valetkey.toml` or `NAME.toml` configures the issuer NAME. Variables of the environment apply
to every issuer and to the process itself: log, metrics, traces, `limits.connections`, workers and
drain. They are read from nowhere else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.config.agreement import database_place, missing_files, servers
from valetkey.config.environment import environment
from valetkey.config.load import USUAL_FILE, load, read_toml
from valetkey.config.paths import certificate_files, credential_path, keyring_path, uses_acme
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.refusal import OperatorError

MOST = 1_000
"""The largest number of configurations in a folder."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_END = ".toml"

Mark = tuple[int, int, int, int]
"""Changes when a file is written or replaced: its times of change in ns, its size, its inode."""


class IssuerConfiguration(Struct, frozen=True):
    """The configuration of one issuer; `settings` are None, and `problem` says why, if unusable.

    `hosts` are the Host of each server by the name of the server, as far as they can be read.
    """

    name: str
    file: Path
    mark: Mark
    hosts: Mapping[str, str]
    settings: Settings | None = None
    problem: str = ""


def process_settings() -> Settings:
    """Return the settings of the process itself: defaults and the environment."""
    return load(None, environment())


def read(
    folder: Path, before: Mapping[str, IssuerConfiguration] = MappingProxyType({})
) -> Sequence[IssuerConfiguration]:
    """Return the configurations of `folder` by name; those whose file did not change are `before`.

    Of two that claim the same host, database, keyring or credential, the one whose file is older is
    used. Raises OperatorError if the folder cannot be read or has too many.
    """
    configurations: list[IssuerConfiguration] = []
    for name, files in sorted(_files(folder).items()):
        file, mark = files[0], _mark(files[0])
        configuration = before.get(name)
        if len(files) > 1:
            configurations.append(
                IssuerConfiguration(name, file, mark, {}, problem=f"so does {files[1]}")
            )
        elif (
            configuration is not None
            and configuration.settings
            and (configuration.file, configuration.mark) == (file, mark)
        ):
            configurations.append(configuration)
        else:
            configurations.append(_read(name, file, mark))
    return tuple(_without_conflicts(configurations))


def _files(folder: Path) -> Mapping[str, list[Path]]:
    """Return the files that configure each issuer; more than one is an error of that issuer."""
    named_files: dict[str, list[Path]] = {}
    try:
        for entry in folder.iterdir():
            inside = entry / USUAL_FILE
            if entry.suffix == _END and entry.is_file():
                named_files.setdefault(entry.stem, []).append(entry)
            elif inside.is_file():
                named_files.setdefault(entry.name, []).append(inside)
    except OSError as error:
        raise OperatorError(f"cannot read {folder}: {error.strerror}", "--configs") from error
    if len(named_files) > MOST:
        raise OperatorError(f"{folder} has more than {MOST} configurations", "--configs")
    return {name: sorted(files) for name, files in named_files.items() if _NAME.fullmatch(name)}


def _mark(file: Path) -> Mark:
    try:
        stat = file.stat()
    except OSError:
        return 0, 0, 0, 0
    return stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(name: str, file: Path, mark: Mark) -> IssuerConfiguration:
    try:
        settings = load(file, environment())
    except OperatorError as error:
        return IssuerConfiguration(name, file, mark, _written_hosts(file), problem=str(error))
    hosts = {server: _host(part.url) for server, part in servers(settings)}
    for server, part in servers(settings):
        if problem := _unusable_tls(settings, part):
            problem = f"{server}.url: {problem}"
            return IssuerConfiguration(name, file, mark, hosts, problem=problem)
    return IssuerConfiguration(name, file, mark, hosts, settings)


def certificate_host(settings: Settings, server: ServerSettings) -> str:
    """Return the host name for which this server shows a certificate; "" if it has no TLS."""
    if certificate_files(settings, server) is None:
        return ""
    return (urlsplit(server.url).hostname or "").lower()


def certificate_problems(settings: Settings, names: Sequence[str]) -> Iterator[str]:
    """Yield what keeps the named servers from using their certificates: files, pair, host."""
    from valetkey.fetch.certificate import serves  # noqa: PLC0415 - its library is large

    for name, server in servers(settings):
        files = certificate_files(settings, server)
        if name not in names or files is None:
            continue
        tls = [problem for problem in missing_files(settings, (name,)) if "tls_" in problem.path]
        yield from map(str, tls)
        host = certificate_host(settings, server)
        if not tls and not serves(files[0].read_bytes(), host):
            yield f"{name}.tls_certificate: {files[0]} is not for {host}; write one that is"


def problems(configuration: IssuerConfiguration, only: str | None = None) -> Sequence[str]:
    """Return why an issuer cannot be served, also by its certificates; of one server or of both."""
    settings = configuration.settings
    if settings is None:
        return (configuration.problem,)
    names = (only,) if only else tuple(name for name, _ in servers(settings))
    return tuple(certificate_problems(settings, names))


def _unusable_tls(settings: Settings, server: ServerSettings) -> str:
    """Return why this server cannot have TLS beside others, "" if it can."""
    if uses_acme(settings, server):
        return "a process that serves several issuers has no ACME; set tls_certificate and tls_key"
    host = certificate_host(settings, server)
    with suppress(ValueError):
        ip_address(host)
        return "clients name no address in TLS; several issuers with TLS need host names"
    return ""


def _host(url: str) -> str:
    return urlsplit(url).netloc.lower()


def _written_hosts(file: Path) -> Mapping[str, str]:
    """Return the hosts that an unusable configuration names, so that they are answered with 503."""
    hosts: dict[str, str] = {}
    with suppress(OperatorError, ValueError):
        document = read_toml(file, 1)
        for name in ("authorization", "resource"):
            section = document.get(name)
            url = cast("dict[str, object]", section).get("url") if isinstance(section, dict) else ""
            if isinstance(url, str) and url:
                hosts[name] = _host(url)
    return hosts


def _without_conflicts(
    configurations: Sequence[IssuerConfiguration],
) -> Iterator[IssuerConfiguration]:
    owners: dict[tuple[str, str], str] = {}
    ports: dict[tuple[str, str], tuple[bool, str]] = {}
    refused: dict[str, str] = {}
    for configuration in sorted(
        configurations, key=lambda one: (one.settings is None, one.mark, one.name)
    ):
        claims = _claims(configuration)
        taken = next((claim for claim in claims if claim in owners), None)
        if taken is not None:
            refused[configuration.name] = (
                f"{claims[taken]}: the {taken[0]} is that of {owners[taken]}"
            )
        elif problem := _shared_port(configuration, ports):
            refused[configuration.name] = problem
        else:
            owners.update(dict.fromkeys(claims, configuration.name))
    for configuration in configurations:
        if configuration.name not in refused:
            yield configuration
            continue
        free = {
            n: host
            for n, host in configuration.hosts.items()
            if owners.get(("host", host), "") == ""
        }
        problem = configuration.problem or refused[configuration.name]
        yield IssuerConfiguration(
            configuration.name, configuration.file, configuration.mark, free, problem=problem
        )


def _shared_port(
    configuration: IssuerConfiguration, ports: dict[tuple[str, str], tuple[bool, str]]
) -> str:
    """Add the ports of an issuer; return the problem of one with TLS for some of them only."""
    settings = configuration.settings
    if settings is None:
        return ""
    for name, part in servers(settings):
        port = part.listen.rpartition(":")[2]
        tls = certificate_files(settings, part) is not None
        owner_tls, owner = ports.setdefault((name, port), (tls, configuration.name))
        if owner_tls != tls:
            with_tls, without = (owner, "this one") if owner_tls else ("this one", owner)
            return f"{name}.listen: at port {port} {with_tls} has TLS and {without} has not"
    return ""


def _claims(configuration: IssuerConfiguration) -> Mapping[tuple[str, str], str]:
    """Return what no other issuer may have, each with the setting that names it."""
    settings = configuration.settings
    claims = {("host", host): f"{name}.url" for name, host in configuration.hosts.items()}
    if settings is None:
        return claims
    for name, part in servers(settings):
        if host := certificate_host(settings, part):
            claims["name in TLS", f"{name} {host}"] = f"{name}.url"
        claims["database", "/".join(database_place(settings, part))] = f"{name}.database"
    # One from the environment would be that of every issuer.
    text = settings.authorization.keyring_text
    keyring = "" if text is not None else str(keyring_path(settings).resolve())
    claims["keyring", keyring] = "authorization.keyring"
    text = settings.resource.credential_text
    credential = "" if text is not None else str(credential_path(settings).resolve())
    claims["credential", credential] = "resource.credential"
    return claims
