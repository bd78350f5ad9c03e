"""The shared SQL as text: splitting scripts, finding parameters, checking values."""

import re
from collections.abc import Mapping

from valetkey.database.engine import UnstorableValue

Storable = str | int | None

# Quoted text, quoted names and comments come first, so that their content is ignored.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?P<cast>::)
      | :(?P<name>[A-Za-z_][A-Za-z0-9_]*) | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def split(script: str) -> tuple[str, ...]:
    """Return the statements of a script, without semicolons and empty ones."""
    statements: list[str] = []
    start = 0
    for token in _TOKEN.finditer(script):
        if token["end"]:
            statements.append(script[start : token.start()])
            start = token.end()
    statements.append(script[start:])
    return tuple(text.strip() for text in statements if _COMMENT.sub("", text).strip())


def parameters(sql: str) -> tuple[str, ...]:
    """Return the names of a statement's `:name` parameters, each once, in order."""
    return tuple(dict.fromkeys(token["name"] for token in _TOKEN.finditer(sql) if token["name"]))


def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Turn each `:name` into PostgreSQL's `$1`, `$2`, …; return the text and the names in order."""
    names = parameters(sql)
    text: list[str] = []
    start = 0
    for token in _TOKEN.finditer(sql):
        if token["name"]:
            text += sql[start : token.start()], f"${names.index(token['name']) + 1}"
            start = token.end()
    text.append(sql[start:])
    return "".join(text), names


def storable(params: dict[str, object]) -> Mapping[str, Storable]:
    """Convert parameters to plain text, integers and None. Raises `UnstorableValue`.

    Each engine would refuse some values in its own way and silently change others. One rule for
    both allows data to be moved from one to the other.
    """
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            # Checked inline for nearly all text: a function call would cost as much as the check.
            if value.isascii() and "\0" not in value:  # type: ignore[attr-defined, operator]
                continue
            _check_text(name, value)  # type: ignore[arg-type]  # kind says it
        elif kind is int:
            _check_integer(name, value)  # type: ignore[arg-type]  # kind says it
        elif value is not None:
            return {name: _plain(name, value) for name, value in params.items()}
    return params  # type: ignore[return-value]  # the loop above is the proof


def _plain(name: str, value: object) -> Storable:
    if value is None:
        return None
    if isinstance(value, str):
        # Not `str(value)`: the text of an enumeration may differ from its value.
        text = str.__str__(value)
        _check_text(name, text)
        return text
    if isinstance(value, int) and not isinstance(value, bool):
        number = int.__int__(value)
        _check_integer(name, number)
        return number
    raise UnstorableValue(
        f"{name} is a {type(value).__name__}: only text, integers and None are stored"
    )


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise UnstorableValue(f"{name} contains a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnstorableValue(f"{name} contains half of a surrogate pair") from None


def _check_integer(name: str, number: int) -> None:
    if not _SMALLEST <= number <= _LARGEST:
        raise UnstorableValue(f"{name} does not fit into 64 bits")
