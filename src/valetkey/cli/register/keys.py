"""Keys on the command line: the keyring, secrets encrypted with it, and the credential."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from valetkey.authorization.actions.inspection.keys import count_opened
from valetkey.authorization.actions.records import keep_registered
from valetkey.authorization.authentication.factors import authenticator_place
from valetkey.authorization.feature import Reseal
from valetkey.authorization.features import FEATURES
from valetkey.authorization.model.event.administration import KeyringRotated
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.client_keys import secret_context
from valetkey.authorization.tokens.signing_keys import place
from valetkey.cli.register.store import OpenedStore, registrar
from valetkey.config.paths import credential_path, keyring_path
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.keyring import Keyring, create_or_read_secret_file, replace_secret_file
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Prefix, Secret, fresh_secret

_CREDENTIAL = re.compile(r"^# credential of the resource server: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Backup:
    """The keyring, and the credential if it is in a file."""

    keyring: Keyring
    credential: Secret | None

    @staticmethod
    def parse(text: str) -> "Backup":
        """Parse a backup file or a plain keyring file. Raises OperatorError."""
        found = _CREDENTIAL.search(text)
        return Backup(Keyring.parse(text), Secret(found[1]) if found else None)

    def text(self) -> str:
        """Return the content of the backup file: a keyring with the credential in a comment."""
        if self.credential is None:
            return self.keyring.text()
        line = f"# credential of the resource server: {self.credential.reveal()}\n"
        return self.keyring.text() + line


def by_algorithm(records: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Return the keys grouped by algorithm, the default algorithm first, each earliest first."""
    order = [each.value for each in Algorithm]
    return sorted(records, key=lambda record: order.index(str(record["algorithm"])))


async def opens_all(opened: OpenedStore) -> tuple[int, int]:
    """Return how many of the database's signing keys this keyring decrypts, and their total."""
    records = await opened.store.read(lambda tx: tuple(tx.signing_keys.all(opened.now)))
    return count_opened(records, opened.keyring), len(records)


_AT_ONCE = 500


async def rotate_sealing_key(opened: OpenedStore) -> int:
    """Encrypt all stored secrets with a new key.

    Return its version. Old keys remain for decryption.

    The file is written first, so that it can decrypt everything at any moment. Raises OperatorError
    if the keyring is not a file.
    """
    settings = opened.settings
    if settings.authorization.keyring_text is not None:
        raise OperatorError(
            "the keyring comes from VALETKEY__AUTHORIZATION__KEYRING_TEXT; put it into a file, "
            "name that as authorization.keyring, and rotate it there"
        )
    rotated = opened.keyring.with_new_sealing_key(opened.runtime.random)
    replace_secret_file(keyring_path(settings), rotated.text())
    old, new, version = opened.keyring.sealer, rotated.sealer, rotated.sealer.keys[0].version

    def reseal(sealed: str, where: str, what: str) -> str:
        plain = old.open(sealed, where)
        if plain is None:
            raise OperatorError(f"the keyring does not open {what}: restore the right one")
        return new.seal(plain, where, opened.runtime.random)

    def reseal_all(tx: Transaction) -> None:
        for record in tx.signing_keys.all(opened.now):
            sealed = reseal(record.sealed, place(record.kid), f"signing key {record.kid}")
            tx.signing_keys.reseal(record.kid, record.sealed, sealed)
        for name, before in tx.clients.sealed_secrets():
            sealed = reseal(before, secret_context(name), f"client secret {name}")
            tx.clients.reseal_secret(name, before, sealed)
        last = ""
        while found := tx.credentials.authenticators(last, _AT_ONCE):
            for last, before in found:
                sealed = reseal(before, authenticator_place(last), f"authenticator {last}")
                tx.credentials.reseal(last, before, sealed)
        _reseal_features(tx, reseal)
        tx.events.add(KeyringRotated(version), opened.now)

    await opened.store.write(reseal_all)
    return version


def _reseal_features(tx: Transaction, reseal: Reseal) -> None:
    for feature in FEATURES:
        feature.reseals(tx, reseal)


async def rotate_credential(opened: OpenedStore) -> Path:
    """Write a new credential to its file; the previous one works for a day.

    Raises OperatorError.
    """
    settings = opened.settings
    if settings.resource.credential_text is not None:
        raise OperatorError(
            "the credential comes from VALETKEY__RESOURCE__CREDENTIAL_TEXT; change it there, for "
            "both servers, and restart the authorization server first"
        )
    path, keeper = credential_path(settings), registrar(opened)
    secret = fresh_secret(Prefix.CLIENT_SECRET, opened.runtime.random)
    # Registered first: an unused credential does no harm, an unregistered one does.
    await opened.store.write(lambda tx: keep_registered(tx, keeper, secret, opened.now))
    create_or_read_secret_file(path, secret.reveal)
    replace_secret_file(path, secret.reveal())
    return path
