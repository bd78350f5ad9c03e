"""Settings that administrators changed while the server ran, beside those of the file.

The order is: default, stored value, configuration file, environment; the last one wins. A stored
value that cannot be used is ignored, never an obstacle to a start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from valetkey.config.agreement import Problem, disagreements
from valetkey.config.catalogue import Setting, catalogue, is_changeable, with_values
from valetkey.config.rules import InvalidValue
from valetkey.config.settings import Origin, Settings
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

Check = Callable[[Settings], None]
"""Raises OperatorError for settings that the server would refuse."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The settings with the stored values, and why each of the others is ignored, by path."""

    settings: Settings
    ignored: Mapping[str, str]


def merge(settings: Settings, stored: Mapping[str, str], check: Check) -> Merged:
    """Return the settings of the file with the stored values that can be used."""
    ignored: dict[str, str] = {}
    usable: dict[str, str] = {}
    for path, text in sorted(stored.items()):
        try:
            value_of(settings, path, text)
            usable[path] = text
        except InvalidValue as reason:
            ignored[path] = str(reason)
    while usable:
        merged = _with(settings, usable)
        wrong = _contradiction(settings, merged, check)
        if wrong is None:
            return Merged(merged, MappingProxyType(ignored))
        named = [path for path in (wrong.path, *wrong.about) if path in usable]
        # A contradiction that names none of them may come from any.
        for path in named or list(usable):
            ignored[path] = f"{wrong.path}: {wrong.wrong}"
            del usable[path]
    return Merged(settings, MappingProxyType(ignored))


def value_of(settings: Settings, path: str, text: str) -> object:
    """Return the value that a stored text means. Raises InvalidValue with why it is not used."""
    setting = catalogue().get(path)
    if setting is None:
        raise InvalidValue("this version does not have the setting")
    if not is_changeable(path):
        raise InvalidValue("it is changed in the configuration file")
    origin = settings.source.origin(path)
    if origin in {Origin.FILE, Origin.ENVIRONMENT}:
        raise InvalidValue(f"it is set in the {origin.word}, which wins")
    return setting.rule.read(setting.rule.from_text(text))


def _contradiction(before: Settings, after: Settings, check: Check) -> Problem | None:
    """Return the first contradiction that was not there before, None if there is none."""
    known = set(disagreements(before))
    for problem in disagreements(after):
        if problem not in known:
            return problem
    try:
        check(after)
    except OperatorError as error:
        return Problem(error.setting, error.message, "")
    return None


def as_text(setting: Setting, value: object) -> str:
    """Return a value as it is stored and written in the environment."""
    shown = setting.shown(value)
    if isinstance(shown, bool):
        return "true" if shown else "false"
    if isinstance(shown, (list, tuple)):
        return ",".join(str(each) for each in shown)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(shown)


def _with(settings: Settings, usable: Mapping[str, str]) -> Settings:
    values: dict[str, dict[str, Any]] = {}
    for path, text in usable.items():
        setting = catalogue()[path]
        value = setting.rule.read(setting.rule.from_text(text))
        values.setdefault(setting.section, {})[setting.name] = value
    origins = {**settings.source.origins, **dict.fromkeys(usable, Origin.STORED)}
    source = replace(settings.source, origins=MappingProxyType(origins))
    return with_values(replace(settings, source=source), values)
