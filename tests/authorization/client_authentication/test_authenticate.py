"""One proof, one client: each method by itself, and what a header may look like."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.harness import Harness, run
from valetkey.authorization.client_authentication import (
    ClientAuthentication,
    ClientDirectory,
    Failures,
    SecretUses,
)
from valetkey.authorization.model.client import AuthenticationMethod
from valetkey.authorization.protocol.client_authentication import METHODS
from valetkey.authorization.protocol.client_authentication.client_secret import read_basic
from valetkey.authorization.protocol.client_authentication.method import Basic, Presented
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import Form


def _header(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return "Basic " + b64encode(data).decode()


@pytest.mark.parametrize(
    ("text", "client_id", "secret", "raw"),
    [
        ("web:secret", "web", "secret", "secret"),
        ("web:", "web", "", ""),
        ("web:a:b", "web", "a:b", "a:b"),
        ("a%3Ab:s%25+t", "a:b", "s% t", "s%25+t"),
        ("web:100%", "web", "100%", "100%"),
        ("web:%ff", "web", "%ff", "%ff"),
        ("wéb:é", "wéb", "é", "é"),
    ],
)
def test_basic_header_is_read_both_form_decoded_and_raw(
    text: str, client_id: str, secret: str, raw: str
) -> None:
    assert read_basic(_header(text)) == Basic(client_id, secret, raw)


def test_missing_authorization_header_gives_no_credentials() -> None:
    assert read_basic(None) is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        "Bearer abc",
        "Basic  d2ViOng=",
        "Basic d2ViOng",
        "Basic d2ViOng==",
        "Basic d2Vi\nOng=",
        "Basic d2ViOng_",
        "Basic " + "A" * 8_196,
        _header("no colon"),
        _header("a\0b:c"),
        _header("a:b\n"),
        _header(b"\xff:x"),
    ],
)
def test_malformed_basic_header_is_refused(header: str) -> None:
    with pytest.raises(Refused) as caught:
        read_basic(header)
    assert caught.value.refusal.code is ErrorCode.INVALID_CLIENT


def test_each_authentication_method_is_in_the_registry() -> None:
    assert {method.name for method in METHODS} >= {member.value for member in AuthenticationMethod}


def test_unknown_client_ids_do_not_fill_memory(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        failures = Failures.per_minute(2)
        authentication = ClientAuthentication(
            ClientDirectory(it.foundation.store),
            it.foundation.keyring.fingerprint_key,
            failures,
            it.foundation.client_keys,
            it.foundation.shared_secrets,
            SecretUses(),
        )
        form = Form({"client_id": "x" * 60_000, "client_secret": "y"})
        for code in (*[ErrorCode.INVALID_CLIENT] * 2, ErrorCode.SLOW_DOWN):
            with pytest.raises(Refused) as caught:
                await authentication.authenticate(Presented(form, None, (), it.clock.now), "here")
            assert caught.value.refusal.code is code
        (kept,) = failures.of_client.keys()
        assert len(repr(kept)) < 300

    run(tmp_path, story)
