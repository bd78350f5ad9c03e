"""What the Dynamic profile asks: apps that come alone, with keys and addresses of their own."""

import base64
import json
import secrets
import time
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from tests.openid.provider import Provider
from tests.openid.relying_party import PASSWORD, REDIRECT_URI, SECONDS, RelyingParty, read_answer
from tests.support.pages import Page as LiesThere
from tests.support.pages import pages


def document(value: object) -> LiesThere:
    """What lies at an address of the app: JSON, or a request object."""
    if isinstance(value, str):
        return LiesThere(value.encode(), "application/oauth-authz-req+jwt")
    return LiesThere(json.dumps(value).encode())


def key(kid: str = "one") -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


def public(*keys: Any) -> dict[str, Any]:
    return {"keys": [jwk.as_dict(private=False) for jwk in keys]}


def refused(op: Provider, **metadata: object) -> str:
    """The error of a registration that must not succeed."""
    registration = {"redirect_uris": [REDIRECT_URI], "client_name": "Judge"} | metadata
    url = str(op.discovered["registration_endpoint"])
    response = requests.post(url, json=registration, timeout=SECONDS)
    assert response.status_code == requests.codes.bad_request
    assert response.headers["cache-control"] == "no-store"
    return str(response.json()["error"])


def test_registration_is_returned_and_can_be_read_with_its_token(op: Provider) -> None:
    rp = op.register(contacts=["a@rp.example"], client_uri="https://rp.example")
    registration = rp.registration
    for name in ("client_id", "client_secret", "registration_access_token"):
        assert isinstance(registration[name], str)
    assert registration["client_secret_expires_at"] == 0
    assert registration["redirect_uris"] == [REDIRECT_URI]
    assert registration["contacts"] == ["a@rp.example"]
    headers = {"authorization": f"Bearer {registration['registration_access_token']}"}
    url = str(registration["registration_client_uri"])
    again = requests.get(url, headers=headers, timeout=SECONDS)
    assert again.status_code == requests.codes.ok
    assert again.json()["client_id"] == rp.client_id
    assert requests.get(url, timeout=SECONDS).status_code == requests.codes.unauthorized


def test_an_id_token_is_signed_with_rs256_unless_another_was_registered(op: Provider) -> None:
    for registered, more in (
        ("RS256", {}),
        ("RS256", {"id_token_signed_response_alg": "RS256"}),
        ("ES256", {"id_token_signed_response_alg": "ES256"}),
        ("HS256", {"id_token_signed_response_alg": "HS256"}),
    ):
        rp = op.register(**more)
        assert rp.registration["id_token_signed_response_alg"] == registered
        rp.tokens(rp.authenticate(op.person()))


def test_userinfo_is_signed_if_registered(op: Provider) -> None:
    rp = op.register(userinfo_signed_response_alg="RS256")
    tokens = rp.tokens(rp.authenticate(op.person()))
    response = requests.get(
        rp.at("userinfo_endpoint"),
        headers={"authorization": f"Bearer {tokens['access_token']}"},
        timeout=SECONDS,
    )
    assert response.headers["content-type"].split(";")[0] == "application/jwt"
    keys = KeySet.import_key_set(requests.get(rp.at("jwks_uri"), timeout=SECONDS).json())
    claims = jwt.decode(response.text, keys, ["RS256"]).claims
    assert (claims["iss"], claims["aud"]) == (op.servers.auth_url, rp.client_id)
    assert claims["sub"] == tokens["claims"]["sub"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("registered", "sent", "good"),
    [
        ("https://rp.example/cb?foo=bar", "https://rp.example/cb?foo=bar", True),
        ("https://rp.example/cb?foo=bar", "https://rp.example/cb?bar=foo", False),
        ("https://rp.example/cb?foo=bar", "https://rp.example/cb", False),
        ("https://rp.example/cb", "https://rp.example/cb?foo=bar", False),
    ],
)
def test_the_query_of_a_redirect_uri_is_part_of_it(
    op: Provider, registered: str, sent: str, *, good: bool
) -> None:
    rp, person = op.register(redirect_uris=[registered]), op.person()
    page = rp.ask(person, redirect_uri=sent)
    assert not page.location
    if good:
        page = person.allow(person.sign_in(page, "ada", PASSWORD))
        assert page.location.startswith(f"{registered}&")
    else:
        assert page.status == requests.codes.bad_request


def test_a_redirect_uri_with_a_fragment_is_not_registered(op: Provider) -> None:
    assert refused(op, redirect_uris=["https://rp.example/cb#x"]) == "invalid_redirect_uri"


def test_policy_and_terms_are_shown_on_the_consent_page_only(op: Provider) -> None:
    """Whoever registers an app puts nothing on the sign-in page, and no picture on any."""
    rp = op.register(
        logo_uri="https://rp.example/logo.png",
        policy_uri="https://rp.example/policy",
        tos_uri="https://rp.example/terms",
    )
    person = op.person()
    page = rp.ask(person)
    assert "https://rp.example/" not in page.body
    consent = person.sign_in(page, "ada", PASSWORD)
    assert "https://rp.example/policy" in consent.body
    assert "https://rp.example/terms" in consent.body
    assert "https://rp.example/logo.png" not in consent.body


def test_pairwise_subjects_differ_by_sector_and_agree_within_one(op: Provider) -> None:
    with pages() as it:
        it.at["/sector"] = document(
            ["https://one.example/cb", "https://two.example/cb", REDIRECT_URI]
        )
        more = {"subject_type": "pairwise", "sector_identifier_uri": f"{it.url}/sector"}
        subjects = []
        for _ in range(2):
            rp = op.register(redirect_uris=[REDIRECT_URI, "https://one.example/cb"], **more)
            tokens = rp.tokens(rp.authenticate(op.person()))
            claims = tokens["claims"]
            assert isinstance(claims, dict)
            assert "uid" not in tokens
            subjects.append(claims["sub"])
            assert rp.userinfo(str(tokens["access_token"]))["sub"] == claims["sub"]
        assert subjects[0] == subjects[1]
    alone = op.register(subject_type="pairwise")
    plain = op.register()
    others = [rp.tokens(rp.authenticate(op.person()))["claims"] for rp in (alone, plain)]
    assert len({subjects[0], *(claims["sub"] for claims in others)}) == 3  # type: ignore[index]


def test_sector_identifier_must_list_every_redirect_uri(op: Provider) -> None:
    with pages() as it:
        it.at["/sector"] = document(["https://one.example/cb"])
        more = {"subject_type": "pairwise", "sector_identifier_uri": f"{it.url}/sector"}
        assert refused(op, **more) == "invalid_client_metadata"
    assert refused(op, redirect_uris=["https://a.example/cb", "https://b.example/cb"],
                   subject_type="pairwise") == "invalid_client_metadata"  # fmt: skip


def assertion(rp: RelyingParty, by: ECKey, now: int) -> dict[str, str]:
    """What proves the app by one of its own keys (RFC 7523)."""
    claims = {
        "iss": rp.client_id,
        "sub": rp.client_id,
        "aud": rp.at("token_endpoint"),
        "exp": now + 60,
        "jti": secrets.token_urlsafe(16),
    }
    return {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": jwt.encode({"alg": "ES256", "kid": by.kid}, claims, by, ["ES256"]),
    }


def test_private_key_jwt_with_rotated_keys_at_the_jwks_uri_is_accepted(op: Provider) -> None:
    with pages() as it:
        old, new = key("old"), key("new")
        it.at["/keys"] = document(public(old))
        rp = op.register(token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{it.url}/keys")
        code = rp.authenticate(op.person(), scope="openid", prompt="consent").said["code"]
        redeemed = rp.redeem(code, **assertion(rp, old, op.servers.clock.now()))
        assert redeemed.status_code == requests.codes.ok, redeemed.text
        first = redeemed.json()
        it.at["/keys"] = document(public(new))
        again = rp.refresh(first["refresh_token"], **assertion(rp, new, op.servers.clock.now()))
        assert again.status_code == requests.codes.ok, again.text


def request_object(rp: RelyingParty, by: ECKey | RSAKey, algorithm: str, **more: object) -> str:
    """The whole request, signed by the app."""
    claims = rp.request() | {"iss": rp.client_id, "aud": str(rp.discovered["issuer"])} | more
    rp.sent = {name: value for name, value in claims.items() if isinstance(value, str)}
    return jwt.encode({"alg": algorithm, "kid": by.kid}, claims, by, [algorithm])


def soon() -> int:
    """When a request object that is sent by value expires."""
    return int(time.time()) + 300


def announced(op: Provider) -> object:
    """The algorithms of request objects that the server announces now."""
    url = f"{op.servers.auth_url}/.well-known/openid-configuration"
    document = requests.get(url, timeout=SECONDS).json()
    return document["request_object_signing_alg_values_supported"]


def ask_with(op: Provider, rp: RelyingParty, **more: str) -> dict[str, object]:
    """The flow of a request of which only the least stands outside its object."""
    person = op.person()
    outside = {
        "client_id": rp.client_id,
        "response_type": rp.response_type,
        "scope": "openid",
        "redirect_uri": REDIRECT_URI,
    }
    page = person.open(f"{rp.at('authorization_endpoint')}?{urlencode(outside | more)}")
    return rp.tokens(rp.go_through(person, page))


def test_request_object_by_value_is_accepted(op: Provider) -> None:
    mine = key()
    rp = op.register(jwks=public(mine), request_object_signing_alg="ES256")
    request = request_object(rp, mine, "ES256", exp=soon())
    assert ask_with(op, rp, request=request)["claims"]


def test_request_object_by_uri_is_accepted(op: Provider) -> None:
    with pages() as it:
        mine = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig", "alg": "RS256"})
        uri = f"{it.url}/request"
        rp = op.register(jwks=public(mine), request_object_signing_alg="RS256", request_uris=[uri])
        it.at["/request"] = document(request_object(rp, mine, "RS256"))
        assert ask_with(op, rp, request_uri=uri)["claims"]


def test_unsigned_request_object_is_refused_unless_registered(op: Provider) -> None:
    def unsigned(rp: RelyingParty) -> str:
        head, body = ({"alg": "none"}, rp.request() | {"exp": soon()})
        parts = (json.dumps(part).encode() for part in (head, body))
        return ".".join(base64.urlsafe_b64encode(p).rstrip(b"=").decode() for p in parts) + "."

    # What is announced is what an app may use: without a registration that is no unsigned object.
    assert announced(op) == ["ES256", "RS256", "PS256", "EdDSA", "HS256"]
    rp = op.register()
    page = rp.ask(op.person(), request=unsigned(rp))
    assert read_answer(page).error == "request_not_supported"
    rp = op.register(request_object_signing_alg="none")
    assert announced(op) == ["ES256", "RS256", "PS256", "EdDSA", "HS256", "none"]
    assert ask_with(op, rp, request=unsigned(rp))["claims"]
    rp = op.register(jwks=public(key()), request_object_signing_alg="ES256")
    request = unsigned(rp)
    page = rp.ask(op.person(), request=request)
    assert read_answer(page).error in {"invalid_request_object", "request_not_supported"}


def test_parameters_of_the_request_object_override_those_outside(op: Provider) -> None:
    mine = key()
    rp = op.register(
        jwks=public(mine),
        request_object_signing_alg="ES256",
        redirect_uris=[REDIRECT_URI, "https://rp.example/other"],
    )
    request = request_object(rp, mine, "ES256", exp=soon())
    tokens = ask_with(
        op, rp, request=request, redirect_uri="https://rp.example/other", state="outside"
    )
    assert tokens["claims"]


def test_a_request_uri_that_was_not_registered_is_not_fetched(op: Provider) -> None:
    with pages() as it:
        mine = key()
        rp = op.register(
            jwks=public(mine), request_object_signing_alg="ES256", request_uris=[f"{it.url}/a"]
        )
        it.at["/b"] = document(request_object(rp, mine, "ES256"))
        page = rp.ask(op.person(), request_uri=f"{it.url}/b")
        assert read_answer(page).error in {"invalid_request_uri", "request_uri_not_supported"}


def test_deleted_registration_cannot_be_used(op: Provider) -> None:
    rp = op.register()
    headers = {"authorization": f"Bearer {rp.registration['registration_access_token']}"}
    url = str(rp.registration["registration_client_uri"])
    assert requests.delete(url, headers=headers, timeout=SECONDS).status_code == 204
    assert requests.get(url, headers=headers, timeout=SECONDS).status_code in {401, 403}
    page = rp.ask(op.person())
    assert not page.location
    assert page.status == requests.codes.bad_request
