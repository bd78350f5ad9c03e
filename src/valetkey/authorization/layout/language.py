"""The languages of the pages: translations, formats of numbers and dates, negotiation."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from gettext import NullTranslations, c2py
from importlib import resources

import msgspec
from msgspec import Struct

from valetkey.kernel.text import translatable


class Language(Struct, frozen=True):
    """One language: its tag (BCP 47), its own name, and its direction."""

    tag: str
    name: str
    direction: str = "ltr"
    #: The thousands separator.
    thousands: str = ","
    #: The decimal separator.
    decimal: str = ","


ENGLISH = Language("en", "English", decimal=".")
GERMAN = Language("de", "Deutsch", thousands=".")
LANGUAGES: tuple[Language, ...] = (
    ENGLISH,
    GERMAN,
    Language("es", "Español", thousands="\u202f"),
    Language("fr", "Français", thousands="\u202f"),
)
"""The supported languages. Another one is a line here and its `.po` file."""

_MOST = 32
"""Maximum number of ranges that are examined; browsers send about five."""

_LONGEST = 1_000
_RANGE = re.compile(
    r"(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,7})"
    r"(?:[ \t]*;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?"
)


_LITERAL = re.compile(r'^(?:(msg[a-z_]+(?:\[\d\])?) )?(".*")$', re.MULTILINE)
_PLURAL = re.compile(r"plural=([^;\n]+)")


class _Catalog(NullTranslations):
    """The translations of a `.po` file in UTF-8; a text without one stays as it is.

    Comments are skipped; contexts (`msgctxt`) and fuzzy entries are not supported.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self._texts: Mapping[str, Sequence[str]] = {
            entry["msgid"]: tuple(entry[field] for field in sorted(entry) if "msgstr" in field)
            for entry in map(_entry, source.split("\n\n"))
            if "msgid" in entry
        }
        head = self._texts.get("", ("",))[0]
        rule = _PLURAL.search(head)
        self._form = c2py(rule[1] if rule else "n != 1")

    def gettext(self, message: str) -> str:
        """Return the translation of a text; "" for an empty text, which gettext reserves."""
        if not message:
            return ""
        return self._texts.get(message, ("",))[0] or super().gettext(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the translation in the plural form for `n`."""
        forms = self._texts.get(msgid1, ())
        form = self._form(n)
        translation = forms[form] if form < len(forms) else ""
        return translation or super().ngettext(msgid1, msgid2, n)


def _entry(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for keyword, literal in _LITERAL.findall(block):
        name = keyword or name
        # The escapes that catalogues use are those of JSON.
        fields[name] = fields.get(name, "") + msgspec.json.decode(literal, type=str)
    return fields


@cache
def translations(language: Language) -> NullTranslations:
    """Return the translations of a language; a text without one stays English."""
    folder = resources.files("valetkey.authorization.layout") / "translations"
    catalog = folder / f"{language.tag}.po"
    if not catalog.is_file():
        return NullTranslations()
    return _Catalog(catalog.read_text(encoding="utf-8"))


def accepted(header: str | None) -> tuple[str, ...]:
    """Return the values of an Accept-Language or Accept-Encoding field, by preference.

    Malformed ones and those with a quality of 0 are ignored, as is a field of more than 1,000
    characters (RFC 9110 section 12.4.2).
    """
    if header is None or len(header) > _LONGEST:
        return ()
    weighted: list[tuple[float, str]] = []
    for part in header.split(",", _MOST)[:_MOST]:
        match = _RANGE.fullmatch(part.strip(" \t"))
        if match is not None and (quality := float(match[2] or "1")) > 0:
            weighted.append((quality, match[1]))
    return tuple(tag for _, tag in sorted(weighted, key=lambda one: -one[0]))


def listed(ui_locales: str | None) -> tuple[str, ...]:
    """Return the tags of a `ui_locales` parameter, in order (OpenID Connect Core 3.1.2.1)."""
    if ui_locales is None or len(ui_locales) > _LONGEST:
        return ()
    return tuple(ui_locales.split(" ", _MOST)[:_MOST])


def chosen(ranges: Iterable[str], languages: Sequence[Language] = LANGUAGES) -> Language | None:
    """Return the first supported language that a range matches (RFC 4647 section 3.4).

    `de-AT` finds `de`. None where there is no such language; `*` finds none.
    """
    by_tag = {language.tag.lower(): language for language in languages}
    for text in ranges:
        tag = text.lower()
        while tag:
            if tag in by_tag:
                return by_tag[tag]
            tag = tag.rpartition("-")[0]
    return None


MONTHS = (
    translatable("Jan"),
    translatable("Feb"),
    translatable("Mar"),
    translatable("Apr"),
    translatable("May"),
    translatable("Jun"),
    translatable("Jul"),
    translatable("Aug"),
    translatable("Sep"),
    translatable("Oct"),
    translatable("Nov"),
    translatable("Dec"),
)
"""The abbreviated names of the months."""

_DAY = translatable("%(day)s %(month)s %(year)s")


def number(value: float, language: Language) -> str:
    """Return a number with the separators of the language: 1,234.5 or 1.234,5."""
    whole, point, rest = f"{value:,}".partition(".")
    return whole.replace(",", language.thousands) + (language.decimal if point else "") + rest


def day(iso: str, gettext: Callable[[str], str]) -> str:
    """Return the date 2026-11-21 in the format of the language: 21 Nov 2026."""
    when = date.fromisoformat(iso)
    values = {"day": when.day, "month": gettext(MONTHS[when.month - 1]), "year": when.year}
    return gettext(_DAY) % values


def moment(exact: str, gettext: Callable[[str], str]) -> str:
    """Return 2026-11-21 17:40:33 CET in the format of the language: 21 Nov 2026, 17:40:33 CET."""
    date_part, _, time_part = exact.partition(" ")
    return f"{day(date_part, gettext)}, {time_part}"
