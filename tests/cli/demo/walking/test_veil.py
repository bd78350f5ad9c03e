"""What is secret is recognised on the screen, and cannot be used from there."""

import json

from valetkey.cli.demo import wire
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret

SECRET = fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random).reveal()
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


def test_a_secret_shows_its_ends_only() -> None:
    assert wire.short(SECRET) == f"{SECRET[:8]}…{SECRET[-4:]}"


def test_a_password_shows_two_letters() -> None:
    assert wire.shortened("password", "correct horse battery staple") == "co…"


def test_secret_is_shortened_in_text_headers_urls_and_json() -> None:
    shown = (
        wire.mask_secrets(f"the token {SECRET} and {JWT}"),
        wire.shortened("anything", SECRET),
        wire.header("Authorization", f"Bearer {JWT}"),
        wire.header("Authorization", f"Basic {'QWxhZGRpbjpvcGVuIHNlc2FtZQ=='}"),
        wire.header("Location", f"https://app.example/cb?code={SECRET}"),
        wire.address(f"https://app.example/cb?code={SECRET}#access_token={JWT}"),
        json.dumps(wire.document({"a": [{"b": SECRET}], "access_token": JWT})),
    )
    for text in shown:
        assert "…" in json.loads(f'"{text}"') if text[0] != "{" else True
        assert SECRET not in text
        assert JWT not in text
        assert "QWxhZGRpbjpvcGVuIHNlc2FtZQ" not in text


def test_values_that_are_not_secret_are_not_masked() -> None:
    plain = {"error": "invalid_grant", "code": "invalid_token", "uid": 1001, "scope": "notes:read"}
    assert wire.document(plain) == plain
    assert wire.address("http://127.0.0.1:8402/cb?state=abc&iss=http://a") == (
        "http://127.0.0.1:8402/cb?state=abc&iss=http://a"
    )
