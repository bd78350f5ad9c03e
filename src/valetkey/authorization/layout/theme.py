"""A theme: a directory with an operator's own stylesheet, logo, templates and translations.

It is read once at start, and is trusted like the configuration: no page can change it. Errors in it
are reported then.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from gettext import GNUTranslations, NullTranslations
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from valetkey.authorization.layout.language import LANGUAGES, Language, translations
from valetkey.kernel.refusal import OperatorError

STYLE, TEMPLATES, TRANSLATIONS = "style.css", "templates", "translations"
ABOUT = "languages.toml"
"""Beside the translations: `it = { name = "Italiano" }`, with `direction = "rtl"` where it is."""

LOGOS = {"logo.svg": "image/svg+xml", "logo.png": "image/png"}
"""The kinds of logo, and what each is sent as."""

LARGEST_STYLE = 20_000
LARGEST_LOGO = 100_000
_PARTS = {STYLE, TEMPLATES, TRANSLATIONS, *LOGOS}

_ESCAPED = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
# A string may hold what looks like the beginning of a comment, and then it is none.
_COMMENT = re.compile(r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|/\*.*?(?:\*/|\Z)", re.DOTALL)
_ELSEWHERE = re.compile(
    r"@import|@charset|image-set\s*\(|\b(?:image|src)\s*\(|expression\s*\(|url\s*\(\s*[\"']?(?!/[^/\\])",
    re.IGNORECASE,
)
_TAG = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
_LAST = 0x10FFFF
_MOST = 1_024
"""Themes in a language that a process keeps: those of all its issuers."""
_PNG = b"\x89PNG\r\n\x1a\n"


class Theme(Struct, frozen=True):
    """The content of a theme's directory; empty without one."""

    directory: Path
    style: str = ""
    logo: bytes = b""
    logo_type: str = ""
    #: Languages that only the theme speaks.
    languages: tuple[Language, ...] = ()
    #: The names of templates that stand in for ours, and of others that these use.
    templates: tuple[str, ...] = ()
    #: A digest of templates and translations: what is cached of a theme ends with a change of them.
    version: str = ""

    @property
    def compiled(self) -> Path:
        """Return the directory of its `.mo` files."""
        return self.directory / TRANSLATIONS


def read_theme(directory: Path) -> Theme:
    """Return the theme in this directory.

    Raises OperatorError, with the file, if it cannot be served.
    """
    if not directory.is_dir():
        raise OperatorError(f"{directory} is not a directory", "brand.theme")
    for entry in sorted(directory.iterdir()):
        if entry.name not in _PARTS and not entry.name.startswith((".", "README")):
            names = ", ".join(sorted(_PARTS))
            raise _wrong(entry, f"a theme has nothing of this name, but {names}")
    logo, logo_type = _logo(directory)
    return Theme(
        directory,
        _style(directory / STYLE),
        logo,
        logo_type,
        tuple(_languages(directory / TRANSLATIONS)),
        tuple(_templates(directory / TEMPLATES)),
        _digest(directory),
    )


def _digest(directory: Path) -> str:
    digest = sha256()
    for folder in (TEMPLATES, TRANSLATIONS):
        for file in sorted((directory / folder).rglob("*")):
            if file.is_file():
                digest.update(f"{file.relative_to(directory)}\0".encode())
                digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _style(file: Path) -> str:
    if not file.exists():
        return ""
    text = _text(file, LARGEST_STYLE)
    # Comments go and escapes are undone first: a browser reads past both.
    plain = _ESCAPED.sub(_unescaped, _COMMENT.sub(r"\1", text))
    for number, line in enumerate(plain.splitlines(), 1):
        if _ELSEWHERE.search(line):
            raise _wrong(
                file,
                f"line {number} loads a file from another server; use url(/…) of this server only",
            )
    if _ELSEWHERE.search(plain):
        raise _wrong(file, "it loads a file from another server; use url(/…) of this server only")
    return text


def _unescaped(match: re.Match[str]) -> str:
    digits: str | None = match[1]
    if digits is None:
        return match[2]
    point = int(digits, 16)
    return chr(point) if 0 < point <= _LAST else "\ufffd"


def _logo(directory: Path) -> tuple[bytes, str]:
    for name, kind in LOGOS.items():
        file = directory / name
        if not file.exists():
            continue
        content = file.read_bytes()
        if len(content) > LARGEST_LOGO:
            raise _wrong(file, f"it has more than {LARGEST_LOGO} bytes")
        fine = content.startswith(_PNG) if kind == "image/png" else b"<svg" in content
        if not fine:
            raise _wrong(file, f"it is no {name.rpartition('.')[2].upper()} image")
        return content, kind
    return b"", ""


def _languages(folder: Path) -> Iterator[Language]:
    ours = {language.tag for language in LANGUAGES}
    about = _about(folder / ABOUT)
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        if file.suffix == ".po" or file.name == ABOUT:
            continue
        if file.suffix != ".mo" or not _TAG.fullmatch(file.stem):
            raise _wrong(file, "write translations as TAG.mo, such as it.mo")
        try:
            with file.open("rb") as source:
                GNUTranslations(source)
        except (OSError, UnicodeDecodeError, ValueError, IndexError, struct.error) as error:
            raise _wrong(file, f"it cannot be read: {error}") from error
        if file.stem not in ours:
            description = about.get(file.stem, {})
            direction = "rtl" if description.get("direction") == "rtl" else "ltr"
            yield Language(file.stem, description.get("name", file.stem), direction)


def _about(file: Path) -> Mapping[str, Mapping[str, str]]:
    if not file.exists():
        return {}
    try:
        return msgspec.toml.decode(file.read_bytes(), type=dict[str, dict[str, str]])
    except msgspec.DecodeError as error:
        raise _wrong(file, f"it cannot be read: {error}") from error


def _templates(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_dir():
            continue
        if file.suffix not in {".html", ".txt"}:
            raise _wrong(file, "a template is a .html file, or the .txt file of an email")
        _text(file, LARGEST_LOGO)
        yield file.relative_to(folder).as_posix()


def _text(file: Path, most: int) -> str:
    content = file.read_bytes()
    if len(content) > most:
        raise _wrong(file, f"it has more than {most} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _wrong(file, "it is not text in UTF-8") from error


def _wrong(file: Path, what: str) -> OperatorError:
    return OperatorError(f"{file}: {what}", "brand.theme")


@lru_cache(maxsize=_MOST)
def words(language: Language, theme: Theme | None) -> NullTranslations:
    """Return the translations for the templates of this language."""
    ours = translations(language)
    file = None if theme is None else theme.compiled / f"{language.tag}.mo"
    if file is None or not file.is_file():
        return ours
    with file.open("rb") as source:
        theirs = GNUTranslations(source)
    theirs.add_fallback(ours)
    return theirs
