"""Load the settings from a TOML file and the environment, and report every problem at once."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from valetkey.config.agreement import Problem, disagreements
from valetkey.config.catalogue import Setting, catalogue, sections, with_values
from valetkey.config.rules import InvalidValue
from valetkey.config.settings import Origin, Settings, SettingsSource
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.text import printable

USUAL_FILE = "valetkey.toml"
"""The file that is read when none is named and the working directory has it."""

_PREFIX = "VALETKEY__"
_HEADER = re.compile(r"\s*\[{1,2}\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")
_PARTS = 3  # VALETKEY, section, name
_MEGABYTES = 1


class OperatorErrors(OperatorError):
    """All errors of a configuration; `problems` has one entry for each."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        """Report all `problems` of `source`, one per line."""
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{source} has {count}:{lines}")
        self.problems = tuple(problems)
        self.setting = problems[0].path


def load(path: Path | None, environment: Mapping[str, str]) -> Settings:
    """Return the settings of the file and the environment, which takes precedence.

    `path` None means no file: every default, and relative paths start at the working directory.
    Raises OperatorErrors with all problems at once, or OperatorError if the file cannot be read as
    TOML. Files that settings name are not looked at.
    """
    reading = _Reading()
    lines: Mapping[str, int] = {}
    if path:
        text = _text(path, _MEGABYTES)
        reading.take_file(_parsed(path, text))
        lines = _lines(text)
    reading.take_environment(environment)
    file = path.absolute() if path else None
    source = SettingsSource(file, file.parent if file else Path.cwd(), lines=lines)
    settings = _assembled(reading, source)
    wrong = {problem.path for problem in reading.problems}
    for problem in disagreements(settings):
        if wrong.isdisjoint((problem.path, *problem.about)):
            reading.problems.append(problem)
    if reading.problems:
        raise OperatorErrors(str(path) if path else "the configuration", reading.problems)
    return settings


def find_file(named: Path | None) -> Path | None:
    """Return the file to read: the named one, otherwise the default one if it exists."""
    if named is not None:
        return named
    usual = Path(USUAL_FILE)
    return usual if usual.is_file() else None


@dataclass(slots=True)
class _Reading:
    values: dict[str, object] = field(default_factory=dict[str, object])
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])
    problems: list[Problem] = field(default_factory=list[Problem])

    def take_file(self, document: Mapping[str, object]) -> None:
        for section, content in document.items():
            if section not in sections():
                self.problems.append(_unknown_section(section))
            elif not isinstance(content, dict):
                self.problems.append(
                    Problem(section, "it is not a section", f"write [{section}] above its settings")
                )
            else:
                for name, value in cast("dict[str, object]", content).items():
                    self._take_key(section, name, value)

    def take_environment(self, environment: Mapping[str, str]) -> None:
        for variable in sorted(environment):
            if not variable.upper().startswith(_PREFIX):
                continue
            setting = _of_variable(variable)
            if setting is None:
                self.problems.append(_unknown_variable(variable))
                continue
            value = setting.rule.from_text(environment[variable])
            self._take(setting, value, Origin.ENVIRONMENT)

    def _take_key(self, section: str, name: str, value: object) -> None:
        setting = catalogue().get(f"{section}.{name}")
        if setting is None:
            self.problems.append(_unknown_key(section, name))
        elif setting.rule.only_by_environment:
            self.problems.append(
                Problem(
                    setting.path,
                    "a secret does not belong in this file",
                    f"give it as {setting.variable}, or name the file that holds it with "
                    f"{setting.path.removesuffix('_text')}",
                )
            )
        else:
            self._take(setting, value, Origin.FILE)

    def _take(self, setting: Setting, value: object, origin: Origin) -> None:
        path = setting.path
        # A later source replaces an earlier one, also where the earlier value was wrong.
        self.problems = [problem for problem in self.problems if problem.path != path]
        try:
            self.values[path] = setting.rule.read(value)
            self.origins[path] = origin
        except InvalidValue as reason:
            origin_shown = f" ({setting.variable})" if origin is Origin.ENVIRONMENT else ""
            self.problems.append(
                Problem(path, f"{reason}{origin_shown}", f"write {setting.rule.expected}")
            )


def read_toml(path: Path, megabytes: int) -> Mapping[str, object]:
    """Return the content of a TOML file.

    Raises OperatorError for one that is larger or unreadable.
    """
    return _parsed(path, _text(path, megabytes))


def _text(path: Path, megabytes: int) -> str:
    largest = megabytes << 20
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as reason:
        why = (reason.strerror or "no reason given").lower()
        raise OperatorError(f"{path} cannot be read: {why}") from None
    if len(data) > largest:
        raise OperatorError(f"{path} is larger than {megabytes} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OperatorError(f"{path} is not UTF-8 text") from None


def _parsed(path: Path, text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise OperatorError(f"{path} is not TOML: {reason}") from None
    except RecursionError:
        raise OperatorError(f"{path} is nested too deeply") from None


def _lines(text: str) -> Mapping[str, int]:
    """Return the line of each setting, for operators; one in an inline table has none."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            section = header[1]
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{section}.{key[1]}".lstrip("."), number)
    return MappingProxyType({path: lines[path] for path in lines if path in catalogue()})


def _assembled(reading: _Reading, source: SettingsSource) -> Settings:
    values: dict[str, dict[str, Any]] = {}
    for path, value in reading.values.items():
        section, _, name = path.partition(".")
        values.setdefault(section, {})[name] = value
    origins = MappingProxyType(reading.origins)
    return with_values(Settings(source=replace(source, origins=origins)), values)


def _of_variable(variable: str) -> Setting | None:
    parts = variable.split("__")
    # Exactly as documented: a second spelling could win or lose unseen.
    if len(parts) != _PARTS or variable != variable.upper():
        return None
    return catalogue().get(f"{parts[1]}.{parts[2]}".lower())


def _unknown_section(section: str) -> Problem:
    elsewhere = [setting.path for setting in catalogue().values() if setting.name == section]
    if elsewhere:
        right = f"it belongs in a section: did you mean {' or '.join(elsewhere)}?"
    elif close := get_close_matches(section, sections(), 1):
        right = f"did you mean [{close[0]}]?"
    else:
        right = f"the sections are {', '.join(sections())}"
    return Problem(_printable(section), "unknown section", right)


def _unknown_key(section: str, name: str) -> Problem:
    here = [setting.name for setting in catalogue().values() if setting.section == section]
    return Problem(
        f"{section}.{_printable(name)}",
        "unknown setting",
        _suggestion(name, here, f"[{section}] has {', '.join(here)}"),
    )


def _unknown_variable(variable: str) -> Problem:
    names = [setting.variable for setting in catalogue().values()]
    close = get_close_matches(variable.upper(), names, 1)
    right = f"did you mean {close[0]}?" if close else "see `valetkey config explain`"
    return Problem(_printable(variable), "unknown setting", right)


def _suggestion(name: str, here: Sequence[str], otherwise: str) -> str:
    if close := get_close_matches(name, here, 1):
        return f"did you mean {close[0]}?"
    elsewhere = {setting.name: setting.path for setting in catalogue().values()}
    if close := get_close_matches(name, elsewhere, 1, 0.8):
        return f"did you mean {elsewhere[close[0]]}?"
    return otherwise


def _printable(name: str) -> str:
    return printable(name, "�")[:60]
