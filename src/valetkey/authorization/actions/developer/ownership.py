"""App ownership, for portal, account export, account removal and CLI."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.client import Client, Membership
from valetkey.authorization.storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class OwnApp:
    """An app, and what one person is to it."""

    client: Client
    membership: Membership

    @property
    def name(self) -> str:
        """Return the app's name, or its client id if it has none."""
        return self.client.name or self.client.id


def find_own(tx: Transaction, client_id: str, uid: Uid) -> OwnApp | None:
    """The app, if this person is in its team; None for strangers and where there is none."""
    membership = tx.members.find(client_id, uid)
    client = None if membership is None else tx.clients.find(client_id)
    return None if client is None or membership is None else OwnApp(client, membership)


def own_apps(tx: Transaction, uid: Uid) -> Sequence[OwnApp]:
    """The apps in whose teams this person is, by name."""
    found = (find_own(tx, membership.client_id, uid) for membership in tx.members.of(uid))
    return sorted(
        (app for app in found if app is not None),
        key=lambda app: (app.name.casefold(), app.client.id),
    )


def owned_apps(tx: Transaction, uid: Uid) -> Sequence[Client]:
    """Return the apps that this user owns, alone or with others, by name."""
    return [app.client for app in own_apps(tx, uid) if app.membership.owns]


def sole_owned(tx: Transaction, uid: Uid) -> Sequence[Client]:
    """Return the apps that would have no owner without this user, by name."""
    return [
        client
        for client in owned_apps(tx, uid)
        if not any(one.owns and one.uid != uid for one in tx.members.team(client.id))
    ]
