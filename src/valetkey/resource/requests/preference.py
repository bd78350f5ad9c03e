"""Preference: how much of an answer a caller wants (RFC 7240)."""

from enum import StrEnum

from valetkey.web.exchange import Headers, Pairs


class Preference(StrEnum):
    """What a change is answered with."""

    REPRESENTATION = "return=representation"
    MINIMAL = "return=minimal"


def read_preference(headers: Headers) -> Preference | None:
    """The first preference about the answer; None if there is none. Unknown ones are ignored."""
    for field in headers.all("prefer"):
        for item in field.split(","):
            said = item.partition(";")[0].replace('"', "").replace(" ", "").strip("\t").lower()
            if said in tuple(Preference):
                return Preference(said)
    return None


def applied(preference: Preference | None) -> Pairs:
    """The header that says which preference was honoured."""
    return () if preference is None else (("preference-applied", preference.value),)
