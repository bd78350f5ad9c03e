"""A client's registration as options of commands: the same words at `create` and at `change`."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import click

from valetkey.authorization.grant_types import RULES
from valetkey.authorization.model.register.client import (
    AccessTokenFormat,
    ApplicationType,
    AuthenticationMethod,
    ClientType,
)
from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, fitted
from valetkey.cli.register.clients import read_key_set

Command = Callable[..., object]
_SINGULAR = {"default_acr_values": "default-acr-value", "contacts": "contact"}
_HELP = {
    "response_types": "What it may ask for, such as 'code id_token'.",
    "subject_type": "public, or pairwise: another name for each person in each sector.",
    "sector_identifier_uri": "Where the redirect URIs of its whole sector are listed.",
    "jwks_uri": "Where its public keys are, instead of --key-set.",
    "token_endpoint_auth_method": "client_secret_basic, client_secret_jwt, private_key_jwt, ….",
    "token_endpoint_auth_signing_alg": "With what it signs to show who it is.",
    "id_token_signed_response_alg": "With what its ID tokens are signed; ES256 if not said.",
    "id_token_encrypted_response_alg": "To encrypt its ID tokens: RSA-OAEP-256 or ECDH-ES.",
    "id_token_encrypted_response_enc": "The cipher for that: A128GCM or A256GCM.",
    "userinfo_signed_response_alg": "To sign its userinfo.",
    "userinfo_encrypted_response_alg": "To encrypt its userinfo.",
    "userinfo_encrypted_response_enc": "The cipher for that.",
    "introspection_signed_response_alg": "To sign what it is told of tokens.",
    "request_object_signing_alg": "With what its request objects must be signed.",
    "request_uris": "Where its request objects may be fetched.",
    "default_max_age": "Seconds after which people sign in again for it.",
    "require_auth_time": "Whether ID tokens always say when somebody signed in.",
    "default_acr_values": "How people should sign in for it.",
    "initiate_login_uri": "Where it begins a sign-in that somebody else starts.",
    "post_logout_redirect_uris": "Where people go back to when they have signed out.",
    "frontchannel_logout_uri": "A page of it that signs people out, shown in a frame.",
    "frontchannel_logout_session_required": "Whether that page needs iss and sid.",
    "backchannel_logout_uri": "Where it is told that a session has ended.",
    "backchannel_logout_session_required": "Whether it needs the sid for that.",
    "client_uri": "Its home page.",
    "contacts": "Who answers for it.",
}


def words(names: type[StrEnum]) -> click.Choice[str]:
    """One of the words of `names`."""
    # Of an enum itself, click would want the names in capitals.
    return click.Choice([name.value for name in names])


_BASE = (
    click.option("--description", help="One sentence about it."),
    click.option("--redirect-uri", "redirect_uris", multiple=True, help="Where users go back to."),
    click.option(
        "--grant-type",
        "grant_types",
        multiple=True,
        type=click.Choice(tuple(RULES)),
        help="How it comes to tokens, once for each; a new one has authorization_code and "
        "refresh_token.",
    ),
    click.option("--scope", "scopes", multiple=True, help="What it may ask for at most."),
    click.option(
        "--default-scope",
        "default_scopes",
        multiple=True,
        help="What it gets when it asks for nothing in particular.",
    ),
    click.option(
        "--profile",
        type=words(ProfileName),
        help="modern for everything new; without this clients.default_profile.",
    ),
    click.option(
        "--type",
        type=words(ClientType),
        help="public if it runs where others can look into it, and can keep no secret.",
    ),
    click.option(
        "--application-type",
        type=words(ApplicationType),
        help="native for an app on a device: its loopback redirect URI may have any port.",
    ),
    click.option(
        "--access-token-format",
        type=words(AccessTokenFormat),
        help="jwt can be verified anywhere; reference ends at once everywhere.",
    ),
    click.option(
        "--authentication-method",
        type=words(AuthenticationMethod),
        help="How it shows who it is; without this what fits its type and keys.",
    ),
    click.option(
        "--key-set", type=click.Path(path_type=Path), help="File with its public JWK set."
    ),
    click.option("--logo-uri", help="Its picture."),
    click.option("--policy-uri", help="What it does with people's data."),
    click.option("--tos-uri", help="Its terms of service."),
)


def metadata_options(command: Command) -> Command:
    """Every option of a registration but the name; what is not said is None or empty."""
    decorators: list[Callable[[Command], Command]] = [*_BASE, *map(_option, _HELP)]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def with_options(before: ClientMetadata, given: Mapping[str, object]) -> ClientMetadata:
    """`before` with what was said; an empty word takes away what was there.

    Raises Mistake where the file of a key set cannot be read.
    """
    # Any: click made each value what its field declares.
    said: dict[str, Any] = {
        name: _value(value) for name, value in given.items() if value not in (None, ())
    }
    if "key_set" in said:
        said["key_set"] = read_key_set(said["key_set"]) if str(said["key_set"]) != "." else ""
    about_openid: dict[str, Any] = {name: said.pop(name) for name in _HELP if name in said}
    openid = replace(before.openid, **about_openid)
    return fitted(replace(before, **said, openid=openid), said.keys() | about_openid.keys())


def _value(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(item for item in cast("tuple[str, ...]", value) if item)
    return value


def _option(name: str) -> Callable[[Command], Command]:
    (default,) = (each.default for each in fields(OpenIdRegistration) if each.name == name)
    flag = f"--{_SINGULAR.get(name, name.removesuffix('s')).replace('_', '-')}"
    if isinstance(default, tuple):
        return click.option(flag, name, multiple=True, help=_HELP[name])
    flag = f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=_HELP[name])
    kind = int if default is None else str
    return click.option(flag, name, type=kind, help=_HELP[name])
