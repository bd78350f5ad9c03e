"""Client assertions: whose keys, which algorithm, what else could be passed off as one (CA, JW)."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network

import pytest

from tests.attacks.outgoing.apps import CALLBACK, SECRET, Apps, apps, fresh_key, jwks
from tests.support.live import raw_jwt
from tests.support.pages import Page, Pages, pages
from tests.support.wait import wait_until
from valetkey.fetch import outbound
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwt import sign
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.jose.mac import sign_shared
from valetkey.kernel.moment import minutes, seconds
from valetkey.kernel.secret import Secret, to_base64url

_NAMES = iter(range(1_000))


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apps]:
    """One server for all apps of this file."""
    with apps(tmp_path_factory.mktemp("apps"), ip_network("127.0.0.0/8")) as server:
        yield server


@pytest.fixture
def there() -> Iterator[Pages]:
    """The app's own web server."""
    with pages() as web_server:
        yield web_server


@pytest.fixture
def name() -> str:
    """An app's id that no other test has."""
    return f"app{next(_NAMES)}"


def _refused(it: Apps, client_id: str, assertion: str) -> None:
    answer = it.prove(client_id, assertion)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


def test_ca_22_jwks_uri_is_fetched_once_and_again_for_an_unknown_key(
    it: Apps, there: Pages, name: str
) -> None:
    old, new = fresh_key(), fresh_key()
    there.at["/jwks"] = Page(jwks(old))
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assert there.asked == []
    for _ in range(3):
        assert it.prove(name, it.assertion(name, old)).status_code == 200
    assert there.asked == ["/jwks"]
    there.at["/jwks"] = Page(jwks(new))
    assert it.prove(name, it.assertion(name, new)).status_code == 200
    assert len(there.asked) == 2
    # JW-23: replaced, not merged.
    _refused(it, name, it.assertion(name, old))


def test_ca_22_rotated_key_is_fetched_after_another_client_is_registered(
    it: Apps, there: Pages, name: str
) -> None:
    old, new = fresh_key(), fresh_key()
    there.at["/jwks"] = Page(jwks(old))
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assert it.prove(name, it.assertion(name, old)).status_code == 200
    # Another client is registered, which empties the cache of all clients.
    it.app(f"{name}other", jwks_uri=f"{there.url}/jwks")
    there.at["/jwks"] = Page(jwks(new))
    assert it.prove(name, it.assertion(name, new)).status_code == 200
    assert there.asked == ["/jwks", "/jwks"]
    _refused(it, name, it.assertion(name, old))


def _named(kid: str, claims: object, key: SigningKey) -> str:
    """An assertion whose header names another kid than that of its key."""
    unsigned = raw_jwt({"alg": "ES256", "kid": kid}, claims).removesuffix(".")
    return f"{unsigned}.{to_base64url(key.sign(unsigned.encode()))}"


def test_keys_with_a_shared_kid_or_unknown_type_do_not_invalidate_others(
    it: Apps, there: Pages, name: str
) -> None:
    old, new, third = fresh_key(), fresh_key(), fresh_key()
    listed = [{**key.public.jwk, "kid": "same"} for key in (old, new)]
    quantum = {"kty": "AKP", "alg": "ML-DSA-65", "kid": "same", "pub": "AAAA"}
    keys = [quantum, *listed, dict(third.public.jwk)]
    there.at["/jwks"] = Page(json.dumps({"keys": keys}).encode())
    it.app(name, jwks_uri=f"{there.url}/jwks")
    for key in (old, new):
        signed = _named("same", it.claims(name), key)
        assert it.prove(name, signed).status_code == 200
    assert it.prove(name, it.assertion(name, third)).status_code == 200
    signed = _named("same", it.claims(name), third)
    _refused(it, name, signed)


def test_jw_23_withdrawn_key_is_refused_when_the_cached_keys_expire(
    it: Apps, there: Pages, name: str
) -> None:
    old = fresh_key()
    there.at["/jwks"] = Page(jwks(old))
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assert it.prove(name, it.assertion(name, old)).status_code == 200
    there.at["/jwks"] = Page(jwks(fresh_key()))
    it.servers.clock.forward(minutes(5))
    _refused(it, name, it.assertion(name, old))


@pytest.mark.parametrize(
    "page",
    [
        Page(status=404),
        Page(status=500),
        Page(b'{"keys":[]}', slow=7),
        Page(b" " * 10 * 2**20),
        Page(b'{"keys":"none"}'),
        Page(b"<!doctype html><title>keys</title>", kind="text/html"),
        Page(status=302, headers=(("location", "/right"),)),
        Page(status=308, headers=(("location", "/right"),)),
    ],
    ids=["gone", "broken", "slow", "large", "odd", "html", "moved", "moved-for-good"],
)
def test_ca_23_assertion_is_refused_while_the_jwks_uri_is_unreadable(
    it: Apps, there: Pages, name: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.slow:
        monkeypatch.setattr(outbound, "ANSWER_WITHIN", 0.5)
    key = fresh_key()
    there.at |= {"/jwks": page, "/right": Page(jwks(key))}
    it.app(name, jwks_uri=f"{there.url}/jwks")
    _refused(it, name, it.assertion(name, key))
    assert "/right" not in there.asked
    # For a moment nobody asks again, and all are told at once.
    request_count = len(there.asked)
    _refused(it, name, it.assertion(name, key))
    assert len(there.asked) == request_count == 1


def test_ca_23_cause_of_a_failed_key_fetch_is_recorded(it: Apps, there: Pages, name: str) -> None:
    it.app(name, jwks_uri=f"{there.url}/jwks")
    there.at["/jwks"] = Page(status=500)
    reference = it.prove(name, it.assertion(name, fresh_key())).json()["reference"]
    decision = wait_until(lambda: it.servers.write(lambda tx: tx.decisions.find(reference)))
    assert decision is not None
    assert decision.check == "client.fetch.status"


def test_ca_23_valid_jwks_with_html_content_type_is_refused(
    it: Apps, there: Pages, name: str
) -> None:
    key = fresh_key()
    there.at["/jwks"] = Page(jwks(key), kind="text/html")
    it.app(name, jwks_uri=f"{there.url}/jwks")
    _refused(it, name, it.assertion(name, key))


def test_ca_23_cached_keys_are_used_for_a_day_while_their_server_fails(
    it: Apps, there: Pages, name: str
) -> None:
    key = fresh_key()
    there.at["/jwks"] = Page(jwks(key))
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assert it.prove(name, it.assertion(name, key)).status_code == 200
    there.at["/jwks"] = Page(status=503)
    it.servers.clock.forward(minutes(6))
    for _ in range(3):
        assert it.prove(name, it.assertion(name, key)).status_code == 200
    assert len(there.asked) == 2
    it.servers.clock.forward(minutes(24 * 60))
    _refused(it, name, it.assertion(name, key))


def test_ca_23_slow_jwks_uri_is_fetched_once_for_concurrent_requests(
    it: Apps, there: Pages, name: str
) -> None:
    key = fresh_key()
    there.at["/jwks"] = Page(jwks(key), slow=1)
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assertions = [it.assertion(name, key) for _ in range(12)]
    with ThreadPoolExecutor(12) as crowd:
        answers = list(crowd.map(it.prove, [name] * 12, assertions))
    assert {answer.status_code for answer in answers} == {200}
    assert there.connections == 1


def test_ca_23_unknown_keys_cause_no_repeated_fetches(it: Apps, there: Pages, name: str) -> None:
    key = fresh_key()
    there.at["/jwks"] = Page(jwks(key))
    it.app(name, jwks_uri=f"{there.url}/jwks")
    assert it.prove(name, it.assertion(name, key)).status_code == 200
    for _ in range(10):
        _refused(it, name, it.assertion(name, fresh_key()))
    assert len(there.asked) == 2
    # Half a minute later it is worth a look again.
    new = fresh_key()
    there.at["/jwks"] = Page(jwks(new))
    it.servers.clock.forward(seconds(30))
    assert it.prove(name, it.assertion(name, new)).status_code == 200


def test_ca_24_client_secret_jwt_requires_the_right_secret(it: Apps, name: str) -> None:
    it.app(name, SECRET, token_endpoint_auth_method="client_secret_jwt")
    for secret, status in ((SECRET, 200), (f"{SECRET}x", 401), ("x" * 40, 401)):
        assertion = sign_shared(it.claims(name), Secret(secret))
        assert it.prove(name, assertion).status_code == status
    once = sign_shared(it.claims(name), Secret(SECRET))
    assert it.prove(name, once).status_code == 200
    _refused(it, name, once)
    # Its secret is never shown any more, only used.
    form = {"grant_type": "client_credentials", "client_id": name}
    assert it.post({**form, "client_secret": SECRET}).status_code == 401
    assert it.post({"grant_type": "client_credentials"}, (name, SECRET)).status_code == 401


def test_ca_24_public_key_is_not_accepted_as_a_shared_secret(it: Apps, name: str) -> None:
    it.app(name)
    for secret in (jwks(it.key).decode(), it.key.public.text()):
        _refused(it, name, sign_shared(it.claims(name), Secret(secret)))


def test_ca_24_signature_by_a_secret_registered_for_basic_is_refused(it: Apps, name: str) -> None:
    it.app(name, SECRET, token_endpoint_auth_method="client_secret_basic")
    _refused(it, name, sign_shared(it.claims(name), Secret(SECRET)))


def test_ca_25_secret_is_accepted_only_by_its_registered_method(it: Apps, name: str) -> None:
    grant = {"grant_type": "client_credentials"}
    for method, in_header, in_body in (
        ("client_secret_basic", 200, 401),
        ("client_secret_post", 401, 200),
        ("", 200, 200),
    ):
        client_id = f"{name}-{method}"
        it.app(client_id, SECRET, token_endpoint_auth_method=method)
        assert it.post(grant, (client_id, SECRET)).status_code == in_header
        body = {**grant, "client_id": client_id, "client_secret": SECRET}
        assert it.post(body).status_code == in_body


def test_jw_02_assertion_with_unregistered_algorithm_is_refused(it: Apps, name: str) -> None:
    edwards = SigningKey.generate(Algorithm.EDDSA)
    with pages() as there:
        there.at["/jwks"] = Page(jwks(it.key, edwards))
        it.app(name, jwks_uri=f"{there.url}/jwks", token_endpoint_auth_signing_alg="EdDSA")
        assert it.prove(name, it.assertion(name, edwards)).status_code == 200
        _refused(it, name, it.assertion(name))


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "ES384"])
def test_jw_01_unsigned_and_unknown_algorithms_are_refused(it: Apps, name: str, alg: str) -> None:
    it.app(name)
    it.app(f"{name}-shared", SECRET, token_endpoint_auth_method="client_secret_jwt")
    for client_id in (name, f"{name}-shared"):
        for signature in (b"", bytes(64), bytes(32)):
            head = {"alg": alg, "typ": "JWT"}
            _refused(it, client_id, raw_jwt(head, it.claims(client_id), signature))


@pytest.mark.parametrize(
    "typ", ["oauth-authz-req+jwt", "at+jwt", "logout+jwt", "dpop+jwt", "application/at+jwt"]
)
def test_jw_11_jwt_of_another_type_is_no_assertion(it: Apps, name: str, typ: str) -> None:
    it.app(name)
    _refused(it, name, sign(it.claims(name), it.key, typ=typ))


def test_jw_11_a_request_object_is_no_assertion(it: Apps, name: str) -> None:
    it.app(name)
    request: dict[str, object] = {
        "sub": None,
        "jti": None,
        "client_id": name,
        "response_type": "code",
        "redirect_uri": CALLBACK,
    }
    for typ in ("", "JWT", "oauth-authz-req+jwt"):
        _refused(it, name, sign(it.claims(name, **request), it.key, typ=typ))


def test_jw_11_access_token_is_no_assertion(it: Apps, name: str) -> None:
    it.app(name)
    token = it.prove(name, it.assertion(name)).json()["access_token"]
    _refused(it, name, token)


def test_jw_13_assertion_must_be_compact_serialization(it: Apps, name: str) -> None:
    it.app(name)
    header, payload, signature = it.assertion(name).split(".")
    for text in (
        json.dumps({"payload": payload, "protected": header, "signature": signature}),
        f"{header}.{payload}.{payload}.{payload}.{signature}",
        f"{header}.{payload}",
        "." * 60_000,
    ):
        _refused(it, name, text)
