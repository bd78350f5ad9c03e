"""The languages that the pages speak, and the words of each."""

from dataclasses import dataclass
from functools import cache
from gettext import NullTranslations


@dataclass(frozen=True, slots=True)
class Language:
    """One language: its tag (BCP 47), what it calls itself, and which way it is written."""

    tag: str
    name: str
    direction: str = "ltr"


ENGLISH = Language("en", "English")
LANGUAGES: tuple[Language, ...] = (ENGLISH,)


@cache
def translations(language: Language) -> NullTranslations:
    """The words of this language; a sentence without a translation stays English."""
    return NullTranslations()
