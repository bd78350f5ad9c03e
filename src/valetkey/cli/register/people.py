"""People as the command line writes and shows them: an option for each standard claim."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import TypeVar, cast

import click

from valetkey.authorization.actions.person import TEXTS
from valetkey.authorization.model.account.claims import Address, StandardClaims
from valetkey.authorization.model.account.user import User
from valetkey.authorization.protocol.claims import PERSONAL_CLAIMS, user_claims
from valetkey.cli.register.moments import shown

_Command = TypeVar("_Command", bound=Callable[..., object])

_PARTS = {each.name: each.name for each in fields(Address)} | {"formatted": "formatted_address"}
_HELP = {
    "profile": "Address of a page about the person.",
    "picture": "Address of a picture of the person.",
    "website": "Address of the person's own pages.",
    "birthdate": "YYYY-MM-DD, YYYY, or 0000-MM-DD.",
    "zoneinfo": "Time zone, such as Europe/London.",
    "locale": "Language, such as en-GB.",
    "phone_number": "Such as +442079460000.",
    "formatted_address": "The postal address as it is written on a letter.",
}
_VERIFIED = "phone_number_verified"


def claim_options(command: _Command) -> _Command:
    """`--given-name` and all the others; those that were not said are None."""
    verified = click.option(
        "--phone-number-verified/--phone-number-unverified",
        default=None,
        help="Whether the number was proved to be theirs.",
    )
    command = verified(command)
    for name in reversed((*TEXTS, *_PARTS.values())):
        option = click.option(
            f"--{name.replace('_', '-')}", name, metavar="TEXT", help=_HELP.get(name, "")
        )
        command = option(command)
    return command


def claims_said(said: Mapping[str, object], before: StandardClaims) -> StandardClaims:
    """`before` with what was said, by the names of the claims; unchecked.

    A number that is new counts as proved only where that was said as well.
    """
    after = replace(before, **_strings(said, {name: name for name in TEXTS}))  # type: ignore[arg-type]
    after = replace(after, address=replace(before.address, **_strings(said, _PARTS)))
    verified = said.get(_VERIFIED)
    if verified is None:
        verified = before.phone_number_verified and after.phone_number == before.phone_number
    return replace(after, phone_number_verified=bool(verified))


def as_json(user: User) -> dict[str, object]:
    """The record for scripts."""
    claims = asdict(user.claims)
    return {
        "uid": user.uid,
        "username": user.username,
        "email": user.email,
        "email_verified": user.email_verified_at is not None,
        "name": user.name,
        **{name: value for name, value in claims.items() if name != "address"},
        "address": {name: part for name, part in claims["address"].items() if part},
        "created_at": user.created_at,
        "changed_at": user.changed_at,
        "disabled_at": user.disabled_at,
        "role": None if user.role is None else user.role.value,
    }


def pairs(user: User) -> list[tuple[str, str]]:
    """The record for people: what it says, and nothing of what it does not."""
    found = [
        ("uid", str(user.uid)),
        ("username", user.username),
        ("e-mail", user.email + ("" if user.email_verified_at is not None else " (not verified)")),
    ]
    said = user_claims(user, PERSONAL_CLAIMS)
    found += [
        (name, str(said[name]))
        for name in ("name", *TEXTS)
        if name in said and name != "phone_number"
    ]
    if number := user.claims.phone_number:
        unproved = "" if user.claims.phone_number_verified else " (not verified)"
        found.append(("phone_number", number + unproved))
    address = cast("Mapping[str, str]", said.get("address", {}))
    found += [(name, ", ".join(part.split("\n"))) for name, part in address.items()]
    found.append(("state", "on" if user.disabled_at is None else "off"))
    if user.role is not None:
        found.append(("role", user.role.value))
    found.append(("since", shown(user.created_at)))
    return found


def _strings(said: Mapping[str, object], names: Mapping[str, str]) -> Mapping[str, str]:
    return {
        field: str(said[option]) for field, option in names.items() if said.get(option) is not None
    }
