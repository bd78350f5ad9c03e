"""The record behind the reference of an error, for the operators of this server."""

from valetkey.authorization.actions.developer.requests import plain_reference
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.decisions import Decision


def reads_like_reference(text: str) -> bool:
    """Return whether the text is the reference of an error, as people type it."""
    return text.strip().upper().startswith("VK") and bool(plain_reference(text))


def refusal_of(tx: Transaction, text: str) -> Decision | None:
    """Return the record of a reference, as people type it; None if there is none."""
    reference = plain_reference(text) if reads_like_reference(text) else ""
    return tx.decisions.find(reference) if reference else None
