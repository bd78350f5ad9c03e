"""The keyring: the keys that fingerprint, encrypt and sign, in a file of mode 0600.

Reading the database does not reveal what is sealed.
"""

import contextlib
import hmac
import os
import re
import secrets  # noqa: TID251 - names of drafts, which no test needs to foresee
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import FingerprintKey, from_base64url, to_base64url

_SEALED = re.compile(r"v([1-9][0-9]{0,8})\.([A-Za-z0-9_-]+)")
_NONCE = 12
_TAG = 16
_KEY_SIZE = 32


@dataclass(frozen=True, slots=True, eq=False)
class SealingKey:
    """One version of the encryption key: 32 random bytes."""

    version: int
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check that the key has 32 bytes and its version is 1 or above."""
        if len(self.secret) != _KEY_SIZE or self.version < 1:
            message = f"a sealing key has {_KEY_SIZE} bytes and a version above zero"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, eq=False)
class Sealer:
    """Encrypt with the newest key and decrypt with any key.

    `context` names where the encrypted text is stored, such as "signing_keys.private:" and the
    row's id; moved to another place, it does not decrypt. `newer` is called for keys that were
    added later when a text names an unknown key version. It must be cheap, because an attacker can
    invent such a text.
    """

    keys: tuple[SealingKey, ...]
    newer: Callable[[], Collection[SealingKey]] | None = None
    _learnt: dict[int, SealingKey] = field(default_factory=dict[int, SealingKey], repr=False)

    def seal(self, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
        """Encrypt `plain` as `v<version>.<base64url>`, bound to this context."""
        newest = self.keys[0]
        return f"v{newest.version}.{_seal(newest.secret, plain, context, random)}"

    def open(self, sealed: str, context: str) -> bytes | None:
        """Decrypt; return None if any byte, the version or the context differs."""
        match = _SEALED.fullmatch(sealed)
        if match is None:
            return None
        key = self._find(int(match[1]))
        return None if key is None else _open(key.secret, match[2], context)

    def _find(self, version: int) -> SealingKey | None:
        for key in self.keys:
            if key.version == version:
                return key
        if version not in self._learnt and self.newer is not None:
            self._learnt.update({key.version: key for key in self.newer()})
        return self._learnt.get(version)

    def is_current(self, sealed: str) -> bool:
        """Return whether the newest key encrypted it; if not, encrypt it again on next write."""
        return sealed.startswith(f"v{self.keys[0].version}.")


def seal_with(secret: str, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
    """Encrypt `plain` with a key derived from `secret`, a string of at least 128 random bits."""
    return f"v1.{_seal(_extract(secret), plain, context, random)}"


def open_with(secret: str, sealed: str, context: str) -> bytes | None:
    """Decrypt the output of `seal_with`; None for another secret or context or a changed text."""
    match = _SEALED.fullmatch(sealed)
    if match is None or match[1] != "1":
        return None
    return _open(_extract(secret), match[2], context)


def _seal(secret: bytes, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
    nonce = random(_NONCE)
    encoded_context = context.encode()
    return to_base64url(
        nonce + AESGCM(_derive(secret, encoded_context)).encrypt(nonce, plain, encoded_context)
    )


def _open(secret: bytes, text: str, context: str) -> bytes | None:
    data = from_base64url(text)
    if data is None or len(data) < _NONCE + _TAG:
        return None
    encoded_context = context.encode("utf-8", "surrogatepass")
    try:
        return AESGCM(_derive(secret, encoded_context)).decrypt(
            data[:_NONCE], data[_NONCE:], encoded_context
        )
    except InvalidTag:
        return None


def _extract(secret: str) -> bytes:
    # HKDF-Extract (RFC 5869 section 2.2): the secret is text, not uniform bytes.
    return hmac.digest(b"valetkey seal with", secret.encode("utf-8", "surrogatepass"), "sha256")


def _derive(secret: bytes, context: bytes) -> bytes:
    # HKDF-Expand, one block (RFC 5869 section 2.3). One key for each context keeps random nonces
    # far from their limit of 2**32 messages for each key.
    return hmac.digest(secret, b"valetkey seal\0" + context + b"\x01", "sha256")


T = TypeVar("T", bound=msgspec.Struct)


class Ticket(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The user and browser of a ticket, and its expiry."""

    uid: int
    browser: str
    expires_at: int


def seal_ticket(
    ticket: msgspec.Struct, purpose: str, sealer: Sealer, random: Callable[[int], bytes]
) -> str:
    """Encrypt the ticket as text for this purpose."""
    return sealer.seal(msgspec.msgpack.encode(ticket), f"ticket:{purpose}", random)


def open_ticket(
    text: str, kind: type[T], purpose: str, sealer: Sealer, lifetime: Lifetime, now: Instant
) -> T | None:
    """Decrypt the output of `seal_ticket`; None for anything else.

    Also None for a ticket that has expired, or was issued in the future, for `lifetime`.
    """
    plain = sealer.open(text, f"ticket:{purpose}")
    if plain is None:
        return None
    try:
        ticket = msgspec.msgpack.decode(plain, type=kind)
    except msgspec.MsgspecError:
        # Encrypted by this server, but by a version with another ticket format.
        return None
    expires_at = Instant(getattr(ticket, "expires_at", 0))
    return ticket if is_live(Instant(expires_at - lifetime), expires_at, now) else None


_ENTRY = re.compile(r"(fingerprint|sealing) ([1-9][0-9]{0,8}) ([A-Za-z0-9_-]{43})")
_LARGEST = 65_536
_HEADING = "# Valetkey keyring. It decrypts the secrets in the database: back it up."


@dataclass(frozen=True, slots=True, eq=False)
class Keyring:
    """The fingerprint key and the encryption keys, newest first."""

    fingerprint_key: FingerprintKey
    sealer: Sealer

    @staticmethod
    def fresh(random: Callable[[int], bytes]) -> "Keyring":
        """Generate a new keyring."""
        return Keyring(FingerprintKey(random(32)), Sealer((SealingKey(1, random(32)),)))

    @staticmethod
    def parse(text: str) -> "Keyring":
        """Parse a keyring: one `<kind> <version> <base64url>` a line or between `;`.

        Raises OperatorError for any invalid line, without repeating it.
        """
        fingerprint: list[FingerprintKey] = []
        sealing: dict[int, SealingKey] = {}
        for number, line in _lines(text):
            match = _ENTRY.fullmatch(line)
            secret = from_base64url(match[3]) if match else None
            if match is None or secret is None:
                message = f"line {number} of the keyring is not `<kind> <version> <base64url>`"
                raise OperatorError(message)
            if match[1] == "fingerprint":
                fingerprint.append(FingerprintKey(secret))
                continue
            version = int(match[2])
            if version in sealing:
                message = f"line {number} of the keyring repeats sealing version {version}"
                raise OperatorError(message)
            sealing[version] = SealingKey(version, secret)
        if len(fingerprint) != 1 or not sealing:
            message = "a keyring has one `fingerprint` line and at least one `sealing` line"
            raise OperatorError(message)
        return Keyring(fingerprint[0], Sealer(tuple(sealing[v] for v in sorted(sealing)[::-1])))

    def with_new_sealing_key(self, random: Callable[[int], bytes]) -> "Keyring":
        """Return this keyring with a new encryption key; old keys still decrypt."""
        keys = self.sealer.keys
        newest = SealingKey(keys[0].version + 1, random(32))
        return Keyring(self.fingerprint_key, Sealer((newest, *keys)))

    def text(self) -> str:
        """Return the keyring in clear, as its file holds it."""
        lines = [_HEADING, f"fingerprint 1 {to_base64url(self.fingerprint_key.key)}"]
        lines += [f"sealing {key.version} {to_base64url(key.secret)}" for key in self.sealer.keys]
        return "\n".join(lines) + "\n"


def create_or_read(path: Path, random: Callable[[int], bytes]) -> Keyring:
    """Read the keyring from the file, created on first use; racing processes get one keyring.

    It also decrypts with keys that are added to the file later.
    """
    text = create_or_read_secret_file(path, lambda: Keyring.fresh(random).text())
    keyring = Keyring.parse(text)
    return Keyring(keyring.fingerprint_key, Sealer(keyring.sealer.keys, _Newer(path, keyring)))


class _Newer:
    """The encryption keys of a file that changed since it was last read."""

    def __init__(self, path: Path, keyring: Keyring) -> None:
        """Remember the keyring that was read."""
        self._path = path
        self._own = keyring.fingerprint_key
        self._seen = _state(path)

    def __call__(self) -> tuple[SealingKey, ...]:
        """Return all keys of the file; none if it is unchanged, invalid, or another keyring's."""
        state = _state(self._path)
        if state == self._seen:
            return ()
        self._seen = state
        try:
            keyring = Keyring.parse(_read(self._path))
        except (OperatorError, OSError):
            return ()
        same = hmac.compare_digest(keyring.fingerprint_key.key, self._own.key)
        return keyring.sealer.keys if same else ()


def _state(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns


def create_or_read_secret_file(
    path: Path, make: Callable[[], str], *, largest: int = _LARGEST
) -> str:
    """Read the file; if it is missing, write `make()` with mode 0600 and sync it.

    Of racing processes one writes and all read its value. Raises OperatorError when other users may
    read the file or the directory cannot be written.
    """
    with _explained(path):
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = _write_draft(path, make())
            try:
                # link, not rename: it fails when another process was first.
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink()
            _sync_directory(path.parent)
        return _read(path, largest)


def read_secret_file(path: Path) -> str | None:
    """Return the content of the file; None if it is missing. Raises OperatorError as above."""
    with _explained(path):
        try:
            return _read(path)
        except FileNotFoundError:
            return None


def replace_secret_file(path: Path, text: str) -> None:
    """Replace the content of the file atomically and synced, with mode 0600."""
    with _explained(path):
        draft = _write_draft(path, text)
        draft.replace(path)
        _sync_directory(path.parent)


def _read(path: Path, largest: int = _LARGEST) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > largest:
            message = f"{path} is not a file of secrets"
            raise OperatorError(message)
        # As in PostgreSQL: a file that root prepared for the server may be readable by its group.
        forbidden = 0o077 if state.st_uid == os.geteuid() else 0o037
        if state.st_mode & forbidden:
            message = f"{path} holds secrets and other users can read it; run: chmod 600 {path}"
            raise OperatorError(message)
        data = file.read(largest)
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        message = f"{path} is not a file of secrets"
        raise OperatorError(message) from None


def _write_draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if os.geteuid() == 0:
            # A command run by root must not change the file's owner to root.
            owner = (path if path.exists() else path.parent).stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        file.write(text.encode("ascii"))
        file.flush()
        os.fsync(descriptor)
    return draft


def _sync_directory(directory: Path) -> None:
    # Without this the new directory entry may be lost on power failure, and with it every secret.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(re.split("[\n;]", text), start=1):
        entry = line.strip(" \t\r")
        if entry and not entry.startswith("#"):
            yield number, entry


@contextlib.contextmanager
def _explained(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        message = f"{path} cannot be used: {error.strerror or error}"
        raise OperatorError(message) from error


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointKey:
    """A key that signs text for one purpose; it exists as long as the keyring."""

    _key: Ed25519PrivateKey

    @staticmethod
    def derive(key: FingerprintKey, purpose: str) -> "CheckpointKey":
        """Return the key of this keyring for `purpose`; always the same one."""
        return CheckpointKey(
            Ed25519PrivateKey.from_private_bytes(key.digest("checkpoint key", purpose))
        )

    @property
    def public(self) -> str:
        """The public key in base64url."""
        return to_base64url(self._key.public_key().public_bytes_raw())

    def sign(self, text: str) -> str:
        """Return the signature of `text` in base64url; deterministic."""
        return to_base64url(self._key.sign(text.encode()))


def verifies(public: str, signature: str, text: str) -> bool:
    """Return whether the key `public` made this signature of `text`."""
    key, signed = from_base64url(public), from_base64url(signature)
    if key is None or signed is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
