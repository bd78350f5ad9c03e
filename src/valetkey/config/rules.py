"""Types of settings: parsing, validation, and the sentence that describes valid values."""

import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import cast
from urllib.parse import urlsplit

from valetkey.kernel.moment import Lifetime, parse_lifetime
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import printable, translatable
from valetkey.kernel.url import parse_url

Network = IPv4Network | IPv6Network

_RATIO = re.compile(r"[01](\.[0-9]{1,6})?", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)
_COLOUR = re.compile(r"#[0-9a-f]{6}", re.ASCII | re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._:-]+", re.ASCII)
_LISTEN = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):([0-9]{1,5})", re.ASCII)
_PASSWORD = re.compile(r"^([a-z]+://[^:@/]*):.*@", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(r"(password=)[^&]*")
_SCOPE = re.compile(r"[!#-\[\]-~]{1,100}", re.ASCII)
_HIGHEST_PORT = 65_535
_MOST_REPLICAS = 8
_LONGEST_URL = 2_000
_SHOWN = 60  # characters of a wrong value that are worth repeating


class InvalidValue(Exception):
    """A value that a rule rejects: the reason, and in `expected` what would be valid."""


class SettingsGroup(StrEnum):
    """The groups under which the console shows settings, in its order."""

    SIGN_UP = "sign-up"
    SESSIONS = "sessions"
    PASSWORDS = "passwords"
    EMAIL = "email"
    TOKENS = "tokens"
    APPS = "apps"
    DIRECTORIES = "directories"
    BRAND = "brand"
    PRIVACY = "privacy"
    LIMITS = "limits"
    NETWORK = "network"
    MONITORING = "monitoring"


class Kind(StrEnum):
    """The kinds of values, each edited by a form of its own."""

    TEXT = "text"
    SECRET = "secret"
    FLAG = "flag"
    DURATION = "duration"
    NUMBER = "number"
    CHOICE = "choice"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of setting: `read` takes what TOML gave, or raises InvalidValue with the reason.

    `from_text` makes the same of an environment variable, `show` writes the value as an operator
    would, without any secret. `expected` ends the sentence "write …"; `unit` is "" where the
    value itself carries it. `bounds` are the smallest and the largest number or duration. `words`
    are the values of a choice, or those that a list may have, each with its words, translatable.
    """

    expected: str
    read: Callable[[object], object]
    from_text: Callable[[str], object] = str
    show: Callable[[object], object] = str
    unit: str = ""
    only_by_environment: bool = False
    kind: Kind = Kind.TEXT
    bounds: tuple[int, int] | None = None
    words: tuple[tuple[str, str], ...] = ()


def text(limit: int, expected: str, check: Callable[[str], str] | None = None) -> Rule:
    """Return the rule for text of at most `limit` characters that `check` accepts."""

    def read(value: object) -> str:
        string = _string(value)
        if len(string) > limit:
            raise InvalidValue(f"it has {len(string)} characters, {limit} are allowed")
        if not string.isprintable():
            raise InvalidValue("it contains an unprintable character")
        return check(string) if check else string

    return Rule(expected, read)


def lifetime(low: str, high: str) -> Rule:
    """Return the rule for a duration from `low` to `high`, both written as in a configuration."""
    least, most = parse_lifetime(low), parse_lifetime(high)

    def read(value: object) -> Lifetime:
        try:
            duration = parse_lifetime(_string(value))
        except OperatorError:
            unitless = str(value).isdigit() and value != "0"
            lacks = "has no unit" if unitless else "is not a length of time"
            raise InvalidValue(f"{quoted(value)} {lacks}") from None
        if not least <= duration <= most:
            raise InvalidValue(
                f"{quoted(value)} is {'shorter' if duration < least else 'longer'} than allowed"
            )
        return duration

    return Rule(
        f'a whole number with s, m, h or d, from "{low}" to "{high}"',
        read,
        show=lambda value: show_lifetime(cast("Lifetime", value)),
        unit="time",
        kind=Kind.DURATION,
        bounds=(least, most),
    )


def whole(low: int, high: int, unit: str) -> Rule:
    """Return the rule for a whole number of `unit` from `low` to `high`."""

    def read(value: object) -> int:
        # bool is an int in Python, not in TOML.
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidValue(f"{quoted(value)} is not a whole number")
        if not low <= value <= high:
            raise InvalidValue(f"{value} is too {'small' if value < low else 'large'}")
        return value

    def from_text(value: str) -> object:
        # int() alone would take " 1", "1_0" and full-width digits.
        return int(value) if _DIGITS.fullmatch(value) else value

    return Rule(
        f"a whole number from {low} to {high}",
        read,
        from_text,
        lambda value: value,
        unit,
        kind=Kind.NUMBER,
        bounds=(low, high),
    )


def _ratio(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidValue(f"{quoted(value)} is not a number from 0 to 1")
    return float(value)


def _ratio_from_text(value: str) -> object:
    return float(value) if _RATIO.fullmatch(value) else value


def choice(names: type[StrEnum], **words: str) -> Rule:
    """Return the rule that allows one of `names`; `words` are those of each value."""
    allowed = ", ".join(f'"{name}"' for name in names)

    def read(value: object) -> StrEnum:
        name = _string(value)
        if name not in tuple(names):
            raise InvalidValue(f"{quoted(value)} is unknown")
        return names(name)

    def from_text(text: str) -> str:
        """Take the word in any case, as people type it."""
        word = text.strip().lower()
        return word if word in tuple(names) else text

    shown = tuple((name.value, words.get(name.value, name.value)) for name in names)
    return Rule(f"one of {allowed}", read, from_text, kind=Kind.CHOICE, words=shown)


def choices(names: type[StrEnum], always: StrEnum | None = None) -> Rule:
    """Return the rule for a list of different `names`, which has to include `always`."""
    allowed = ", ".join(f'"{name}"' for name in names)
    one = choice(names).read

    def read(value: object) -> tuple[object, ...]:
        values = _distinct(value, one)
        if always is not None and always not in values:
            raise InvalidValue(f'"{always}" is not among them')
        return values

    alternative = "" if always is None else f', with "{always}"'
    shown = tuple((name.value, name.value) for name in names)
    return Rule(
        f"a list of {allowed}{alternative}", read, _listed, _show_texts, kind=Kind.LIST, words=shown
    )


def texts(
    expected: str, one: Callable[[str], object], show: Callable[[object], object] = str
) -> Rule:
    """Return the rule for a list of different texts that `one` accepts."""
    return Rule(
        expected,
        lambda value: _distinct(value, lambda item: one(_string(item))),
        _listed,
        lambda value: [show(item) for item in cast("Sequence[object]", value)],
        kind=Kind.LIST,
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"{quoted(value)} is not a string")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"{quoted(value)} is neither true nor false")
    return value


def _flag_from_text(value: str) -> object:
    word = value.strip().lower()
    if word in {"true", "yes", "on"}:
        return True
    return False if word in {"false", "no", "off"} else value


def _secret(value: object) -> Secret | None:
    # The environment can only say "nothing" by an empty string.
    string = _string(value).strip()
    return Secret(string) if string else None


def _colour(value: str) -> str:
    if not _COLOUR.fullmatch(value):
        raise InvalidValue(f"{quoted(value)} is not a color")
    return value.lower()


def _link(value: str) -> str:
    if value == "":
        return value
    try:
        parts = urlsplit(value)
        fine = parts.scheme == "https" and parts.hostname and parts.username is None
    except ValueError:
        fine = False
    if not fine or not value.isascii() or "\\" in value or " " in value:
        raise InvalidValue(f"{quoted(value)} is not an https address")
    return value


def _own_path(value: str) -> str:
    # Browsers read a backslash as a slash, and two slashes as another server.
    is_path = value.startswith("/") and not value.startswith("//")
    if value and not (is_path and value.isascii() and "\\" not in value and " " not in value):
        raise InvalidValue(f"{quoted(value)} is not a path of this server")
    return value


def _own_path_or_link(value: str) -> str:
    try:
        return _own_path(value)
    except InvalidValue:
        _link(value)
        return value


def _server_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidValue(f"{quoted(value)} is not a URL") from None
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(name):
        raise InvalidValue(f"{quoted(value)} is not an http or https URL")
    if parts.path or parts.query or parts.fragment or value.endswith(("/", "?", "#")):
        raise InvalidValue(
            f"{quoted(value)} has more than scheme, host and port (or a slash at the end)"
        )
    host = f"[{name}]" if ":" in name else name
    default = {"http": 80, "https": 443}[parts.scheme]
    plain = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
    # Clients compare the issuer byte for byte, so there may be only one way to write it.
    if value != plain or port == default:
        right = f"{parts.scheme}://{host}" + (f":{port}" if port not in {None, default} else "")
        raise InvalidValue(f'{quoted(value)} is not in its canonical form, which is "{right}"')
    return value


def _optional_server_url(value: str) -> str:
    return _server_url(value) if value else ""


def _listen(value: str) -> str:
    match = _LISTEN.fullmatch(value)
    if match is None:
        raise InvalidValue(f"{quoted(value)} is not an address and a port")
    host, port = match[1].strip("[]"), int(match[2])
    if host != "localhost":
        try:
            ip_address(host)
        except ValueError:
            raise InvalidValue(f"{quoted(value)} does not begin with an IP address") from None
    # Port 0 lets the system choose: for tests, and behind programs that read the port.
    if port > _HIGHEST_PORT:
        raise InvalidValue(f"{quoted(value)} has no usable port")
    return value


def _database(value: str) -> str:
    # The value is never repeated: it may hold a password.
    if value.startswith("sqlite:///") and len(value) > len("sqlite:///") and "?" not in value:
        return value
    if value.startswith(("postgresql://", "postgres://")):
        return value
    raise InvalidValue("it is not the URL of a database")


def _replica(value: str) -> str:
    if len(value) <= _LONGEST_URL and value.startswith(("postgresql://", "postgres://")):
        return value
    raise InvalidValue("it is not the URL of a PostgreSQL database")


def _replicas(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidValue("it is not a list")
    urls = tuple(_replica(_string(url)) for url in cast("list[object]", value))
    if len(urls) > _MOST_REPLICAS:
        raise InvalidValue(f"there are more than {_MOST_REPLICAS}")
    if len(set(urls)) != len(urls):
        raise InvalidValue("one is there twice")
    return urls


def _show_replicas(value: object) -> object:
    return [_show_database(url) for url in cast("Sequence[object]", value)]


def _show_database(value: object) -> str:
    # Greedy up to the last @: a password with an unescaped @ or / must not show either.
    without = _PASSWORD.sub(r"\1:…@", str(value))
    return _PASSWORD_PARAMETER.sub(r"\1…", without)


def _networks(value: object) -> tuple[Network, ...]:
    if not isinstance(value, list):
        raise InvalidValue(f"{quoted(value)} is not a list")
    return tuple(_network(item) for item in cast("list[object]", value))


def _network(value: object) -> Network:
    written = _string(value)
    if written == "*":
        raise InvalidValue('"*" would let every client claim any address')
    try:
        network = ip_network(written)
    except ValueError as reason:
        raise InvalidValue(f"{quoted(value)} is not a network ({reason})") from None
    if network.prefixlen == 0:
        raise InvalidValue(f"{quoted(value)} would let every client claim any address")
    return network


def _origins(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidValue(f"{quoted(value)} is not a list")
    origins = tuple(_server_url(_string(item)) for item in cast("list[object]", value))
    if wild := next((origin for origin in origins if "*" in origin), None):
        raise InvalidValue(f"{quoted(wild)} is a pattern, and only exact names are safe")
    return origins


def _host(value: str) -> str:
    web = parse_url(f"https://{value}/")
    if web is None or web.origin() != f"https://{value}":
        raise InvalidValue(f"{quoted(value)} is not a host in lower case, with a port if unusual")
    return value


def _scope_name(value: object) -> object:
    name = _string(value)
    if not _SCOPE.fullmatch(name):
        raise InvalidValue(f"{quoted(value)} is not the name of a scope")
    return name


def _distinct(value: object, one: Callable[[object], object]) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise InvalidValue(f"{quoted(value)} is not a list")
    values = tuple(one(item) for item in cast("list[object]", value))
    if len(set(values)) != len(values):
        raise InvalidValue("it names one of them twice")
    return values


def _listed(value: str) -> object:
    """Read a list from one text: as in the configuration file, or separated by commas."""
    text = value.strip()
    if text.startswith("["):
        # Or an IPv6 address in brackets, which is no list.
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            return tomllib.loads(f"list = {text}").get("list")
    return [item.strip() for item in text.split(",") if item.strip()]


def quoted(value: object) -> str:
    """Return an invalid value, short enough to be repeated in a sentence."""
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    plain = printable(shown, "�")
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"


def show_lifetime(value: Lifetime) -> str:
    """Return the shortest way to write a duration: 3600 is "1h"."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if value % size == 0:
            return f"{value // size}{unit}"
    return f"{value}s"


def _show_networks(value: object) -> list[str]:
    return [str(network) for network in cast("Sequence[Network]", value)]


def _show_texts(value: object) -> list[str]:
    return [str(item) for item in cast("Sequence[str]", value)]


RATIO = Rule("a number from 0 to 1", _ratio, _ratio_from_text, lambda value: value)
FLAG = Rule("true or false", _flag, _flag_from_text, lambda value: value, kind=Kind.FLAG)
FOLDER = text(4_096, 'the path of a directory, or "" for none')
PATH = text(4_096, 'a path, or "" for none, or for the usual one')
COLOUR = text(7, 'a color, such as "#2456d6"', _colour)
LINK = text(2_000, 'an https address, or "" for none', _link)
_LOGO = (
    'a path of this server, such as "/logo.png", or "" for none; an image from elsewhere goes into'
    " the directory brand.theme as logo.svg or logo.png"
)
LOGO = text(2_000, _LOGO, _own_path)
LOGO_AT_START = text(2_000, _LOGO, _own_path_or_link)
"""Also accepts an https address, so that a server with an older configuration starts. The address
is not shown; `config check` reports it."""
SERVER_URL = text(200, 'a URL such as "https://auth.example.com", without a path', _server_url)
OPTIONAL_SERVER_URL = text(
    200, 'a URL such as "https://auth.example.com", without a path, or ""', _optional_server_url
)
LISTEN = text(60, 'an IP address and a port, such as "127.0.0.1:8400" or "[::1]:8400"', _listen)
OPTIONAL_LISTEN = text(60, 'the same, or "" for none', lambda value: value and _listen(value))
DATABASE = Rule(
    '"sqlite:///file.db", "sqlite:////absolute/file.db" or "postgresql://user@host/name"',
    text(2_000, "", _database).read,
    show=_show_database,
)
REPLICAS = Rule(
    'a list of at most 8 URLs, such as ["postgresql://user@host/name"]',
    _replicas,
    _listed,
    _show_replicas,
    kind=Kind.LIST,
)
NETWORKS = Rule(
    'a list of networks, such as ["10.0.0.0/8", "192.0.2.1"]',
    _networks,
    _listed,
    _show_networks,
    kind=Kind.LIST,
)
ORIGINS = Rule(
    'a list of origins, such as ["https://app.example.com"]',
    _origins,
    _listed,
    lambda value: list(cast("Sequence[str]", value)),
    kind=Kind.LIST,
)
HOSTS = texts(translatable('a list of hosts, such as ["app.example.com"]'), _host)
GRANT_TYPES = Rule(
    'a list of grant types, such as ["authorization_code", "refresh_token"]',
    lambda value: _distinct(value, _string),
    _listed,
    _show_texts,
    kind=Kind.LIST,
    words=(
        ("authorization_code", translatable("Sign-in with a code (authorization code)")),
        ("refresh_token", translatable("Access while the user is away (refresh tokens)")),
        ("client_credentials", translatable("Access for the app itself (client credentials)")),
        ("urn:ietf:params:oauth:grant-type:device_code", translatable("Sign-in on a device")),
    ),
)
GRANT_TYPES_AND_IMPLICIT = replace(
    GRANT_TYPES,
    words=(
        *GRANT_TYPES.words,
        ("implicit", translatable("Tokens in the address of a page (implicit)")),
    ),
)
SCOPE_NAMES = Rule(
    translatable('a list of scopes, such as ["notes:read"]'),
    lambda value: _distinct(value, _scope_name),
    _listed,
    _show_texts,
    kind=Kind.LIST,
)
SECRET = Rule(
    "the secret itself",
    _secret,
    show=lambda value: "" if value is None else "…",
    only_by_environment=True,
    kind=Kind.SECRET,
)
