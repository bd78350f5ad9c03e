"""Clients on the command line: options, output, and warnings about risky settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import click
from msgspec import Struct

from valetkey.authorization.actions.admin.search import ClientWithUses
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import (
    LISTS,
    Client,
    Editor,
    Field,
    FieldType,
    GrantTypeName,
    OpenIdRegistration,
    ProfileName,
)
from valetkey.authorization.protocol.register.client_metadata import (
    ClientMetadata,
    fields_of,
)
from valetkey.cli.options import Duration, duration, entries, shown
from valetkey.config.catalogue import texts_below
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError

Command = Callable[..., object]

COSTS = {
    GrantTypeName.IMPLICIT: (
        "implicit: access tokens are sent in the URL, where browser history and scripts can read "
        "them; prefer authorization_code with PKCE"
    ),
    GrantTypeName.PASSWORD: (
        "password: users enter their password in this application; there is no consent page and "
        "no second factor; use it only for your own applications"
    ),
}
"""The risk of enabling each grant type for a client."""

_ABOVE = frozenset({"name", "description", "requires_pkce", "key_set"})
"""Fields that `ClientDetails` shows elsewhere or that are too long for a line."""

_DURATIONS = {
    field.name
    for field in fields_of(Editor.OPERATOR)
    if field.rule.kind in {FieldType.WHOLE, FieldType.LIFETIME}
}
"""Fields whose numbers are seconds."""

_LARGEST = 65_536


class ClientDetails(Struct, frozen=True):
    """A client with what is known about its use."""

    held: ClientWithUses
    now: Instant

    def pairs(self) -> Sequence[tuple[str, str]]:
        """Return names and values for the terminal."""
        client = self.held.client
        values = fields_shown(client)
        rows = (
            ("client_id", client.id),
            ("description", client.description),
            ("state", _state(client)),
            ("origin", "registered itself" if client.self_registered else ""),
            ("secrets", self._secrets()),
            ("PKCE", "required" if client.needs_pkce else "optional"),
            *(
                (name, _display_value(value, name in _DURATIONS))
                for name, value in values.items()
                if name not in _ABOVE
            ),
            ("authorizations", str(self.held.authorizations)),
            ("secret in URL", self._sighting()),
            ("registered", shown(client.created_at)),
            ("changed", shown(client.changed_at)),
        )
        return [(name, value) for name, value in rows if value]

    def as_json(self) -> dict[str, object]:
        """Return the fields for `--json`."""
        client, sighting = self.held.client, self.held.sighting
        return {
            **as_json(client),
            "authorizations": self.held.authorizations,
            "query_requests": sighting.requests if sighting else 0,
            "query_last_seen_at": sighting.last_seen_at if sighting else None,
            "costs": list(risks(client)),
        }

    def _secrets(self) -> str:
        live = self.held.client.live_secrets(self.now)
        ending = [shown(secret.expires_at) for secret in live if secret.expires_at is not None]
        if not live:
            return ""
        return f"{len(live)}" + (f"; one ends {min(ending)}" if ending else "")

    def _sighting(self) -> str:
        sighting = self.held.sighting
        if sighting is None:
            return ""
        times = "once" if sighting.requests == 1 else f"{sighting.requests} times"
        last = shown(sighting.last_seen_at)
        return f"{times}, last {last}: give it another secret when it has stopped doing so"


def as_json(client: Client) -> dict[str, object]:
    """Return a client as JSON, with the names that `valetkey apply` takes."""
    return {
        "client_id": client.id,
        **fields_shown(client),
        "self_registered": client.self_registered,
        "created_at": client.created_at,
        "changed_at": client.changed_at,
        "disabled_at": client.disabled_at,
    }


def fields_shown(client: Client) -> dict[str, object]:
    """Return the fields that an operator may set, without OpenID Connect fields left at default."""
    metadata = metadata_of(client)
    values = {field: field.value_of(metadata) for field in fields_of(Editor.OPERATOR)}
    return {
        field.name: list(value) if field.rule.kind in LISTS else value
        for field, value in values.items()
        if not field.part or value != field.default
    }


def risks(client: Client) -> Iterator[str]:
    """Return the risks of a client's settings, one sentence each."""
    for grant_type, cost in COSTS.items():
        if client.may_use(grant_type):
            yield cost
    if client.profile_name is ProfileName.CLASSIC and not client.is_public:
        yield (
            "classic: its secret may travel in the query string, where proxies log it; the profile "
            "modern refuses that"
        )


def read_key_set(file: Path | None) -> str:
    """Return the text of a JWK set file, "" for none; registration validates its content."""
    if file is None:
        return ""
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        raise OperatorError(f"{file} cannot be read as a JWK set") from None


def _display_value(value: object, is_duration: bool) -> str:
    if is_duration and isinstance(value, int):
        return duration(value)
    if isinstance(value, list):
        return ", ".join(str(item) for item in cast("list[object]", value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _state(client: Client) -> str:
    return "on" if client.disabled_at is None else "off"


def field_texts() -> Mapping[str, str]:
    """Return the sentence that documents each field, by its name."""
    return dict([*texts_below(ClientMetadata), *texts_below(OpenIdRegistration)])


def metadata_options(command: Command) -> Command:
    """Add an option for every field but the name; omitted options are None or empty."""
    texts = field_texts()
    for field in reversed(fields_of(Editor.OPERATOR)):
        if field.name != "name":
            command = _option(field, texts[field.name])(command)
    return command


def given_values(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values of the options that were given; an empty value clears the field.

    Raises OperatorError where the file of a key set cannot be read.
    """
    values = {
        name: _value(name, value) for name, value in parameters.items() if value not in (None, ())
    }
    if isinstance(file := values.get("key_set"), Path):
        values["key_set"] = read_key_set(file) if str(file) != "." else ""
    return values


def _value(name: str, value: object) -> object:
    if isinstance(value, tuple):
        texts = cast("tuple[str, ...]", value)
        # "code id_token" is one response type.
        return tuple(filter(None, texts) if name == "response_types" else entries(texts))
    return value.strip() if isinstance(value, str) else value


def _option(field: Field, text: str) -> Callable[[Command], Command]:
    flag = f"--{field.name.replace('_', '-')}"
    if field.rule.kind is FieldType.FLAG:
        return click.option(f"{flag}/--no-{flag[2:]}", field.name, default=None, help=text)
    if field.rule.kind in LISTS:
        word = (
            click.Choice(tuple(GRANT_RULES)) if field.rule.kind is FieldType.GRANT_TYPES else None
        )
        flag, text = flag.removesuffix("s"), f"{text} Repeatable."
        return click.option(flag, field.name, multiple=True, type=word, help=text)
    return click.option(flag, field.name, type=_type(field), help=text)


def _type(field: Field) -> click.Choice[str] | click.Path | Duration | type[str]:
    match field.rule.kind:
        case FieldType.CHOICE:
            # Of an enum itself, click would want the names in capitals.
            return click.Choice([str(name) for name in field.rule.choices])
        case FieldType.WHOLE:
            return Duration(0)
        case FieldType.LIFETIME:
            return Duration(1, field.rule.longest)
        case FieldType.KEY_SET:
            return click.Path(path_type=Path)
        case _:
            return str
