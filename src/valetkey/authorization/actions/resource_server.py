"""The credential by which the resource server authenticates: registered and kept current."""

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, client_without_rights
from valetkey.authorization.model.event.grants import ClientRegistered
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import credential_path
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import create_or_read_secret_file
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, same

_OVERLAP = days(1)
"""How long the previous credential still works, for servers that were not restarted yet."""


def keep_registered(
    tx: Transaction, registrar: Registrar, credential: Secret, now: Instant
) -> None:
    """Let the resource server authenticate with this credential; does nothing if it can already.

    Raises OperatorError for a credential that could be guessed.
    """
    client = tx.clients.find(RESOURCE_SERVER)
    if client is None:
        client = _resource_server(now)
        if tx.clients.register(client):
            tx.events.add(ClientRegistered(client.id, "start"), now)
    wanted = registrar.fingerprints.of(secret_purpose(RESOURCE_SERVER), credential.reveal())
    # A credential that already has an end would end too, so a new one is stored.
    known = any(
        same(secret.fingerprint, wanted) and secret.expires_at is None for secret in client.secrets
    )
    if known:
        return
    faults = registrar.issue_secret(
        tx, client, credential, now, others_live=_OVERLAP, replaces_oldest=True
    )
    if faults:
        raise OperatorError(f"{faults[0].detail}", "resource.credential_text")


def credential_in_file(settings: Settings) -> Secret | None:
    """Return the credential from its file; None without a file, or with another source."""
    path = credential_path(settings)
    if settings.resource.credential_text is not None or not path.exists():
        return None
    return Secret(create_or_read_secret_file(path, str).strip())


def _resource_server(now: Instant) -> Client:
    return replace(
        client_without_rights(RESOURCE_SERVER, now),
        name="Resource server",
        description="Holds what users let clients read and change",
    )
