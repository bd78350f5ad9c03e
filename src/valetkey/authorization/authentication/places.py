"""The approximate place of an IP address: its city and country, from a MaxMind DB file."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Protocol, cast

from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import ISSUER

_REMEMBERED = 1_024
_LONGEST = 80  # characters of a name
_KINDS = ("City", "Country", "Enterprise")
_DAMAGED = (RuntimeError, TypeError, ValueError)  # of which maxminddb's own error is the first

Names = Mapping[str, str]
"""The names of a city or a country by language."""


class GeoDatabase(Protocol):
    """An open file, as `maxminddb` reads it. Any thread may use it."""

    def get(self, address: str, /) -> object:
        """Return the record of an IP address, None for none."""
        ...

    def close(self) -> None:
        """Close the file; it must not be used after that."""
        ...


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

    def place_of(self, address: str, language: str) -> str:
        """Return "City, Country" in this language (BCP 47), else in English; "" if unknown."""
        if self._opened is None or not address:
            return ""
        parts = (_name(names, language) for names in self._names(address))
        return ", ".join(filter(None, parts))

    def _look_up(self, address: str) -> tuple[Names, ...]:
        if self._opened is None:
            return ()
        try:
            record = self._opened.get(address)
        except (*_DAMAGED, OSError):
            # The file was damaged since it was opened: a page without a place is still a page.
            return ()
        if not isinstance(record, dict):
            return ()
        parts = cast("Mapping[str, object]", record)
        return tuple(_names(parts.get(part)) for part in ("city", "country"))


class _PlacesOfIssuers:
    """The places of each issuer in this process, each from the file in its own settings."""

    __slots__ = ("_by_issuer",)

    def __init__(self) -> None:
        self._by_issuer: dict[str, Places] = {}

    def use(self, path: Path | None) -> None:
        """Do what `Places.use` does, for the issuer at work."""
        self._by_issuer.setdefault(ISSUER.get(), Places()).use(path)

    def place_of(self, address: str, language: str) -> str:
        """Return what `Places.place_of` does, for the issuer at work."""
        places = self._by_issuer.get(ISSUER.get())
        return "" if places is None else places.place_of(address, language)


PLACES = _PlacesOfIssuers()
"""The places that pages and emails show."""


def open_geo_database(path: Path) -> GeoDatabase:
    """Open a database of cities or countries. Raises OperatorError if it is none.

    Read by `pread`, not mapped into memory: a file that is overwritten in place gives wrong places,
    or none, but cannot end the process. A record of more than 65,536 values or 2 MiB is refused.
    """
    from maxminddb import MODE_FILE, Reader  # noqa: PLC0415 - most servers have no such file

    why = "it is not a MaxMind DB file, or it is damaged"
    try:
        # An empty file would be told as an invalid argument.
        database = Reader(str(path), MODE_FILE) if path.stat().st_size else None
    except OSError as error:
        database, why = None, error.strerror or type(error).__name__
    except _DAMAGED:
        database = None
    if database is not None:
        kind = str(database.metadata().database_type)
        if any(name in kind for name in _KINDS):
            return database
        database.close()
        why = f"it is a database of another kind: {kind[:_LONGEST]!r}"
    raise OperatorError(f"{path} cannot be used: {why}", "privacy.geo_database")


def _names(part: object) -> Names:
    names = cast("Mapping[str, object]", part).get("names") if isinstance(part, dict) else None
    if not isinstance(names, dict):
        return {}
    texts = cast("Mapping[str, object]", names)
    return {tag: text[:_LONGEST] for tag, text in texts.items() if isinstance(text, str)}


def _name(names: Names, language: str) -> str:
    return names.get(language) or names.get("en", "")
