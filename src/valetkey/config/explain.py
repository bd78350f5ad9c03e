"""Explaining: each setting with its value, where that comes from, its default and its reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from valetkey.config.catalogue import Setting, catalogue, reasons, sections
from valetkey.config.settings import Origin, Settings
from valetkey.kernel.refusal import Mistake


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting as an operator needs it; secrets are masked in `value` and `default`."""

    path: str
    value: object
    origin: Origin
    default: object
    allowed: str
    unit: str
    variable: str
    reason: str


def explain(settings: Settings, named: str = "") -> tuple[Explained, ...]:
    """The setting of that path, or all of that section, or all for "".

    Raises Mistake for a name that is neither, with the nearest one that is.
    """
    found = tuple(_explained(settings, setting) for setting in _chosen(named))
    if found:
        return found
    names = [*sections(), *catalogue()]
    close = get_close_matches(named, names, 1)
    right = f"did you mean {close[0]}?" if close else f"the sections are {', '.join(sections())}"
    raise Mistake(f"unknown setting; {right}", named)


def _chosen(named: str) -> Iterator[Setting]:
    for setting in catalogue().values():
        if named in {"", setting.section, setting.path, setting.variable}:
            yield setting


def _explained(settings: Settings, setting: Setting) -> Explained:
    return Explained(
        path=setting.path,
        value=setting.shown(setting.value(settings)),
        origin=settings.source.origin(setting.path),
        default=setting.shown(setting.default),
        allowed=setting.rule.expected,
        unit=setting.rule.unit,
        variable=setting.variable,
        reason=reasons()[setting.path],
    )
