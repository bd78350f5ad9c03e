"""Requests of an app, visible only to its team: refused ones, and samples of successful ones."""

import re
from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, Registrar, metadata_of
from valetkey.authorization.actions.developer.usage import usage_of
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import StoredSample
from valetkey.database.decisions import DECISION_LIFETIME, Decision
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.typed_code import read_code


class Cursor(Struct, frozen=True):
    """The position in the list of requests after which a page begins, newest first."""

    at: Instant
    reference: str

    @staticmethod
    def of(found: Decision | StoredSample) -> "Cursor":
        """Return the position of a request."""
        reference = found.reference if isinstance(found, Decision) else found.id
        return Cursor(found.at, reference)


NEWEST = Cursor(Instant(1 << 53), "")
"""The position before the newest request."""


class AppRequests(Struct, frozen=True):
    """The requests to list; with a `code`, only refused ones with that error."""

    refused: bool = True
    successful: bool = True
    code: str = ""


def requests_of(
    tx: Transaction, client_id: str, after: Cursor, limit: int, wanted: AppRequests
) -> Sequence[Decision | StoredSample]:
    """Return at most `limit` requests of one app, newest first."""
    place = client_id, after.at, after.reference, limit
    refused = tx.decisions.of_client(*place, wanted.code) if wanted.refused else ()
    sampled = tx.request_samples.of_client(*place) if wanted.successful else ()
    both: list[Decision | StoredSample] = [*refused, *sampled]
    return sorted(both, key=_place, reverse=True)[:limit]


def _place(found: Decision | StoredSample) -> tuple[Instant, str]:
    cursor = Cursor.of(found)
    return cursor.at, cursor.reference


_REFERENCE = re.compile(r"VK-[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}")
_QUOTED = re.compile(r"'([!-&(-\[\]-~]+)'")
_UNPROVEN = "client."


def plain_reference(text: str) -> str:
    """Normalise a typed reference; "" if it is not one."""
    letters = read_code(text).removeprefix("VK").translate(str.maketrans("OIL", "011"))
    found = f"VK-{letters[:4]}-{letters[4:8]}-{letters[8:]}"
    return found if _REFERENCE.fullmatch(found) else ""


def codes_of(tx: Transaction, client_id: str, now: Instant) -> Sequence[str]:
    """Return the errors among the app's refusals of the last seven days, in alphabetical order."""
    since = Instant(now - DECISION_LIFETIME)
    return sorted({code for day in usage_of(tx, client_id, since) for code in day.errors})


def find_failure(tx: Transaction, client_id: str, reference: str) -> Decision | None:
    """Return a refusal of this app; None if there is none or it belongs to another app."""
    found = tx.decisions.find(reference)
    return found if found is not None and found.client_id == client_id else None


def app_of_failure(tx: Transaction, reference: str, uid: Uid) -> str | None:
    """Return the id of the app that a refusal is about, for its team; None for other users."""
    found = tx.decisions.find(reference)
    if found is None or found.client_id is None:
        return None
    return found.client_id if tx.members.find(found.client_id, uid) is not None else None


def may_be_another(decision: Decision) -> bool:
    """Return whether someone other than the app could have sent that request."""
    return decision.check.startswith(_UNPROVEN) or decision.endpoint == "/oauth/authorize"


def missing_redirect_uri(decision: Decision) -> str:
    """Return the redirect URI that was sent but is not registered; "" for every other refusal."""
    if decision.check != "redirect_uri.unknown":
        return ""
    match = _QUOTED.fullmatch(decision.received)
    return match[1] if match else ""


def add_redirect_uri(
    tx: Transaction, registrar: Registrar, client: Client, redirect_uri: str, now: Instant
) -> Client | Faults:
    """Register one more redirect URI. Return the client, or every error."""
    if redirect_uri in client.redirect_uris:
        return client
    before = metadata_of(client)
    after = replace(before, redirect_uris=(*before.redirect_uris, redirect_uri))
    return registrar.change(tx, client, after, now)
