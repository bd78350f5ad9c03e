"""Check a theme when the server starts: render every page that it changes, full and empty.

A broken template is reported with its file and line then, and not to the first visitor of the page.
"""

import traceback
from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from jinja2 import TemplateNotFound, TemplateSyntaxError
from jinja2.meta import find_referenced_templates
from msgspec import Struct
from msgspec.structs import fields

from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import (
    TREES,
    PageContext,
    environment_of,
    loader_of,
    render,
)
from valetkey.authorization.layout.theme import TEMPLATES, Theme
from valetkey.authorization.layout.viewer import Viewer
from valetkey.kernel.refusal import OperatorError

_TEXT = "2026-01-01"
"""Stands for any text; those that are days must be days."""

_DEEPEST = 6
_ABOVE = "valetkey.authorization"


def check_theme(brand: Brand) -> None:
    """Render every page that the theme changes. Raises OperatorError with the file and the line."""
    theme = brand.theme
    if theme is None or not theme.templates:
        return
    for name in theme.templates:
        if name.endswith(".html"):
            _parse(theme, name)
    touched = set(theme.templates)
    parsed: dict[str, Sequence[str]] = {}
    for kind in page_kinds():
        if not _uses(brand, kind.template, parsed) & touched:
            continue
        for full in (False, True):
            page = example(kind, full=full)
            if _fits_ours(page, brand):
                _try(page, brand, theme)


@cache
def page_kinds() -> tuple[type[PageContext], ...]:
    """Import every module of pages, and return the context types that they declare."""
    kinds: dict[str, type[PageContext]] = {}
    for tree in TREES.values():
        package = import_module(f"{_ABOVE}.{tree}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            for member in vars(import_module(module.name)).values():
                if (
                    isinstance(member, type)
                    and issubclass(member, Struct)
                    and hasattr(member, "template")
                ):
                    kinds[f"{member.__module__}.{member.__qualname__}"] = cast(
                        "type[PageContext]", member
                    )
    return tuple(kinds.values())


def example(kind: type[PageContext], *, full: bool) -> PageContext:
    """Return an example of this page: with every field set, or with every optional one empty."""
    made = _made(kind, full=full, depth=0)
    assert isinstance(made, kind)  # noqa: S101  # it was made by its own class
    return made


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _made(kind: Any, *, full: bool, depth: int) -> Any:
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for field in fields(kind):
        if field.required or (full and depth <= _DEEPEST):
            values[field.name] = _value(hints[field.name], full=full, depth=depth + 1)
    return kind(**values)


_SIMPLE: Mapping[object, tuple[object, object]] = {
    str: (_TEXT, _TEXT),
    bytes: (b"", b""),
    bool: (False, True),
    int: (0, 90_000),
    float: (0.0, 1.5),
    NoneType: (None, None),
    object: ("", _TEXT),
    Any: ("", _TEXT),
}


def _value(hint: Any, *, full: bool, depth: int) -> object:
    hint = getattr(hint, "__supertype__", hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint][full]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _one_of(inner, full=full, depth=depth)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return tuple(_value(argument, full=full, depth=depth) for argument in inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (_value(argument, full=full, depth=depth) for argument in inner)
        return {key: value} if full else {}
    if isinstance(origin, type) and issubclass(origin, (tuple, Sequence, AbstractSet)):
        some = (_value(inner[0], full=True, depth=depth),) if full and depth <= _DEEPEST else ()
        return frozenset(some) if issubclass(origin, AbstractSet) else some
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1 if full else 0]
    if _is_struct(hint):
        return _made(hint, full=full, depth=depth)
    return None


def _one_of(inner: Sequence[Any], *, full: bool, depth: int) -> object:
    if not full and NoneType in inner:
        return None
    return _value(
        next(member for member in inner if member is not NoneType), full=full, depth=depth
    )


def _fits_ours(page: PageContext, brand: Brand) -> bool:
    """Return whether the built-in template can render it: generated examples may be impossible."""
    plain = Brand(brand.name, brand.logo_url, brand.accent, brand.terms_url, brand.privacy_url)
    try:
        render(page, brand=plain, viewer=_viewer(plain))
    except Exception:  # noqa: BLE001  # any error means that the page cannot be shown
        return False
    return True


def _try(page: PageContext, brand: Brand, theme: Theme) -> None:
    try:
        render(page, brand=brand, viewer=_viewer(brand))
    except TemplateSyntaxError as error:
        raise _broken(error.filename, error.lineno, error.message) from error
    except Exception as error:
        file, line = _place(error, theme) or (page.template, 0)
        raise _broken(file, line, str(error) or type(error).__name__) from error


def _parse(theme: Theme, name: str) -> None:
    file = theme.directory / TEMPLATES / name
    try:
        environment_of(Viewer().language, theme).parse(file.read_text("utf-8"), name, str(file))
    except TemplateSyntaxError as error:
        raise _broken(str(file), error.lineno, error.message) from error


def _uses(
    brand: Brand, template: str, parsed: MutableMapping[str, Sequence[str]]
) -> AbstractSet[str]:
    """Return the templates that render this one; `parsed` has what each refers to itself."""
    templates: set[str] = set()
    waiting = [template]
    while waiting:
        name = waiting.pop()
        if name not in templates:
            templates.add(name)
            if name not in parsed:
                parsed[name] = _references(brand, name)
            waiting.extend(parsed[name])
    return templates


def _references(brand: Brand, template: str) -> Sequence[str]:
    environment = environment_of(Viewer().language, brand.theme)
    try:
        source, _, _ = loader_of(brand.theme).get_source(environment, template)
    except TemplateNotFound:
        return ()  # which is reported where it is rendered
    used = find_referenced_templates(environment.parse(source))
    return [name for name in used if name is not None]


def _viewer(brand: Brand) -> Viewer:
    return Viewer(languages=brand.languages, here="/", develops=True, administers=True)


def _place(error: Exception, theme: Theme) -> tuple[str, int] | None:
    top = str(theme.directory / TEMPLATES)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(top)]
    return (ours[-1].filename, ours[-1].lineno or 0) if ours else None


def _broken(file: str | None, line: int, what: str | None) -> OperatorError:
    return OperatorError(f"{file}, line {line}: {what}", "brand.theme")
