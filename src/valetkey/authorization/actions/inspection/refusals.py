"""The record behind the reference of an error, for the operators of this server."""

import re

from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.decisions import Decision
from valetkey.kernel.text import read_code


def reads_like_reference(text: str) -> bool:
    """Return whether the text is the reference of an error, as people type it."""
    return text.strip().upper().startswith("VK") and bool(plain_reference(text))


def refusal_of(tx: Transaction, text: str) -> Decision | None:
    """Return the record of a reference, as people type it; None if there is none."""
    reference = plain_reference(text) if reads_like_reference(text) else ""
    return tx.decisions.find(reference) if reference else None


_REFERENCE = re.compile(r"VK-[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}")


def plain_reference(text: str) -> str:
    """Normalise a typed reference; "" if it is not one."""
    letters = read_code(text).removeprefix("VK").translate(str.maketrans("OIL", "011"))
    reference = f"VK-{letters[:4]}-{letters[4:8]}-{letters[8:]}"
    return reference if _REFERENCE.fullmatch(reference) else ""
