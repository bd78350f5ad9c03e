"""RU, CA and XS at the door of registration: addresses, keys and names that may not be."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.attacks.registration.applicant import Applicant
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey, base64url_uint

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
def test_ru_31_redirect_uris_with_wildcards_are_refused(anybody: Applicant, uri: str) -> None:
    with anybody.nothing_changes():
        anybody.register(redirect_uris=[uri]).refused(400, "invalid_redirect_uri")
    assert "post_logout_redirect_uris" not in anybody.registered(post_logout_redirect_uris=[uri])


_BROUGHT = (
    "code", "state", "iss", "error", "error_description", "error_uri", "access_token", "token_type",
    "expires_in", "scope", "id_token", "session_state", "response",
)  # fmt: skip


def test_ru_33_redirect_uri_with_a_response_parameter_is_refused(anybody: Applicant) -> None:
    base = "https://app.example/cb"
    with anybody.nothing_changes():
        for name in _BROUGHT:
            for query in (f"{name}=x", f"a=1&{name}=", f"%{ord(name[0]):02x}{name[1:]}=x", name):
                answer = anybody.register(redirect_uris=[base, f"{base}?{query}"])
                answer.refused(400, "invalid_redirect_uri")
        anybody.register(frontchannel_logout_uri=f"{base}?sid=1").refused(400, _INVALID)
    for metadata in (
        {"post_logout_redirect_uris": [f"{base}?state", f"{base}?a&state"]},
        {"initiate_login_uri": f"{base}?iss=1"},
    ):
        assert not metadata.keys() & anybody.registered(**metadata).keys()
    record = anybody.registered(redirect_uris=[f"{base}?tenant=1"])
    with anybody.nothing_changes():
        metadata = {"client_id": record["client_id"], "redirect_uris": [f"{base}?state=1"]}
        anybody.manage(record, "PUT", metadata).refused(400, "invalid_redirect_uri")


def test_xs_02_name_like_that_of_a_verified_app_is_refused(anybody: Applicant) -> None:
    registered = [anybody.registered(client_name=name) for name in ("Acme Pilot", "Other")]
    servers = anybody.servers
    assert servers.write(
        lambda tx: tx.clients.verify(registered[0]["client_id"], servers.clock.now())
    )
    alike = (
        "Acme Pilot",
        "ACME  pilot!",
        "\u0410cme Pilot",  # a Cyrillic capital
        "\u0430\u0441\u043c\u0435 \u0440\u0456\u04cf\u043e\u0442",  # Cyrillic throughout
        "Acrne Pi1ot",
        "Acme PiIot",
        "\uff21cme Pilot",
        "\u00c1cme Pil\u00f6t",
        "Acme Pilot\u3164",  # a letter that is shown as nothing
        "Acme\uffa0Pilot",
        "Acme Pilot\u2122",
        "\u1d00\u1d04\u1d0d\u1d07 \u1d18\u026a\u029f\u1d0f\u1d1b",  # small capitals
        (
            "\U0001f150\U0001f152\U0001f15c\U0001f154"
            " \U0001f15f\U0001f158\U0001f15b\U0001f15e\U0001f163"
        ),
        (
            "\U0001f170\U0001f172\U0001f17c\U0001f174"
            " \U0001f17f\U0001f178\U0001f17b\U0001f17e\U0001f183"
        ),
        "Acme Pil\u00f8t",
        "ACME P1LOT",
        "@cme PiIo\u2020",
        "Acme Pilot \u2714 Verified",
    )
    with anybody.nothing_changes():
        for name in alike:
            anybody.register(client_name=name).refused(400, _INVALID)
            metadata = {
                "client_id": registered[1]["client_id"],
                "client_name": name,
                "redirect_uris": ["https://app.example/cb"],
            }
            anybody.manage(registered[1], "PUT", metadata).refused(400, _INVALID)
    # The app itself keeps its name, and another name is anybody's.
    metadata = {
        "client_id": registered[0]["client_id"],
        "client_name": "Acme pilot",
        "redirect_uris": ["https://app.example/cb"],
    }
    assert anybody.manage(registered[0], "PUT", metadata).status == 200
    anybody.registered(client_name="Acme Copilot")


def test_ru_39_redirect_uris_on_own_servers_are_refused(anybody: Applicant) -> None:
    auth, api = anybody.servers.auth_url, anybody.servers.api_url
    with anybody.nothing_changes():
        for uri in (f"{auth}/oauth/authorize?client_id=x", auth, f"{api}/v2/notes"):
            for spelt in (uri, uri.replace("127.0.0.1", "localhost")):
                anybody.register(redirect_uris=[spelt]).refused(400, "invalid_redirect_uri")
    record = anybody.registered(post_logout_redirect_uris=[auth, f"{api}/v2/notes"])
    assert "post_logout_redirect_uris" not in record


def _rsa(bits: int, **more: str) -> dict[str, Any]:
    numbers = rsa.generate_private_key(65_537, bits).public_key().public_numbers()
    return {"kty": "RSA", "n": base64url_uint(numbers.n), "e": base64url_uint(numbers.e), **more}


def test_ca_09_weak_secret_and_unsuitable_keys_are_refused(anybody: Applicant) -> None:
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
    record = anybody.registered(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [good]})
    assert record["jwks"]["keys"][0]["n"] == good["n"]
    assert "client_secret" not in record


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
    ],
    ids=ascii,
)
def test_xs_01_misleading_names_are_refused(anybody: Applicant, name: str) -> None:
    with anybody.nothing_changes():
        anybody.register(client_name=name).refused(400, _INVALID)


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img onerror=x>', "{{7*7}}", "Принтер", "印刷屋"]
)
def test_xs_01_unusual_client_names_are_accepted_unchanged(anybody: Applicant, name: str) -> None:
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
def test_xs_05_links_other_than_valid_https_urls_are_left_out(
    anybody: Applicant, field: str, uri: str
) -> None:
    record = anybody.registered(**{field: uri})
    assert field not in record
    assert field not in anybody.manage(record, "GET").json


@pytest.mark.parametrize(
    "field",
    ["jwks_uri", "sector_identifier_uri", "backchannel_logout_uri"],
)
@pytest.mark.parametrize(
    "uri",
    ["http://app.example/", "http://127.0.0.1:1/", "file:///etc/passwd", "gopher://x/", "x", "ſ"],
)
def test_sf_fetched_urls_other_than_https_are_refused_at_registration(
    anybody: Applicant, field: str, uri: str
) -> None:
    with anybody.nothing_changes():
        anybody.register(**{field: uri}).refused(400, _INVALID)


def test_sf_unreachable_sector_identifier_is_refused_without_the_cause(
    anybody: Applicant,
) -> None:
    with anybody.nothing_changes():
        for uri in ("https://127.0.0.1/", "https://localhost/", "https://10.0.0.1/"):
            anybody.register(sector_identifier_uri=uri).refused(400, _INVALID)
        answer = anybody.register(sector_identifier_uri="https://nowhere.invalid/")
        answer.refused(400, _INVALID)
        expected = "sector_identifier_uri: an address that answers with a JSON array of addresses"
        assert answer.json["error_description"] == expected
