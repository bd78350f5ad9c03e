"""The approximate place of an IP address: its city and country, from a database of the operator."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from valetkey.authorization.authentication.geo_database import GeoDatabase, InvalidGeoDatabase
from valetkey.kernel.refusal import OperatorError

_REMEMBERED = 1_024
_LONGEST = 80  # characters of a name

Names = Mapping[str, str]
"""The names of a city or a country by language."""


class Places:
    """Places from one file; without a file every place is unknown."""

    __slots__ = ("_names", "_opened")

    def __init__(self) -> None:
        """Know no place."""
        self._opened: GeoDatabase | None = None
        self._names = lru_cache(_REMEMBERED)(self._look_up)

    def use(self, path: Path | None) -> None:
        """Take places from this file, None for no places. Raises OperatorError if it is unusable.

        After an error the places are those from before.
        """
        opened = None if path is None else open_geo_database(path)
        before, self._opened = self._opened, opened
        self._names.cache_clear()
        if before is not None:
            before.close()

    def of(self, address: str, language: str) -> str:
        """Return "City, Country" in this language (BCP 47), else in English; "" if unknown."""
        if self._opened is None or not address:
            return ""
        found = (_name(names, language) for names in self._names(address))
        return ", ".join(filter(None, found))

    def _look_up(self, address: str) -> tuple[Names, ...]:
        if self._opened is None:
            return ()
        try:
            record = self._opened.find(address)
        except (ValueError, OSError):
            # The file was damaged since it was opened: a page without a place is still a page.
            return ()
        return tuple(_names(record.get(part)) for part in ("city", "country"))


PLACES = Places()
"""The places that pages and emails of this process show."""


def open_geo_database(path: Path) -> GeoDatabase:
    """Open a database of cities or countries. Raises OperatorError if it is none."""
    try:
        database = GeoDatabase(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except InvalidGeoDatabase as error:
        why = str(error)
    else:
        if "City" in database.kind or "Country" in database.kind or "Enterprise" in database.kind:
            return database
        database.close()
        why = f"it is a database of another kind: {database.kind[:_LONGEST]!r}"
    raise OperatorError(f"{path} cannot be used: {why}", "privacy.geo_database")


def _names(part: object) -> Names:
    names = cast("Mapping[str, object]", part).get("names") if isinstance(part, dict) else None
    if not isinstance(names, dict):
        return {}
    found = cast("Mapping[str, object]", names)
    return {tag: text[:_LONGEST] for tag, text in found.items() if isinstance(text, str)}


def _name(names: Names, language: str) -> str:
    return names.get(language) or names.get("en", "")
