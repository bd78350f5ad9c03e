"""The pages about the secrets of an app."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class SecretLine:
    """One secret that works. `ends_in` is seconds, 0 for one that does not end by itself."""

    id: str
    ending: str
    created: When
    last_used: When | None
    ends_in: int = 0


@dataclass(frozen=True, slots=True)
class SecretsPage:
    """List them and make another. Posts `csrf`, `seen` and `overlap`.

    `seen_in_url` is when one last came in an address. `trouble`: others, full.
    """

    template: ClassVar[str] = "developer/secrets/secrets.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    csrf: str
    seen: str
    secrets: tuple[SecretLine, ...]
    full: bool = False
    seen_in_url: When | None = None
    url_requests: int = 0
    trouble: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class NewSecretPage:
    """The new secret, shown this once. `overlap`: 1h, 24h, 7d, open, "" where there was none."""

    template: ClassVar[str] = "developer/secrets/new_secret.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    secret: str
    overlap: str


@dataclass(frozen=True, slots=True)
class EndSecretPage:
    """Ask before one ends. Posts `csrf` and `secret`."""

    template: ClassVar[str] = "developer/secrets/end_secret.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    csrf: str
    secret: SecretLine
    #: It is the only one that works.
    last: bool = False
