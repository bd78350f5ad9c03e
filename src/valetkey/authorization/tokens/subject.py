"""The `sub` of a person and the `sid` of their session, for each client (Core section 8)."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.kernel.secret import FingerprintKey

SUBJECT_TYPES = ("public", "pairwise")
"""What a client may register as its `subject_type`."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """Names people towards clients. Pairwise names are keyed: nobody else can link or undo them."""

    key: FingerprintKey

    def of(self, user: User, client: Client) -> str:
        """The `sub` by which this client knows this user, for ever; at most 255 characters."""
        if not client.openid.is_pairwise:
            return user.subject
        # A sector is a host name, which has no NUL: no two pairs are spelt alike.
        return self.key.of("pairwise subject", f"{sector_of(client)}\0{user.uid}")

    def session(self, session_id: str, client: Client) -> str:
        """The `sid` by which this client knows this session.

        As pairwise as the subject: a session that lasts a month would else tell two clients that
        compare notes whom they share.
        """
        if not client.openid.is_pairwise:
            return session_id
        return "se_" + self.key.of("pairwise session", f"{sector_of(client)}\0{session_id}")


def sector_of(client: Client) -> str:
    """The host that all clients of one sector share (Core section 8.1).

    Without a registered one it is the host of its redirect URIs; a client that has none, or only
    private schemes, is alone in its sector.
    """
    if client.openid.sector:
        return client.openid.sector
    hosts = sorted({host for uri in client.redirect_uris if (host := urlsplit(uri).hostname)})
    return hosts[0] if hosts else f"client {client.id}"
