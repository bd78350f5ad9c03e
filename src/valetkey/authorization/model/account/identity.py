"""Identities: who a person is at another server, where they may sign in from there."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Identity:
    """One account at one issuer, connected to one account here.

    `shown` is what the person recognises it by: an address or a user name over there. It is never
    looked for.
    """

    issuer: str
    subject: str
    uid: Uid
    shown: str
    linked_at: Instant
    last_used_at: Instant | None = None
