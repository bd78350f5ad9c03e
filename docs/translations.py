"""Update the translation catalogues from templates and code: `make translations`.

A text keeps its translation as long as its English does not change. A new text is shown in English
until it is translated in the `.po` file.
"""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract, extract_from_dir
from babel.messages.pofile import read_po, write_po

from valetkey.authorization.actions.presets import PRESETS
from valetkey.authorization.layout.language import ENGLISH, LANGUAGES
from valetkey.authorization.layout.render import TREES
from valetkey.authorization.portal.pages.requests import ADVICE, FAMILIES
from valetkey.authorization.portal.rules.quickstart import STACKS
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.site.consent import CLAIM_WORDS
from valetkey.authorization.site.errors.refuse import TEXTS
from valetkey.authorization.site.page import MISSING
from valetkey.config.catalogue import catalogue, reasons
from valetkey.config.features import NAMES
from valetkey.kernel.refusal import ErrorCode
from valetkey.resource.scopes import SCOPES

SOURCE = Path(__file__).parent.parent / "src/valetkey"
FOLDER = SOURCE / "authorization/layout/translations"

_TEMPLATES = [("**.html", "jinja2.ext:babel_extract"), ("**.txt", "jinja2.ext:babel_extract")]
_AS_PAGES_DO = {
    "extensions": "jinja2.ext.i18n",
    "newstyle_gettext": "true",
    "lstrip_blocks": "true",
    "trimmed": "true",
    "silent": "false",
}
_CODE = [("**.py", "python")]
_MARKS = {"translatable": None}
# Modules whose refusals users read on a page. All others are read by developers.
_REFUSING = (
    "authorization/site",
    "authorization/protocol/csrf.py",
    "web/router.py",
    # Those of features, each a file or a folder.
    *(
        pages.relative_to(SOURCE).as_posix()
        for pages in sorted(SOURCE.glob("authorization/*/pages*"))
        if pages.parent.joinpath("feature.py").exists()
    ),
)
_NEVER = datetime(2026, 1, 1, tzinfo=UTC)

Found = tuple[str | tuple[str, ...], str, list[str]]
"""A message, the file it is in, and comments about it."""


def messages() -> Catalog:
    """Return all English texts of the pages."""
    catalog = _catalog(None)
    for text, file, comments in _found():
        catalog.add(text, None, locations=[(file, 0)], auto_comments=comments)
    return catalog


def _found() -> Iterator[Found]:
    for tree in ("email", *TREES.values()):
        for file, _, text, comments, _ in extract_from_dir(
            SOURCE / "authorization" / tree,
            _TEMPLATES,
            {"**": _AS_PAGES_DO},
            strip_comment_tags=True,
        ):
            yield text, f"authorization/{tree}/{file}", comments
    for file, _, text, comments, _ in extract_from_dir(SOURCE, _CODE, keywords=_MARKS):
        yield text, file, comments
    yield from _refusals()
    yield from _sentences()


def _refusals() -> Iterator[Found]:
    keywords = {"Refusal": (2,), "because": (2,), "_refused": (1,)}
    pages = (f"authorization/{name}/pages" for name in NAMES)
    of_features = (f"{page}{end}" for page in pages for end in ("", ".py"))
    for path in (*_REFUSING, *of_features):
        top = SOURCE / path
        if not top.exists():
            continue
        for file in sorted(top.rglob("*.py")) if top.is_dir() else (top,):
            name = str(file.relative_to(SOURCE))
            with file.open("rb") as source:
                for _, text, comments, _ in extract("python", source, keywords=keywords):
                    if isinstance(text, str) and " " in text:
                        yield text, name, comments
                source.seek(0)
                for _, what, _, _ in extract("python", source, keywords={"not_found": None}):
                    if isinstance(what, str):
                        yield MISSING.format(what), name, []


def _sentences() -> Iterator[Found]:
    """Yield texts that are values in the code."""
    errors = "authorization/site/errors/errors.toml"
    for code in ErrorCode:
        text = TEXTS[code]
        for sentence in (text.meaning, *text.causes, *(r.advice for r in text.remedies)):
            yield sentence, errors, []
        yield text.example.caption, errors, []
    for advice in (*ADVICE.values(), *FAMILIES.values()):
        yield advice.looked_at, "authorization/portal/pages/requests.py", []
        yield advice.fix, "authorization/portal/pages/requests.py", []
    for setting in catalogue().values():
        yield reasons()[setting.path], "config/sections", [setting.path]
        yield setting.label, "config/sections", [f"Label of {setting.path}"]
        if setting.rule.unit and setting.rule.unit != "time":
            yield setting.rule.unit, "config/sections", [f"After a number: {setting.path}"]
    for label in (
        *(preset.label for preset in PRESETS.values()),
        *(stack.title for stack in STACKS.values()),
    ):
        yield label, "authorization/actions/presets.toml", []
    for word in CLAIM_WORDS.values():
        yield word, "authorization/site/consent.py", ["This app wants to …"]
    for sentence in (*IDENTITY_SCOPES.values(), *SCOPES.values()):
        if sentence:
            yield sentence, "resource/scopes.py", ["This app wants to …"]


def updated(tag: str, english: Catalog) -> Catalog:
    """Return the catalogue of a language, updated to the current messages."""
    catalog = _catalog(tag)
    before = read(tag)
    for message in english:
        if not message.id:
            continue
        earlier_message = before.get(message.id if isinstance(message.id, str) else message.id[0])
        text = (
            earlier_message.string
            if earlier_message is not None and earlier_message.id == message.id
            else None
        )
        catalog.add(
            message.id,
            text,
            locations=message.locations,
            auto_comments=message.auto_comments,
            flags=message.flags,
        )
    return catalog


def read(tag: str) -> Catalog:
    """Return the catalogue as stored, or an empty one."""
    file = FOLDER / f"{tag}.po"
    if not file.exists():
        return _catalog(tag)
    with file.open("rb") as source:
        return read_po(source, locale=tag)


def missing(catalog: Catalog) -> Iterator[Message]:
    """Return the messages without a translation."""
    for message in catalog:
        texts = message.string if isinstance(message.string, tuple) else (message.string,)
        if message.id and not all(texts):
            yield message


def source_of(catalog: Catalog) -> bytes:
    """Return the text of a `.po` file: sorted by message, so that moving code changes nothing."""
    file = BytesIO()
    write_po(file, catalog, width=100, sort_output=True, no_location=True)
    return file.getvalue()


def _catalog(tag: str | None) -> Catalog:
    return Catalog(
        locale=tag,
        project="Valetkey",
        version="1",
        header_comment="# The pages of Valetkey. Written again by `make translations`.",
        copyright_holder="The Valetkey authors",
        creation_date=_NEVER,
        revision_date=_NEVER,
        last_translator="The Valetkey authors",
        language_team="The Valetkey authors",
        fuzzy=False,
    )


def main(arguments: Iterable[str]) -> None:
    """Write the file of every language; `--missing` lists texts without a translation."""
    english = messages()
    for language in LANGUAGES:
        if language is ENGLISH:
            continue
        catalog = updated(language.tag, english)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{language.tag}.po").write_bytes(source_of(catalog))
        waiting = list(missing(catalog))
        print(f"{language.name}: {len(catalog)} texts, {len(waiting)} without a translation")  # noqa: T201
        if "--missing" in arguments:
            for message in waiting:
                print(message.id)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
