"""Events: everything worth remembering, one dataclass each; the docstring is its documentation.

An event is written in the transaction that made the change. None carries a secret or free text
that a client sent.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `name` is noun.past_participle."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True)
class ClientRegistered(Event):
    """A client was registered; `door` says through which door."""

    name: ClassVar[str] = "client.registered"
    client_id: str
    door: str


@dataclass(frozen=True, slots=True)
class ClientChanged(Event):
    """A client's record was changed; `fields` names what, `door` through which door."""

    name: ClassVar[str] = "client.changed"
    client_id: str
    door: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientDisabled(Event):
    """A client was switched off; everything it held has ended."""

    name: ClassVar[str] = "client.disabled"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientEnabled(Event):
    """A client was switched on again; nothing that ended came back."""

    name: ClassVar[str] = "client.enabled"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientRemoved(Event):
    """A client that had registered itself was removed with all it held; `because` says why."""

    name: ClassVar[str] = "client.removed"
    client_id: str
    because: str


@dataclass(frozen=True, slots=True)
class ClientAdopted(Event):
    """An operator made a client that had registered itself one of their own."""

    name: ClassVar[str] = "client.adopted"
    client_id: str


@dataclass(frozen=True, slots=True)
class InvitationIssued(Event):
    """An operator made a token with which applications may register themselves."""

    name: ClassVar[str] = "invitation.issued"
    invitation_id: str
    uses: int


@dataclass(frozen=True, slots=True)
class InvitationWithdrawn(Event):
    """An operator took such a token back."""

    name: ClassVar[str] = "invitation.withdrawn"
    invitation_id: str


@dataclass(frozen=True, slots=True)
class ClientSecretIssued(Event):
    """A client was given another secret; the older ones expire at `others_expire_at`."""

    name: ClassVar[str] = "client_secret.issued"
    client_id: str
    secret_id: str
    others_expire_at: int | None = None


@dataclass(frozen=True, slots=True)
class UserRegistered(Event):
    """An account was made."""

    name: ClassVar[str] = "user.registered"
    uid: int


@dataclass(frozen=True, slots=True)
class UserChanged(Event):
    """An account's record was changed; `fields` names what."""

    name: ClassVar[str] = "user.changed"
    uid: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserDisabled(Event):
    """An account was switched off; its sessions and grants have ended."""

    name: ClassVar[str] = "user.disabled"
    uid: int


@dataclass(frozen=True, slots=True)
class UserEnabled(Event):
    """An account was switched on again; nothing that ended came back."""

    name: ClassVar[str] = "user.enabled"
    uid: int


@dataclass(frozen=True, slots=True)
class PasswordChanged(Event):
    """A password was set; grants ended, and sessions but the one in which it was changed."""

    name: ClassVar[str] = "password.changed"
    uid: int


@dataclass(frozen=True, slots=True)
class SignInFailed(Event):
    """A password was wrong, or there was no such account (`uid` is then absent)."""

    name: ClassVar[str] = "sign_in.failed"
    uid: int | None
    door: str


@dataclass(frozen=True, slots=True)
class SessionStarted(Event):
    """Someone signed in."""

    name: ClassVar[str] = "session.started"
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionRenewed(Event):
    """Someone signed in again where they were signed in; their session goes on."""

    name: ClassVar[str] = "session.renewed"
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionEnded(Event):
    """Someone signed out, or was signed out; `because` says which."""

    name: ClassVar[str] = "session.ended"
    uid: int
    session_id: str
    because: str


@dataclass(frozen=True, slots=True)
class LogoutTokenDelivered(Event):
    """An app was told that a session has ended, and said that it heard."""

    name: ClassVar[str] = "logout_token.delivered"
    uid: int
    client_id: str
    session_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LogoutTokenGivenUp(Event):
    """An app that was told of a session will not hear of its end; `because` says why not."""

    name: ClassVar[str] = "logout_token.given_up"
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str


@dataclass(frozen=True, slots=True)
class ConsentGiven(Event):
    """A person allowed a client this scope, and these claims by themselves."""

    name: ClassVar[str] = "consent.given"
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsentDenied(Event):
    """A person was asked and said no."""

    name: ClassVar[str] = "consent.denied"
    uid: int | None
    client_id: str


@dataclass(frozen=True, slots=True)
class ConsentWithdrawn(Event):
    """A person took back what they had allowed a client; it must ask again."""

    name: ClassVar[str] = "consent.withdrawn"
    uid: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CodeIssued(Event):
    """An authorization code went to a client."""

    name: ClassVar[str] = "code.issued"
    uid: int
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class CodeRedeemed(Event):
    """A code was exchanged: the grant began, its first access token was issued."""

    name: ClassVar[str] = "code.redeemed"
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class CodeReplayed(Event):
    """A code came a second time; its grant was revoked."""

    name: ClassVar[str] = "code.replayed"
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class CodeSpoiled(Event):
    """The right client sent a code with a wrong verifier or redirect URI; the code is spent."""

    name: ClassVar[str] = "code.spoiled"
    client_id: str
    grant_id: str
    check: str


@dataclass(frozen=True, slots=True)
class AccessTokenIssued(Event):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    name: ClassVar[str] = "access_token.issued"
    client_id: str
    uid: int | None
    grant_id: str | None
    token_id: str
    grant_type: str
    scope: str


@dataclass(frozen=True, slots=True)
class RefreshTokenUsed(Event):
    """A refresh token gave another access token; `rotated` says whether it was replaced."""

    name: ClassVar[str] = "refresh_token.used"
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    rotated: bool


@dataclass(frozen=True, slots=True)
class RefreshTokenRepeated(Event):
    """The previous refresh token came again within the window; the same successor was returned."""

    name: ClassVar[str] = "refresh_token.repeated"
    client_id: str
    grant_id: str
    token_id: str


@dataclass(frozen=True, slots=True)
class RefreshTokenReused(Event):
    """A replaced refresh token came again after the window (`reuse_detected`); the grant ended."""

    name: ClassVar[str] = "refresh_token.reused"
    client_id: str
    grant_id: str


@dataclass(frozen=True, slots=True)
class AccessTokenRevoked(Event):
    """One access token was ended before its time."""

    name: ClassVar[str] = "access_token.revoked"
    client_id: str
    grant_id: str | None
    token_id: str


@dataclass(frozen=True, slots=True)
class GrantRevoked(Event):
    """A grant was ended, and with it every token that descends from it."""

    name: ClassVar[str] = "grant.revoked"
    uid: int
    client_id: str
    grant_id: str
    because: str


@dataclass(frozen=True, slots=True)
class SigningKeyIssued(Event):
    """A signing key was made and published; it signs from `activates_at` on."""

    name: ClassVar[str] = "signing_key.issued"
    kid: str
    algorithm: str
    activates_at: int


@dataclass(frozen=True, slots=True)
class SigningKeyRetired(Event):
    """A signing key signs no more; it is published until its last token has expired."""

    name: ClassVar[str] = "signing_key.retired"
    kid: str


@dataclass(frozen=True, slots=True)
class SigningKeyWithdrawn(Event):
    """A signing key was taken back before its time; nothing that it signed is good any more."""

    name: ClassVar[str] = "signing_key.withdrawn"
    kid: str


@dataclass(frozen=True, slots=True)
class KeyringRotated(Event):
    """The key that seals secrets was replaced and everything sealed was sealed anew."""

    name: ClassVar[str] = "keyring.rotated"
    version: int


_OF_CLIENTS = (ClientRegistered, ClientChanged, ClientDisabled, ClientEnabled, ClientRemoved)
_OF_REGISTERING = (ClientAdopted, InvitationIssued, InvitationWithdrawn, ClientSecretIssued)
_OF_USERS = (UserRegistered, UserChanged, UserDisabled, UserEnabled, PasswordChanged, SignInFailed)
_OF_SESSIONS = (SessionStarted, SessionRenewed, SessionEnded)
_OF_LOGOUT = (LogoutTokenDelivered, LogoutTokenGivenUp)
_OF_CONSENTS = (ConsentGiven, ConsentDenied, ConsentWithdrawn)
_OF_CODES = (CodeIssued, CodeRedeemed, CodeReplayed, CodeSpoiled)
_OF_REFRESH_TOKENS = (RefreshTokenUsed, RefreshTokenRepeated, RefreshTokenReused)
_OF_KEYS = (SigningKeyIssued, SigningKeyRetired, SigningKeyWithdrawn, KeyringRotated)

EVENTS: tuple[type[Event], ...] = (
    *_OF_CLIENTS,
    *_OF_REGISTERING,
    *_OF_USERS,
    *_OF_SESSIONS,
    *_OF_LOGOUT,
    *_OF_CONSENTS,
    *_OF_CODES,
    AccessTokenIssued,
    *_OF_REFRESH_TOKENS,
    AccessTokenRevoked,
    GrantRevoked,
    *_OF_KEYS,
)
