"""Tokens stored between runs: a file of mode 0600, and a lock that processes share."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.tokens import Tokens

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

        Raises Mistake if other users may read the file.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & _OTHERS:
                raise Mistake(f"others may read {self.path}: chmod 600 it, or remove it")
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
