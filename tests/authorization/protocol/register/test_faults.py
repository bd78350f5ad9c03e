"""The texts of faults: one table by code, complete and filled with the same values."""

import inspect
import re

from valetkey.authorization.protocol.register import self_registration
from valetkey.authorization.protocol.register.faults import (
    FAULTS,
    REDIRECT_URI,
    SENTENCES,
    fault,
    refused_uri,
)
from valetkey.kernel import url
from valetkey.kernel.refusal import Refused

_PLACES = re.compile(r"%\((\w+)\)s")


def test_each_check_of_a_redirect_uri_has_a_sentence() -> None:
    checks = re.findall(r'_refused\(\s*"(\w+)"', inspect.getsource(url))
    assert {f"redirect_uri.{check}" for check in checks} == REDIRECT_URI.keys()


def test_each_code_of_a_name_has_a_text() -> None:
    codes = re.findall(r'return "([a-z.]+)"', inspect.getsource(self_registration.name_fault))
    assert codes
    assert set(codes) <= FAULTS.keys()


def test_the_sentence_is_filled_with_the_values_of_the_text() -> None:
    for code, text in FAULTS.items():
        assert set(_PLACES.findall(text.sentence)) <= set(_PLACES.findall(text.detail)), code
    found = fault("name", "name.length", least=1, most=80)
    assert found.detail == "1 to 80 printable characters"
    assert SENTENCES[found.code] % found.values == "Enter a name of at most 80 visible characters."


def test_a_refused_address_has_its_sentence_beside_its_row() -> None:
    try:
        url.check_redirect_uri("https://app.example/*", native=False)
    except Refused as refused:
        found = refused_uri("redirect_uris/0", refused.refusal)
    else:
        raise AssertionError
    assert found.detail.startswith("this redirect URI cannot be used: wildcards")
    assert SENTENCES[found.code] == REDIRECT_URI["redirect_uri.wildcard"]
