"""The catalogue of settings, when a change takes effect, and values that administrators stored.

The order is: default, stored value, configuration file, environment; the last one wins. A stored
value that cannot be used is ignored, never an obstacle to a start.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from valetkey.config.agreement import Problem, disagreements
from valetkey.config.features import feature_sections
from valetkey.config.rules import InvalidValue, Rule, SettingsGroup
from valetkey.config.sections.people import BrandField
from valetkey.config.settings import Origin, Settings
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its path, rule and default, and its label and group in the console."""

    section: str
    name: str
    rule: Rule
    default: object
    label: str
    group: SettingsGroup

    @property
    def path(self) -> str:
        """Return its name in messages: `tokens.access_token_lifetime`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"VALETKEY__{self.section}__{self.name}".upper()

    def value(self, settings: Settings) -> object:
        """Return its value in these settings."""
        return getattr(section_of(settings, self.section), self.name)

    def shown(self, value: object) -> object:
        """Return `value` as an operator would write it: text, number, flag, list; masks secrets."""
        return self.rule.show(value)


@cache
def sections() -> Mapping[str, type]:
    """Return the sections by name, in the order of the reference: those of features are last."""
    hints = get_type_hints(Settings)
    names = [field.name for field in fields(Settings) if field.name not in {"features", "source"}]
    return {**{name: hints[name] for name in names}, **feature_sections()}


def section_of(settings: Settings, name: str) -> Any:
    """Return the section with this name. Any: its type is known by name only."""
    kind: type[Any] | None = feature_sections().get(name)
    return getattr(settings, name) if kind is None else settings.section(kind)


def with_values(settings: Settings, values: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Return the settings with these values, by section and name, which their rules have read."""
    changed: dict[str, Any] = {
        name: replace(section_of(settings, name), **section_values)
        for name, section_values in values.items()
    }
    kinds = feature_sections()
    every = [changed.pop(name, section_of(settings, name)) for name in kinds]
    # Without those at their defaults, equal settings compare as equal.
    features = tuple(section for section in every if section != type(section)())
    return replace(settings, **changed, features=features)


@cache
def catalogue() -> Mapping[str, Setting]:
    """Return every setting by its path, in the order of the reference."""
    return {setting.path: setting for setting in _settings()}


@cache
def reasons() -> Mapping[str, str]:
    """Return the text below each setting by its path, as one line."""
    return {
        f"{section}.{name}": text
        for section, kind in sections().items()
        for name, text in texts_below(kind)
    }


def texts_below(kind: type) -> Iterator[tuple[str, str]]:
    """Return the fields of a class with the text below each, as one line.

    Read from the source of the class, because Python keeps no docstrings of fields.
    """
    source = Path(str(sys.modules[kind.__module__].__file__)).read_text(encoding="utf-8")
    body = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ).body
    for field, below in pairwise(body):
        text = _text(below)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and text:
            yield field.target.id, text


def _settings() -> Iterator[Setting]:
    for section, kind in sections().items():
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            notes = hints[field.name].__metadata__
            label = next((note for note in notes if type(note) is str), _label(field.name))
            group = next(
                (note for note in notes if isinstance(note, SettingsGroup)), group_of(kind)
            )
            yield Setting(section, field.name, _rule(notes), _default(field), label, group)


def group_of(kind: type) -> SettingsGroup:
    """Return the group of a section that does not name one for each setting."""
    group = getattr(kind, "GROUP", SettingsGroup.NETWORK)
    return SettingsGroup(group)


def _label(name: str) -> str:
    """Return the words of a name: the label of a setting that declares none."""
    return name.replace("_", " ").capitalize()


def _rule(notes: Sequence[object]) -> Rule:
    for note in notes:
        if isinstance(note, Rule):
            return note
    message = "a setting has a rule"
    raise TypeError(message)


def _default(field: Field[object]) -> object:
    if field.default is MISSING:
        message = f"{field.name} has no default"
        raise TypeError(message)
    return field.default


def _text(node: ast.stmt) -> str:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    value = node.value.value
    return " ".join(cleandoc(value).split()) if isinstance(value, str) else ""


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
    """Return the setting of that path, all of that section, or all for "".

    Raises OperatorError for a name that is neither, with the nearest one that is.
    """
    explanations = tuple(_explained(settings, setting) for setting in _chosen(named))
    if explanations:
        return explanations
    names = [*sections(), *catalogue()]
    close = get_close_matches(named, names, 1)
    right = f"did you mean {close[0]}?" if close else f"the sections are {', '.join(sections())}"
    raise OperatorError(f"unknown setting; {right}", named)


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


PINNED = ("url", "listen", "workers")
"""Of each server: the supervisor holds the sockets and passes them to the workers."""

SHARED = ("database", "keyring", "keyring_text", "credential", "credential_text")
"""Of each server: workers with different databases or keys would contradict each other."""

METRICS_LISTEN = "metrics.listen"
"""The supervisor holds this socket, too."""

CHANGEABLE = (
    "tokens",
    "clients",
    "registration",
    "accounts",
    "sessions",
    "administration",
    "factors",
    "privacy",
)
"""Sections that only the authorization server reads: administrators change them at runtime.

So are those of features, without what is in the `FILE_ONLY` of the section.
"""

FILE_ONLY = frozenset(
    {
        "tokens.claims_file",
        "tokens.signing_algorithms",
        "tokens.identity_assertions",
        "privacy.geo_database",
    }
)
"""Of these sections: paths, keys, and trust in other servers' assertions."""

_SERVERS = ("authorization", "resource")


def is_changeable(path: str) -> bool:
    """Return whether administrators can change the setting with this path while servers run."""
    section, _, name = path.partition(".")
    if kind := feature_sections().get(section):
        return name not in getattr(kind, "FILE_ONLY", ())
    return section in CHANGEABLE and path not in FILE_ONLY


class Effect(StrEnum):
    """The way in which a change of a setting takes effect."""

    CONSOLE = "console"  # changed in the console, effective within seconds
    RELOAD = "reload"  # `valetkey reload`
    RESTART = "restart"


def effect_of(path: str) -> Effect:
    """Return how a change of the setting with this path takes effect."""
    section, _, name = path.partition(".")
    if (section == "brand" and name in {*BrandField}) or is_changeable(path):
        return Effect.CONSOLE
    if path == METRICS_LISTEN or (section in _SERVERS and name in {*PINNED, *SHARED}):
        return Effect.RESTART
    return Effect.RELOAD


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
    old_problems = set(disagreements(before))
    for problem in disagreements(after):
        if problem not in old_problems:
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
        return ",".join(str(item) for item in shown)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
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
