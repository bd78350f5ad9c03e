"""The fault of each field of the form, as a sentence for the developer."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from valetkey.authorization.model.register.fields import Editor
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.authorization.protocol.register.faults import SENTENCES, MetadataError, Values

_PLACES = MappingProxyType({"grant_types": "profile", "default_scopes": "scopes"})
_KNOWN = frozenset(each.name for each in fields_of(Editor.DEVELOPER))


class Sentence(Struct, frozen=True):
    """A sentence, marked for translation, and the values that fill it; without any, it is whole."""

    text: str
    values: Values = field(default_factory=dict[str, str])


def sentence(fault: MetadataError) -> Sentence:
    """Return the sentence of a fault; its text for programs if its code has none."""
    if fault.code in SENTENCES:
        return Sentence(SENTENCES[fault.code], fault.values)
    return Sentence(fault.detail)


def by_field(faults: Iterable[MetadataError]) -> Mapping[str, Sentence]:
    """Return the first sentence of each field; what belongs to no field is under `form`.

    That is left out while a field is invalid: it may follow from the field, as a preset's sign-out
    address follows from the redirect URI.
    A redirect URI is `redirect_uris/0`, counted among those that were typed.
    """
    found: dict[str, Sentence] = {}
    for each in faults:
        start, slash, number = each.field.partition("/")
        start = _PLACES.get(start, start)
        if start not in _KNOWN:
            start = "form"
        place = f"{start}/{number}" if start == "redirect_uris" and slash else start
        found.setdefault(place, sentence(each))
    if len(found) > 1:
        found.pop("form", None)
    return found
