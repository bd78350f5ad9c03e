"""Numbers and days as the languages write them."""

from collections.abc import Callable
from datetime import date

from valetkey.authorization.pages.looks.language import Language
from valetkey.kernel.words import translatable

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
"""The months in short."""

_DAY = translatable("%(day)s %(month)s %(year)s")


def number(value: int, language: Language) -> str:
    """A whole number with its thousands apart: 1,234 or 1.234."""
    return f"{value:,}".replace(",", language.thousands)


def day(iso: str, gettext: Callable[[str], str]) -> str:
    """A day that is written 2026-11-21 as people of the language write it: 21 Nov 2026."""
    when = date.fromisoformat(iso)
    said = {"day": when.day, "month": gettext(MONTHS[when.month - 1]), "year": when.year}
    return gettext(_DAY) % said
