"""What people allow clients, and what becomes of it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByClient, ByUser


@dataclass(frozen=True, slots=True)
class ConsentGiven(ByUser):
    """A person allowed a client this scope, and these claims by themselves."""

    name: ClassVar[str] = "consent.given"
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsentDenied(ByUser):
    """A person was asked and said no."""

    name: ClassVar[str] = "consent.denied"
    uid: int | None
    client_id: str


@dataclass(frozen=True, slots=True)
class ConsentWithdrawn(ByUser):
    """A person took back what they had allowed a client; it must ask again."""

    name: ClassVar[str] = "consent.withdrawn"
    uid: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CodeIssued(ByUser):
    """An authorization code went to a client; `pkce` says whether a code challenge came with it."""

    name: ClassVar[str] = "code.issued"
    uid: int
    client_id: str
    grant_id: str
    pkce: bool


@dataclass(frozen=True, slots=True)
class CodeRedeemed(ByClient):
    """A code was exchanged: the grant began, its first access token was issued."""

    name: ClassVar[str] = "code.redeemed"
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class CodeReplayed(ByClient):
    """A code came a second time; its grant was revoked."""

    name: ClassVar[str] = "code.replayed"
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class CodeSpoiled(ByClient):
    """The right client sent a code with a wrong verifier or redirect URI; the code is spent."""

    name: ClassVar[str] = "code.spoiled"
    client_id: str
    grant_id: str
    check: str


@dataclass(frozen=True, slots=True)
class AccessTokenIssued(ByClient):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    name: ClassVar[str] = "access_token.issued"
    client_id: str
    uid: int | None
    grant_id: str | None
    token_id: str
    grant_type: str
    scope: str


@dataclass(frozen=True, slots=True)
class RefreshTokenUsed(ByClient):
    """A refresh token gave another access token; `rotated` says whether it was replaced."""

    name: ClassVar[str] = "refresh_token.used"
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    rotated: bool
    scope: str


@dataclass(frozen=True, slots=True)
class RefreshTokenRepeated(ByClient):
    """The previous refresh token came again within the window; the same successor was returned."""

    name: ClassVar[str] = "refresh_token.repeated"
    client_id: str
    grant_id: str
    token_id: str


@dataclass(frozen=True, slots=True)
class RefreshTokenReused(ByClient):
    """A replaced refresh token came again after the window (`reuse_detected`); the grant ended."""

    name: ClassVar[str] = "refresh_token.reused"
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class AccessTokenRevoked(ByClient):
    """One access token was ended before its time."""

    name: ClassVar[str] = "access_token.revoked"
    client_id: str
    grant_id: str | None
    token_id: str


@dataclass(frozen=True, slots=True)
class GrantRevoked(ByUser):
    """A grant was ended, and with it every token that descends from it."""

    name: ClassVar[str] = "grant.revoked"
    uid: int
    client_id: str
    grant_id: str
    because: str
