"""English that is left on a page in another language."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html.parser import HTMLParser

from docs.translations import read

VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "path", "wbr"})
"""Elements that are never closed; pages write `path` so."""

# Within a sentence; any other element begins another text.
_INLINE = frozenset({"a", "abbr", "b", "em", "i", "small", "span", "strong", "time", "wbr"})
# What users and operators call things stands in `<bdi>`, names of the protocols in `<code>`.
_NAMES = frozenset({"bdi", "code", "pre", "script", "style"})
_SAYING = ("alt", "aria-label", "aria-valuetext", "label", "placeholder", "title")
_MARKUP = re.compile(r"</?\w+[^>]*>")
_NO_WORDS = re.compile(r"%\(\w+\)s|`[^`]*`")
# Not a part of a name such as `consent.given` or `notes:read`.
_WORD = re.compile(r"(?<![\w.:/\"'{-])[^\W\d_]{2,}(?![\w:/\"}]|\.\w)")
_TELLING = 2
"""A text with so many words that only English texts of the catalogue have is English."""


class _Texts(HTMLParser):
    """The texts of a page that are in its own language, names left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.language = ""
        self.found: list[str] = []
        self._text = ""
        self._silent: list[bool] = []
        self.feed(page)
        self.close()
        self._end()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag not in _INLINE and tag not in _NAMES:
            self._end()
        self.language = self.language or attributes.get("lang", "")
        other = attributes.get("lang", self.language) != self.language
        silent = (
            any(self._silent[-1:]) or tag in _NAMES or other or attributes.get("translate") == "no"
        )
        if not silent:
            self.found += [_plain(attributes[name]) for name in _SAYING if name in attributes]
        if tag not in VOID:
            self._silent.append(silent)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE and tag not in _NAMES:
            self._end()
        if tag not in VOID:
            self._silent.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._silent[-1:]):
            self._text += data

    def _end(self) -> None:
        self.found.append(_plain(self._text))
        self._text = ""


def english_on(page: str, tag: str) -> Iterator[str]:
    """Yield each English text of a page; nothing of a page that is not in the language `tag`."""
    texts = _Texts(page)
    messages, words = _known(tag)
    for text in texts.found if texts.language == tag else ():
        telling = {word for word in _WORD.findall(text.lower()) if word in words}
        if text and (text in messages or len(telling) >= _TELLING):
            yield text


@cache
def _known(tag: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the English messages and words that no translation is or has."""
    texts = dict[str, None]()
    translations = dict[str, None]()
    for message in filter(lambda entry: entry.id, read(tag)):
        ids, strings = message.id, message.string
        texts |= dict.fromkeys(map(_plain, (ids,) if isinstance(ids, str) else ids))
        forms = (strings,) if isinstance(strings, str) else strings or ()
        translations |= dict.fromkeys(map(_plain, forms))
    return frozenset(texts.keys() - translations), frozenset(
        _words(texts).keys() - _words(translations).keys()
    )


def _words(texts: Mapping[str, None]) -> Mapping[str, None]:
    return {
        word: None for text in texts for word in _WORD.findall(_NO_WORDS.sub(" ", text).lower())
    }


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).split())
