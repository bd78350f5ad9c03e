"""The texts of faults: one table by code, complete and filled with the same values."""

import ast
import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from valetkey import authorization
from valetkey.authorization.protocol.register import self_registration
from valetkey.authorization.protocol.register.fault_texts import FAULTS, REDIRECT_URI, SENTENCES
from valetkey.authorization.protocol.register.faults import fault, refused_uri
from valetkey.kernel import url
from valetkey.kernel.refusal import Refused

_SOURCE = Path(authorization.__file__).parent
_OF_PROGRAMS = {
    "endpoints/*": "requests of programs",
    "*/applied.py": "the file of `valetkey apply`",
    "actions/records.py": "records of the resource API",
    "actions/registrations.py": "clients that register themselves",
    "protocol/register/self_registration.py": "the same",
    "protocol/register/faults.py": "values that are not of their type",
    "operations/events.py": "the page of events has its own form",
    "operations/operation.py": "the cursor of a list",
    "providers/rules/identities.py": "the form has a sentence for each field",
    "actions/admin/server.py": "the same for the form of the brand",
}
_ELSEWHERE = {
    "actions/admin/tokens.py": {
        # Of tokens that programs create, and of users who are not signed in.
        "'no longer than the token it is made with'",
        "'a user with a role and an enabled account'",
    },
    "actions/clients.py": {
        # Secrets and ids are chosen by programs, sectors kept by clients that change themselves.
        "'a client that is registered'",
        "'as it was registered; register another client'",
        "'this client authenticates by a secret'",
        "NO_SECRET",
        "TOO_MANY_SECRETS",
        "detail",
    },
    "actions/users.py": {"f'a whole number from 1 to {LARGEST_UID}'"},
    "apis/rules.py": {"'as it is; declare another API instead'"},
    # A text of the catalogue.
    "operations/settings.py": {"setting.rule.expected"},
    "site/admin/input_form.py": {"text"},
    # Subjects of streams, which receivers name.
    "signals/rules/streams.py": {"right"},
}
"""Errors without a code, which no form can show or which are translated by their text."""

_PLACES = re.compile(r"%\((\w+)\)s")


def test_each_check_of_a_redirect_uri_has_a_sentence() -> None:
    checks = re.findall(r'_refused\(\s*"(\w+)"', inspect.getsource(url))
    assert {f"redirect_uri.{check}" for check in checks} == REDIRECT_URI.keys()


def test_each_code_of_a_name_has_a_text() -> None:
    codes = re.findall(r'return "([a-z.]+)"', inspect.getsource(self_registration.name_fault))
    assert codes
    assert set(codes) <= FAULTS.keys()


def _calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of this function in the authorization server, each with its file."""
    for file in sorted(_SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield file.relative_to(_SOURCE).as_posix(), node


def test_every_error_that_a_form_can_show_has_a_code() -> None:
    details = {
        (file, ast.unparse(call.args[1]))
        for file, call in _calls("MetadataError")
        # An empty text is shown as a sentence about any missing or invalid value.
        if len(call.args) == len(("field", "detail")) and ast.unparse(call.args[1]) != "''"
        if not any(fnmatch(file, pattern) for pattern in _OF_PROGRAMS)
    }
    assert details == {(file, text) for file, texts in _ELSEWHERE.items() for text in texts}


def test_every_placeholder_of_a_fault_text_gets_a_value() -> None:
    codes = set[str]()
    for file, call in _calls("fault"):
        match call.args:
            case [_, ast.Constant(value=str() as code), *detail]:
                text = FAULTS[code].sentence + ("" if detail else FAULTS[code].detail)
                names = {keyword.arg for keyword in call.keywords}
                assert set(_PLACES.findall(text)) <= names, (file, code)
                codes.add(code)
            case _:
                pass
    assert len(codes) > len(FAULTS) / 2


def test_detail_and_sentence_of_a_fault_use_the_same_values() -> None:
    error = fault("name", "name.length", least=1, most=80)
    assert error.detail == "1 to 80 printable characters"
    assert SENTENCES[error.code] % error.values == "Enter a name of at most 80 visible characters."


def test_refused_redirect_uri_has_the_message_of_its_check() -> None:
    try:
        url.check_redirect_uri("https://app.example/*", native=False)
    except Refused as refused:
        error = refused_uri("redirect_uris/0", refused.refusal)
    else:
        raise AssertionError
    assert error.detail.startswith("this redirect URI cannot be used: wildcards")
    assert SENTENCES[error.code] == REDIRECT_URI["redirect_uri.wildcard"]
