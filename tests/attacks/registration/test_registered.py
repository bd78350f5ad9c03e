"""RU, CA and XS at the door of registration: addresses, keys and names that may not be."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.attacks.registration.applicant import Applicant
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwk import spell
from valetkey.kernel.jose.key import SigningKey

_INVALID = "invalid_client_metadata"


@pytest.mark.parametrize(
    "uri",
    [
        "https://*.example/cb",
        "https://app.example*",
        "*",
        "https://app.example/*",
        "https://app.example:*/cb",
    ],
)
def test_ru_31_wildcards(anybody: Applicant, uri: str) -> None:
    with anybody.nothing_changes():
        anybody.register(redirect_uris=[uri]).refused(400, "invalid_redirect_uri")
        anybody.register(post_logout_redirect_uris=[uri]).refused(400, _INVALID)


def test_ru_39_this_servers_own_addresses(anybody: Applicant) -> None:
    auth, api = anybody.servers.auth_url, anybody.servers.api_url
    with anybody.nothing_changes():
        for uri in (f"{auth}/oauth/authorize?client_id=x", auth, f"{api}/v2/notes"):
            for spelt in (uri, uri.replace("127.0.0.1", "localhost")):
                anybody.register(redirect_uris=[spelt]).refused(400, "invalid_redirect_uri")
                anybody.register(post_logout_redirect_uris=[spelt]).refused(400, _INVALID)


def _rsa(bits: int, **more: str) -> dict[str, Any]:
    numbers = rsa.generate_private_key(65_537, bits).public_key().public_numbers()
    return {"kty": "RSA", "n": spell(numbers.n), "e": spell(numbers.e), **more}


def test_ca_09_keys_that_are_weak_secret_or_for_something_else(anybody: Applicant) -> None:
    private = json.loads(SigningKey.generate(Algorithm.ES256).private_jwk())
    short = base64.urlsafe_b64encode(b"x" * 8).decode().rstrip("=")
    good = _rsa(2_048, kid="good")
    sets: tuple[object, ...] = (
        [_rsa(1_024)],
        [{"kty": "oct", "k": ""}],
        [{"kty": "oct", "k": short}],
        [private],
        [{**private, "use": "enc"}],
        [good, {**private, "kid": "bad"}],
        [_rsa(2_048, use="enc")],
        [good, good],
        [good, _rsa(2_048)],
        [{"kty": "RSA"}],
        [5],
        ["x"],
        [],
        {"kty": "RSA"},
        None,
    )
    with anybody.nothing_changes():
        for keys in sets:
            answer = anybody.register(
                token_endpoint_auth_method="private_key_jwt", jwks={"keys": keys}
            )
            answer.refused(400, _INVALID)
        documents: tuple[object, ...] = ({}, "text", 5, [])
        for document in documents:
            anybody.register(token_endpoint_auth_method="private_key_jwt", jwks=document).refused(
                400, _INVALID
            )
    told = anybody.registered(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [good]})
    assert told["jwks"]["keys"][0]["n"] == good["n"]
    assert "client_secret" not in told


@pytest.mark.parametrize(
    "name",
    [
        "a\u202eb",
        "a\u200bb",
        "a\u2066b",
        "a\nb",
        "a\x1bb",
        "x" * 10_240,
        "\u00ad",
        "Valetkey",
        "VALETKEY Sign-in",
        "ᵛaletkey",
        "Gооgle",
        " padded ",
    ],
    ids=ascii,
)
def test_xs_01_names_that_mislead(anybody: Applicant, name: str) -> None:
    with anybody.nothing_changes():
        anybody.register(client_name=name).refused(400, _INVALID)


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img onerror=x>', "{{7*7}}", "Принтер", "印刷屋"]
)
def test_xs_01_what_is_only_odd_is_shown_as_it_is(anybody: Applicant, name: str) -> None:
    assert anybody.registered(client_name=name)["client_name"] == name


@pytest.mark.parametrize("field", ["policy_uri", "tos_uri", "client_uri", "logo_uri"])
@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "data:text/html,x",
        'https://evil" onclick=',
        "https://evil.test/<script>",
        "http://app.example/",
        "//app.example/",
        "https://",
        "https:///x",
        "https://me@app.example/",
        "https://app.example\\@evil.test/",
        "https://app.example/\u202e",
    ],
)
def test_xs_05_links_that_are_no_links(anybody: Applicant, field: str, uri: str) -> None:
    with anybody.nothing_changes():
        anybody.register(**{field: uri}).refused(400, _INVALID)


@pytest.mark.parametrize(
    "field",
    ["jwks_uri", "sector_identifier_uri", "backchannel_logout_uri", "initiate_login_uri"],
)
@pytest.mark.parametrize(
    "uri",
    ["http://app.example/", "http://127.0.0.1:1/", "file:///etc/passwd", "gopher://x/", "x", "ſ"],
)
def test_sf_addresses_that_this_server_would_never_ask(
    anybody: Applicant, field: str, uri: str
) -> None:
    if field == "initiate_login_uri" and uri.startswith("http://127"):
        # Browsers go there, not this server; loopback is for who builds an app.
        return
    with anybody.nothing_changes():
        anybody.register(**{field: uri}).refused(400, _INVALID)


def test_sf_a_sector_that_gives_nothing_is_refused_without_a_word_about_why(
    anybody: Applicant,
) -> None:
    with anybody.nothing_changes():
        for uri in ("https://127.0.0.1/", "https://localhost/", "https://10.0.0.1/"):
            anybody.register(sector_identifier_uri=uri).refused(400, _INVALID)
        answer = anybody.register(sector_identifier_uri="https://nowhere.invalid/")
        answer.refused(400, _INVALID)
        expected = "sector_identifier_uri: an address that answers with a JSON array of addresses"
        assert answer.json["error_description"] == expected
