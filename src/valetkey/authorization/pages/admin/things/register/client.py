"""One app, what hangs on it, and what can be done with it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.admin.things.register.clients import ClientRow


class ClientAct(StrEnum):
    """What can be done; each is the end of an address and has a question of its own."""

    VERIFY = "verify"
    UNVERIFY = "unverify"
    ADOPT = "adopt"
    SECRET = "secret"
    END_SECRET = "end-secret"
    ALLOW_IMPLICIT = "allow-implicit"
    END_IMPLICIT = "end-implicit"
    ALLOW_PASSWORD = "allow-password"
    END_PASSWORD = "end-password"
    DISABLE = "disable"
    ENABLE = "enable"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class SecretLine:
    """One of its secrets; `end_url` is the question before it ends."""

    id: str
    end_url: str
    ends: str = ""


@dataclass(frozen=True, slots=True)
class TeamLine:
    """Somebody in its team."""

    name: str
    owns: bool
    url: str


@dataclass(frozen=True, slots=True)
class ActWay:
    """Something that can be done, and the address of its question."""

    act: ClientAct
    url: str


@dataclass(frozen=True, slots=True)
class ClientPage:
    """Everything about one app but its secrets."""

    template: ClassVar[str] = "admin/things/register/client.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    row: ClientRow
    description: str
    application_type: str
    authentication: str
    token_format: str
    needs_pkce: bool
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    scopes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    changed: When
    verified_since: When | None
    disabled_since: When | None
    team: tuple[TeamLine, ...]
    secrets: tuple[SecretLine, ...]
    people: int
    authorizations: int
    seen_in_url: int
    ways: tuple[ActWay, ...]
    events_url: str
    #: What was just done; "" for nothing.
    done: str = ""


@dataclass(frozen=True, slots=True)
class ClientAskPage:
    """The question before something is done with an app, and what it ends."""

    template: ClassVar[str] = "admin/things/register/ask.html"

    action: str
    back: str
    csrf: str
    act: ClientAct
    name: str
    client_id: str
    people: int = 0
    authorizations: int = 0
    secret_id: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SecretPage:
    """A secret that was made just now, shown this once."""

    template: ClassVar[str] = "admin/things/register/secret.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    back: str
    name: str
    client_id: str
    secret: str
    others_end: bool
