"""The fields of a client as options of commands: the same at `create` and at `change`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import click

from valetkey.authorization.grant_types import RULES
from valetkey.authorization.model.register.fields import LISTS, Editor, Field, Kind
from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import (
    ClientMetadata,
    fields_of,
    with_values,
)
from valetkey.cli.register.clients import read_key_set
from valetkey.config.catalogue import texts_below
from valetkey.kernel.moment import parse_lifetime

Command = Callable[..., object]


def field_texts() -> Mapping[str, str]:
    """Return the sentence that documents each field, by its name."""
    return dict([*texts_below(ClientMetadata), *texts_below(OpenIdRegistration)])


def metadata_options(command: Command) -> Command:
    """Every field but the name as an option; what is not given is None or empty."""
    texts = field_texts()
    for field in reversed(fields_of(Editor.OPERATOR)):
        if field.name != "name":
            command = _option(field, texts[field.name])(command)
    return command


def with_options(before: ClientMetadata, given: Mapping[str, object]) -> ClientMetadata:
    """`before` with what was given; an empty word takes away what was there.

    Raises Mistake where the file of a key set cannot be read.
    """
    said = {name: _value(value) for name, value in given.items() if value not in (None, ())}
    if isinstance(file := said.get("key_set"), Path):
        said["key_set"] = read_key_set(file) if str(file) != "." else ""
    return with_values(before, said)


def _value(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(item for item in cast("tuple[str, ...]", value) if item)
    return value


def _option(field: Field, text: str) -> Callable[[Command], Command]:
    flag = f"--{field.name.replace('_', '-')}"
    if field.rule.kind is Kind.FLAG:
        return click.option(f"{flag}/--no-{flag[2:]}", field.name, default=None, help=text)
    if field.rule.kind in LISTS:
        word = click.Choice(tuple(RULES)) if field.rule.kind is Kind.GRANT_TYPES else None
        flag, text = flag.removesuffix("s"), f"{text} Repeatable."
        return click.option(flag, field.name, multiple=True, type=word, help=text)
    metavar = "DURATION" if field.rule.kind is Kind.LIFETIME else None
    return click.option(flag, field.name, type=_type(field), metavar=metavar, help=text)


def _type(field: Field) -> click.Choice[str] | click.Path | Callable[[str], object]:
    match field.rule.kind:
        case Kind.CHOICE:
            # Of an enum itself, click would want the names in capitals.
            return click.Choice([name.value for name in field.rule.choices or ()])
        case Kind.WHOLE:
            return int
        case Kind.LIFETIME:
            return parse_lifetime
        case Kind.KEY_SET:
            return click.Path(path_type=Path)
        case _:
            return str
