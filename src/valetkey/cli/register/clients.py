"""Clients as the command line shows them, and what their choices cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.model.register.fields import LISTS, Editor
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.authorization.storage.register.clients import QuerySighting
from valetkey.cli.register.moments import shown
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake

HEAD = ("CLIENT_ID", "NAME", "TYPE", "PROFILE", "GRANT TYPES", "STATE")

COSTS = {
    GrantTypeName.IMPLICIT: (
        "implicit: access tokens travel in the address of a page, where history and scripts can "
        "read them; use authorization_code with PKCE where you can"
    ),
    GrantTypeName.PASSWORD: (
        "password: people type their password into this application; nobody is asked for consent "
        "and no second factor is possible; only for applications of your own"
    ),
}
"""What turning a grant type on for a client costs."""

_ABOVE = frozenset({"name", "description", "requires_pkce", "key_set"})
"""Fields that `Shown` shows otherwise or that are too long for a line."""

_LARGEST = 65_536


@dataclass(frozen=True, slots=True)
class Shown:
    """A client with what is known about its use."""

    client: Client
    grants: int
    sighting: QuerySighting | None
    now: Instant

    def pairs(self) -> Sequence[tuple[str, str]]:
        """Names and values for people."""
        client, said = self.client, fields_shown(self.client)
        found = (
            ("client_id", client.id),
            ("description", client.description),
            ("state", _state(client)),
            ("origin", "registered itself" if client.self_registered else ""),
            ("secrets", self._secrets()),
            ("PKCE", "required" if client.needs_pkce else "optional"),
            *((name, _told(value)) for name, value in said.items() if name not in _ABOVE),
            ("authorizations", str(self.grants)),
            ("secret in URL", self._sighting()),
            ("registered", shown(client.created_at)),
            ("changed", shown(client.changed_at)),
        )
        return [(name, value) for name, value in found if value]

    def as_json(self) -> dict[str, object]:
        """The same for scripts."""
        sighting = self.sighting
        return {
            **as_json(self.client),
            "authorizations": self.grants,
            "query_requests": sighting.requests if sighting else 0,
            "query_last_seen_at": sighting.last_seen_at if sighting else None,
            "costs": list(costs(self.client)),
        }

    def _secrets(self) -> str:
        live = [secret for secret in self.client.secrets if secret.is_live(self.now)]
        ending = [shown(secret.expires_at) for secret in live if secret.expires_at is not None]
        if not live:
            return ""
        return f"{len(live)}" + (f"; one ends {min(ending)}" if ending else "")

    def _sighting(self) -> str:
        if self.sighting is None:
            return ""
        times = "once" if self.sighting.requests == 1 else f"{self.sighting.requests} times"
        last = shown(self.sighting.last_seen_at)
        return f"{times}, last {last}: give it another secret when it has stopped doing so"


def row(client: Client) -> tuple[str, ...]:
    """A client as a row below HEAD."""
    return (
        client.id,
        client.name,
        client.type,
        client.profile_name,
        ", ".join(sorted(client.grant_types)),
        _state(client),
    )


def as_json(client: Client) -> dict[str, object]:
    """A client for scripts, under the names that `valetkey apply` takes."""
    return {
        "client_id": client.id,
        **fields_shown(client),
        "self_registered": client.self_registered,
        "created_at": client.created_at,
        "changed_at": client.changed_at,
        "disabled_at": client.disabled_at,
    }


def fields_shown(client: Client) -> dict[str, object]:
    """The fields that an operator may set, without those of the part `openid` left at default."""
    metadata = metadata_of(client)
    values = {field: field.of(metadata) for field in fields_of(Editor.OPERATOR)}
    return {
        field.name: list(value) if field.rule.kind in LISTS else value
        for field, value in values.items()
        if not field.part or value != field.default
    }


def costs(client: Client) -> Iterator[str]:
    """What is risky about a client's choices, one sentence each."""
    for grant_type, cost in COSTS.items():
        if client.may_use(grant_type):
            yield cost
    if client.profile_name is ProfileName.CLASSIC and not client.is_public:
        yield (
            "classic: its secret may travel in the query string, where proxies log it; the profile "
            "modern refuses that"
        )


def read_key_set(file: Path | None) -> str:
    """The text of a JWK set file, "" for none; what it says is judged at registration."""
    if file is None:
        return ""
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        raise Mistake(f"{file} cannot be read as a JWK set") from None


def _told(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in cast("list[object]", value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _state(client: Client) -> str:
    return "on" if client.disabled_at is None else "off"
