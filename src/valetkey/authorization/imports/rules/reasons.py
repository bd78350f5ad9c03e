"""Reasons why a row or a file of an import is refused: raised, stored and explained."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from valetkey.authorization.protocol.register.reasons import Reason, reason
from valetkey.kernel.refusal import OperatorError

_MOST = 200
"""Maximum length of the explained reasons of a row, in characters."""

_LIST = "["


class FileFault(OperatorError):
    """The file is refused as a whole, for a reason with a code."""

    def __init__(self, code: str, **values: object) -> None:
        """Store the reason; its text is the message."""
        self.reason = reason("", code, **values)
        super().__init__(self.reason.explain())


def stored_reasons(reasons: Iterable[Reason]) -> str:
    """Return the reasons as text to store: the first ones if they are too long together."""
    kept: list[Reason] = []
    for each in reasons:
        if kept and len(_joined([*kept, each])) > _MOST:
            break
        kept.append(each)
    return msgspec.json.encode(kept).decode() if kept else ""


def reasons_of(stored: str) -> Sequence[Reason]:
    """Return the reasons of a row. Version 0.2 stored English sentences instead of codes."""
    if stored.startswith(_LIST):
        return msgspec.json.decode(stored, type=tuple[Reason, ...])
    return tuple(_sentences(stored)) if stored else ()


def explain(stored: str, gettext: Callable[[str], str] = str) -> str:
    """Return the stored reasons as text in the language of `gettext`."""
    return _joined(reasons_of(stored), gettext)


def _sentences(stored: str) -> Iterator[Reason]:
    for part in stored.split("; "):
        field, colon, said = part.partition(": ")
        if not colon or " " in field:
            field, said = "", part
        yield Reason(field, "%(said)s", {"said": said})


def _joined(reasons: Iterable[Reason], gettext: Callable[[str], str] = str) -> str:
    explained = ((each.field, each.explain(gettext)) for each in reasons)
    return "; ".join(f"{field}: {said}" if field else said for field, said in explained)
