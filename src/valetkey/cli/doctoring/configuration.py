"""Check the configuration and the files it names, as the servers read them at start."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from valetkey.authorization.app.checks import check_grant_types, check_scopes
from valetkey.authorization.app.parts import brand_of, geo_database_of
from valetkey.authorization.authentication.places import open_geo_database
from valetkey.config import rules
from valetkey.config.agreement import Problem, missing_files
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import trust
from valetkey.kernel.refusal import OperatorError
from valetkey.resource.objects.declared import read_directory
from valetkey.web.listen import tls_context

_BOTH = ("authorization", "resource")


def problems_of(settings: Settings) -> Iterator[Problem]:
    """Return the errors that keep a server from starting or issuing, and a logo not shown."""
    yield from missing_files(settings, _BOTH)
    yield from read_directory(settings)[1]
    yield from _read_as_serve_does(settings)
    yield from _foreign_logo(settings)


def _read_as_serve_does(settings: Settings) -> Iterator[Problem]:
    """Return the errors in files that the authorization server reads, at start or for tokens."""
    folder, server = settings.source.directory, settings.authorization
    tls, ca_file = (server.tls_certificate, server.tls_key), settings.fetch.ca_file
    claims_file = settings.tokens.claims_file
    readers: tuple[tuple[str, bool, Callable[[], object]], ...] = (
        ("grant_types", True, lambda: check_grant_types(settings)),
        ("scopes", True, lambda: check_scopes(settings)),
        ("privacy.geo_database", bool(settings.privacy.geo_database), lambda: _geo(settings)),
        ("brand.theme", bool(settings.brand.theme), lambda: brand_of(settings)),
        ("tokens.claims_file", bool(claims_file), lambda: _parse(folder / claims_file)),
        (
            "authorization.tls_certificate",
            all(tls) and all((folder / name).is_file() for name in tls),
            lambda: tls_context(folder / tls[0], folder / tls[1]),
        ),
        ("fetch.ca_file", (folder / (ca_file or ".")).is_file(), lambda: trust(folder / ca_file)),
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
