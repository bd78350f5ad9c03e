"""The Prefer header: how much of a response a caller wants (RFC 7240)."""

from enum import StrEnum

from valetkey.web.exchange import Headers, Pairs


class Preference(StrEnum):
    """The body to send after a change."""

    REPRESENTATION = "return=representation"
    MINIMAL = "return=minimal"


def read_preference(headers: Headers) -> Preference | None:
    """Return the first supported preference, or None. Unknown ones are ignored."""
    for field in headers.all("prefer"):
        for item in field.split(","):
            said = item.partition(";")[0].replace('"', "").replace(" ", "").strip("\t").lower()
            if said in tuple(Preference):
                return Preference(said)
    return None


def applied(preference: Preference | None) -> Pairs:
    """Return the header that names the preference applied."""
    return () if preference is None else (("preference-applied", preference.value),)
