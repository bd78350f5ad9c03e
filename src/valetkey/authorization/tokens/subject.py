"""The `sub` of a user and the `sid` of a session, for each client (OIDC Core section 8)."""

from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.register.client import Client
from valetkey.kernel.secret import FingerprintKey

SUBJECT_TYPES = ("public", "pairwise")
"""Values of `subject_type` that a client may register."""


class Subjects(Struct, frozen=True):
    """Computes subject identifiers. Pairwise ones are keyed: not linkable or reversible."""

    key: FingerprintKey

    def of(self, user: User, client: Client) -> str:
        """Return the permanent `sub` of this user for this client; at most 255 characters."""
        return self.of_uid(user.uid, client)

    def of_uid(self, uid: Uid, client: Client) -> str:
        """Return the `sub` of the user with this uid, who may be gone, for this client."""
        if not client.openid.is_pairwise:
            return str(uid)
        # A sector is a host name without NUL, so no two pairs have the same encoding.
        return self.key.of("pairwise subject", f"{sector_of(client)}\0{uid}")

    def session(self, session_id: str, client: Client) -> str:
        """Return the `sid` of this session for this client.

        As pairwise as the subject: otherwise two clients could compare the ids of a long session to
        link their users.
        """
        if not client.openid.is_pairwise:
            return session_id
        return "se_" + self.key.of("pairwise session", f"{sector_of(client)}\0{session_id}")


def sector_of(client: Client) -> str:
    """Return the host shared by all clients of a sector (Core section 8.1).

    Defaults to the host of the redirect URIs. A client without any, or with private-use schemes
    only, is a sector of its own.
    """
    if client.openid.sector:
        return client.openid.sector
    hosts = sorted({host for uri in client.redirect_uris if (host := urlsplit(uri).hostname)})
    return hosts[0] if hosts else f"client {client.id}"
