"""Example programs: one operation in shell, Python and JavaScript."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from valetkey.kernel.shapes.shape import Document
from valetkey.resource.documentation.actions import Action
from valetkey.resource.requests.representation import JSON, MERGE_PATCH
from valetkey.resource.resource_object import Verb

_ID = "ID"
_TAG = '"1"'


@dataclass(frozen=True, slots=True)
class Program:
    """One example: the language's name and the text."""

    language: str
    text: str


def programs(action: Action, url: str) -> tuple[Program, ...]:
    """Return the operation in each language; `url` is the address of the API."""
    target = url + action.path.replace("{id}", _ID)
    return tuple(Program(name, write(action, target)) for name, write in _LANGUAGES)


def _type_of(action: Action) -> str:
    return MERGE_PATCH if action.verb is Verb.CHANGE else JSON


def _body(action: Action) -> Document | None:
    return (action.example or {}) if action.has_body else None


def _says_what(action: Action) -> bool:
    """Return whether the operation is refused without a precondition."""
    return action.kind.requires_if_match and action.has_preconditions


def _curl(action: Action, target: str) -> str:
    lines = ["curl" if action.method == "GET" else f"curl --request {action.method}"]
    lines.append('--header "Authorization: Bearer $TOKEN"')
    if _says_what(action):
        lines.append(f"--header 'If-Match: {_TAG}'")
    body = _body(action)
    if body is not None:
        lines.append(f"--header 'Content-Type: {_type_of(action)}'")
        written = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        lines.append(f"--data '{written}'")
    lines.append(target)
    return " \\\n  ".join(lines)


def _python(action: Action, target: str) -> str:
    lines = [
        "import requests",
        "",
        f"answer = requests.{action.method.lower()}(",
        f'    "{target}",',
        _python_headers(action),
    ]
    body = _body(action)
    if body is not None:
        lines.append(f"    json={body!r},")
    lines += [
        "    timeout=10,",
        ")",
        "answer.raise_for_status()",
    ]
    if action.verb is not Verb.DELETE:
        lines.append("print(answer.json())")
    return "\n".join(lines)


def _python_headers(action: Action) -> str:
    match = f", \"If-Match\": '{_TAG}'" if _says_what(action) else ""
    return f'    headers={{"Authorization": f"Bearer {{token}}"{match}}},'


def _javascript(action: Action, target: str) -> str:
    lines = [f'const answer = await fetch("{target}", {{']
    body = _body(action)
    if action.method != "GET":
        lines.append(f'  method: "{action.method}",')
    lines += ["  headers: {", "    Authorization: `Bearer ${token}`,"]
    if _says_what(action):
        lines.append(f"    \"If-Match\": '{_TAG}',")
    if body is None:
        lines.append("  },")
    else:
        lines += [
            f'    "Content-Type": "{_type_of(action)}",',
            "  },",
            f"  body: JSON.stringify({json.dumps(body, ensure_ascii=False)}),",
        ]
    lines += ["});", "if (!answer.ok) throw new Error((await answer.json()).detail);"]
    if action.verb is not Verb.DELETE:
        lines.append("console.log(await answer.json());")
    return "\n".join(lines)


_LANGUAGES: tuple[tuple[str, Callable[[Action, str], str]], ...] = (
    ("curl", _curl),
    ("Python", _python),
    ("JavaScript", _javascript),
)
