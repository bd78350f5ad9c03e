"""The registration of the resource server: made and kept by the authorization server itself."""

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.client_authentication.client_secret import secret_purpose
from valetkey.authorization.model.event.clients import ClientRegistered
from valetkey.authorization.model.register.client import (
    RESOURCE_SERVER,
    Client,
    client_without_rights,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import credential_path
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import create_or_read_secret_file
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, same

_OVERLAP = days(1)
"""So long the credential before the current one still works, for servers not yet restarted."""


def keep_registered(
    tx: Transaction, registrar: Registrar, credential: Secret, now: Instant
) -> None:
    """Let the resource server authenticate with this credential. Does nothing where it can.

    Raises Mistake for a credential that could be guessed.
    """
    client = tx.clients.find(RESOURCE_SERVER)
    if client is None:
        client = _resource_server(now)
        if tx.clients.register(client):
            tx.events.add(ClientRegistered(client.id, "start"), now)
    wanted = registrar.fingerprints.of(secret_purpose(RESOURCE_SERVER), credential.reveal())
    # One that is to end, because another took its place for a while, would end all the same.
    known = any(
        same(secret.fingerprint, wanted) and secret.expires_at is None for secret in client.secrets
    )
    if known:
        return
    faults = registrar.issue_secret(
        tx, client, credential, now, others_live=_OVERLAP, replaces_oldest=True
    )
    if faults:
        raise Mistake(f"{faults[0].detail}", "resource.credential_text")


def credential_in_file(settings: Settings) -> Secret | None:
    """The credential that lies in its file; None where there is none, or it comes otherwise."""
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
