"""Tokens stored between runs: a file of mode 0600, and a lock that processes share."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from valetkey.kernel.moment import Instant, Lifetime, later
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret

_RENEW_BEFORE = 30  # seconds, or half the lifetime of a token that lives less than a minute
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_UNTOLD = 300  # seconds, if the server does not state the lifetime


class Rejected(Exception):
    """The authorization server or the user refused; `code` is the error of RFC 6749."""

    def __init__(self, code: str, description: str = "") -> None:
        """Store the error code and its description."""
        super().__init__(f"{code}: {description}" if description else code)
        self.code = code
        self.description = description


class SignInNeeded(Exception):
    """There is no token and no way to renew one: a user has to sign in."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """An access token, its expiry, and its refresh token if there is one."""

    access_token: Secret
    scope: str
    expires_at: Instant
    renew_at: Instant
    refresh_token: Secret | None = None

    def is_live(self, now: Instant) -> bool:
        """Return whether the access token has not expired."""
        return self.expires_at > now

    def is_fresh(self, now: Instant) -> bool:
        """Return whether it is too early to renew it."""
        return self.renew_at > now


@dataclass(frozen=True, slots=True)
class DeviceCodes:
    """The code that a user enters, and where (RFC 8628 section 3.2); times are in seconds.

    `verification_uri_complete` has the user code in it, for a QR code.
    """

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    expires_in: int
    verification_uri_complete: str = ""
    interval: int = 5


@dataclass(frozen=True, slots=True)
class _Granted:
    access_token: str
    token_type: str
    expires_in: int = _UNTOLD
    refresh_token: str = ""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class _Asserted:
    access_token: str
    issued_token_type: str


@dataclass(frozen=True, slots=True)
class _Error:
    error: str
    error_description: str = ""


def read_tokens(body: bytes, now: Instant, *, scope: str, old: Secret | None = None) -> Tokens:
    """Parse a token response; an omitted `scope` or refresh token keeps the `old` one.

    Raises Rejected.
    """
    try:
        granted = msgspec.json.decode(body, type=_Granted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Rejected("invalid_response", "this is not a token response") from None
    if granted.token_type.lower() != "bearer" or not granted.access_token:
        raise Rejected("invalid_response", "the token is not a bearer token")
    life = max(granted.expires_in, 0)
    expires_at = later(now, Lifetime(life))
    return Tokens(
        access_token=Secret(granted.access_token),
        scope=scope if granted.scope is None else granted.scope,
        expires_at=expires_at,
        renew_at=Instant(expires_at - min(_RENEW_BEFORE, life // 2)),
        refresh_token=Secret(granted.refresh_token) if granted.refresh_token else old,
    )


def read_assertion(body: bytes) -> Secret:
    """Parse a response with an identity assertion, which is no access token. Raises Rejected."""
    try:
        asserted = msgspec.json.decode(body, type=_Asserted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Rejected("invalid_response", "this is not a token response") from None
    if asserted.issued_token_type != _ID_JAG or not asserted.access_token:
        raise Rejected("invalid_response", "the token is not an identity assertion")
    return Secret(asserted.access_token)


def read_device_codes(body: bytes) -> DeviceCodes:
    """Parse a device authorization response. Raises Rejected."""
    try:
        return msgspec.json.decode(body, type=DeviceCodes)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Rejected("invalid_response", "this is not a device authorization response") from None


def read_error(body: bytes) -> Rejected:
    """Return the error in a response other than 200."""
    try:
        error = msgspec.json.decode(body, type=_Error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Rejected("invalid_response", "the authorization server's response is malformed")
    return Rejected(error.error, error.error_description)


_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class _Written:
    """The file's content, with the issuer and client of the tokens: they are sent to no other."""

    issuer: str
    client_id: str
    access_token: str
    scope: str
    expires_at: int
    renew_at: int
    refresh_token: str = ""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The tokens of one client of one issuer, in the file at `path`."""

    path: Path
    issuer: str
    client_id: str

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Exclude all other threads and processes until the block ends."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.path.with_name(f"{self.path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            # The lock file stays: removing it would let two processes hold the lock.
            os.close(descriptor)

    def read(self) -> Tokens | None:
        """Return the stored tokens; None if missing, damaged, or another client's.

        Raises OperatorError if other users may read the file.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & _OTHERS:
                raise OperatorError(f"others may read {self.path}: chmod 600 it, or remove it")
            content = file.read()
        try:
            written = msgspec.json.decode(content, type=_Written)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if (written.issuer, written.client_id) != (self.issuer, self.client_id):
            return None
        return Tokens(
            access_token=Secret(written.access_token),
            scope=written.scope,
            expires_at=Instant(written.expires_at),
            renew_at=Instant(written.renew_at),
            refresh_token=Secret(written.refresh_token) if written.refresh_token else None,
        )

    def write(self, tokens: Tokens) -> None:
        """Write `tokens` atomically: after a crash the file holds the old or the new ones."""
        refresh_token = tokens.refresh_token
        written = _Written(
            issuer=self.issuer,
            client_id=self.client_id,
            access_token=tokens.access_token.reveal(),
            scope=tokens.scope,
            expires_at=tokens.expires_at,
            renew_at=tokens.renew_at,
            refresh_token="" if refresh_token is None else refresh_token.reveal(),
        )
        # mkstemp creates it with mode 0600.
        descriptor, draft = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(written))
                file.flush()
                os.fsync(descriptor)
            Path(draft).replace(self.path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Delete the tokens."""
        self.path.unlink(missing_ok=True)
