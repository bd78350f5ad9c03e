"""JW: what hostile tokens say, how they are spelt, what they pass for, and whose keys count."""

import asyncio
import json
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.attacks.tokens.jose import AccessTokens, Assertions, Claims, Target, forge, key_of, prove
from tests.support.live import PASSWORD, LiveServers, live_servers, secret_of
from tests.support.wait import wait_until
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import minutes, seconds
from valetkey.kernel.secret import to_base64url
from valetkey.resource.scopes import SCOPES
from valetkey.testing.browser import UserAgent


def _not_moments(now: int) -> tuple[object, ...]:
    return (str(now + 60), True, [now], {}, 2**53, -1, 1e300, "1e9", "")


def test_jw_10_malformed_expired_or_future_time_claims_are_refused(target: Target) -> None:
    now = int(target.world.servers.clock.now())
    assert target.takes(forge(target, claims={"nbf": now}))
    for name in ("exp", "nbf", "iat"):
        for value in _not_moments(now):
            assert not target.takes(forge(target, claims={name: value}))
    # RFC 7519 section 2: a NumericDate may have a fraction.
    assert target.takes(forge(target, claims={"exp": now + 60.5})) is not target.is_ours
    for claims in ({"exp": now - 11}, {"exp": 0}, {"nbf": now + 30}, {"iat": now + 90}):
        assert not target.takes(forge(target, claims=dict(claims)))
    assert not target.takes(forge(target, claims={"exp": None}))


@pytest.mark.parametrize("value", ["https://evil.test", "", 7, True, None, [], {}, ["x"]], ids=repr)
def test_jw_10_iss_aud_and_sub_must_match_exactly(target: Target, value: object) -> None:
    for name in ("iss", "aud", "sub"):
        if (name, type(target)) == ("sub", AccessTokens) and isinstance(value, str) and value:
            continue  # whoever holds the issuer's key may name any subject
        assert not target.takes(forge(target, claims={name: value}))
    address = target.world.auth
    for variant in (f"{address}/", address.upper(), f" {address}", f"{address}\0"):
        assert not target.takes(forge(target, claims={"iss": variant}))


def test_jw_10_audience_must_be_this_api(world: LiveServers, issuer_key: SigningKey) -> None:
    target = AccessTokens(world, issuer_key)
    # The API goes by RFC 9068. This server issues no token for several, and introspects none.
    several = forge(target, claims={"aud": ["https://other.example", world.api]})
    assert world.call(several).status == 200
    assert world.token(path="/oauth/introspect", token=several).response.text == '{"active":false}'
    # An identifier without a path is the same with a slash at its end.
    assert world.call(forge(target, claims={"aud": f"{world.api}/"})).status == 200
    for audience in (world.auth, f"{world.api}//", f"{world.api}/v2", [world.auth], [[world.api]]):
        assert not target.takes(forge(target, claims={"aud": audience}))
    for name in ("client_id", "jti", "sub", "iat"):
        assert not target.takes(forge(target, claims={name: None}))
    for scope in (7, ["notes:read"], "notes:read\tnotes:write", '"'):
        assert not target.takes(forge(target, claims={"scope": scope}))


@pytest.fixture(scope="module")
def issued(world: LiveServers) -> dict[str, str]:
    """One of each kind of secret that is about, none of them used."""
    person = UserAgent(world.auth)
    page = person.sign_in(world.ask(person, "web2"), "alice", PASSWORD)
    if not page.location:
        person.allow(page)
    held = world.tokens()
    return {
        "access token": held["access_token"],
        "reference": world.tokens("ref1")["access_token"],
        "own token": world.token("svc1", grant_type="client_credentials").json["access_token"],
        "refresh token": held["refresh_token"],
        "assertion": forge(Assertions(world, world.key)),
        "code": world.code(),
        "session": person.cookies["valetkey-session"],
        "browser": person.cookies["valetkey-browser"],
        "client secret": secret_of("web1"),
    }


def _introspected(world: LiveServers, value: str) -> bool:
    askers = ("web1", "ref1", "svc1")
    answers = [world.token(a, path="/oauth/introspect", token=value) for a in askers]
    return any(answer.response.text != '{"active":false}' for answer in answers)


def _signed_in(world: LiveServers, value: str) -> bool:
    query = "response_type=code&client_id=web2&prompt=none&scope=notes:read"
    answer = requests.get(
        f"{world.auth}/oauth/authorize?{query}",
        cookies={"valetkey-session": value},
        allow_redirects=False,
        timeout=60,
    )
    return "error=" not in answer.headers.get("location", "error=")


def _as_secret(world: LiveServers, value: str) -> bool:
    form = {"grant_type": "refresh_token", "refresh_token": "x"}
    return world.token(client_secret=value, **form).json["error"] == "invalid_grant"


_USES: dict[str, tuple[Callable[[LiveServers, str], bool], set[str]]] = {
    "at the API": (
        lambda w, v: 200 in {w.call(v, path).status for path in ("/v2/notes", "/v2/client")},
        {"access token", "reference", "own token"},
    ),
    "introspected": (
        _introspected,
        {"access token", "reference", "own token", "refresh token"},
    ),
    "as a proof": (lambda w, v: prove(w, v).status == 200, {"assertion"}),
    "as a code": (lambda w, v: w.exchange(v).status == 200, {"code"}),
    "as a refresh token": (lambda w, v: w.refresh(v).status == 200, {"refresh token"}),
    "as a session": (_signed_in, {"session"}),
    "as a secret": (_as_secret, {"client secret"}),
}


@pytest.mark.parametrize("use", _USES)
def test_jw_11_each_kind_of_token_is_accepted_only_for_its_own_use(
    world: LiveServers, issued: dict[str, str], use: str
) -> None:
    accepts, right = _USES[use]
    wrong = [kind for kind in issued if kind not in right and accepts(world, issued[kind])]
    assert not wrong
    # And what was tried everywhere it does not belong still works where it does.
    for kind in right:
        assert accepts(world, issued[kind]), kind
    world.servers.clock.forward(seconds(10))


def _not_strict(right: bytes) -> tuple[bytes, ...]:
    inner = right[1:-1]
    return (
        b"{" + inner + b"," + inner + b"}",
        right[:-1] + b',"x":NaN}',
        right[:-1] + b',"x":Infinity}',
        right[:-1] + b',"x":1e999}',
        right[:-1] + b',"x":' + b"9" * 400 + b"}",
        right[:-1] + b',"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        right[:-1] + b',"x":"\\ud800"}',
        right[:-1] + b',"x":"\xff"}',
        right[:-1] + b',"x":"\\u0000"}',
        right[:-1] + b",}",
        right + b"x",
        right + right,
        b"\xef\xbb\xbf" + right,
        right.decode().encode("utf-16"),
        b"[" + right + b"]",
        b"'" + right + b"'",
        b"null",
        b"true",
        b"",
    )


def _large(right: bytes) -> tuple[bytes, ...]:
    return (
        right[:-1] + b',"x":9007199254740993}',
        right[:-1] + b',"x":' + b'{"a":' * 9 + b"1" + b"}" * 9 + b"}",
    )


def test_jw_12_ambiguous_or_large_json_is_refused(target: Target) -> None:
    claims = json.dumps(target.claims()).encode()
    for hostile in _not_strict(claims):
        assert not target.takes(forge(target, claims=hostile))
    for large in _large(claims)[: 2 if target.is_ours else 0]:
        assert not target.takes(forge(target, claims=large))
    target.world.servers.clock.forward(minutes(2))
    header = json.dumps(
        {"alg": "ES256", "kid": target.key.kid, "typ": target.typ}, separators=(",", ":")
    ).encode()
    assert target.takes(forge(target, header))
    for hostile in (*_not_strict(header), *_large(header)):
        assert not target.takes(forge(target, hostile))


def test_jw_13_json_serialization_is_refused(target: Target) -> None:
    header, claims, signature = forge(target).split(".")
    flat = {"protected": header, "payload": claims, "signature": signature}
    signatures = [{"protected": header, "signature": signature}] * 2
    general = {"payload": claims, "signatures": signatures}
    for hostile in (
        json.dumps(flat),
        json.dumps(general),
        to_base64url(json.dumps(flat).encode()),
        f"{header}..{signature}",
        f"{header}.{claims}.{signature}.{signature}",
        f"{header}.{claims}.{signature}..",
        f".{header}.{claims}.{signature}",
        f"{claims}.{header}.{signature}",
        f"{header}.{to_base64url(forge(target).encode())}.{signature}",
        forge(target, claims=forge(target).encode()),
    ):
        assert not target.takes(hostile)


def test_jw_14_non_canonical_base64url_is_refused(target: Target) -> None:
    # A signature of 64 bytes leaves four bits that must be zero.
    token = forge(target)
    head, _, signature = token.rpartition(".")
    twin = signature[:-1] + chr(ord(signature[-1]) + 1)
    assert urlsafe_b64decode(twin + "==") == urlsafe_b64decode(signature + "==")
    standard = b64encode(urlsafe_b64decode(signature + "==")).decode()
    for hostile in (
        f"{head}.{twin}",
        f"{token}==",
        f"{token}=",
        f"{head}.{standard}",
        token.replace(".", "=.", 1),
        f"{head}.{signature[:40]}!{signature[40:]}",
        token.swapcase(),
        token.replace(".", "%2E"),
    ):
        assert not target.takes(hostile)


@pytest.mark.parametrize(
    "hostile",
    ["." * 1_000_000, "." * 30_000, "a.b.c.d", "..", "...", ".", "", "a" * 60_000, "a." * 8_000],
    ids=range(9),
)
def test_jw_15_malformed_tokens_are_refused_cheaply(
    world: LiveServers, target: Target, hostile: str
) -> None:
    whole = requests.post(
        f"{world.auth}/token",
        data={
            "grant_type": "client_credentials",
            "client_assertion": hostile,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        },
        timeout=60,
    )
    assert whole.status_code in {400, 401, 413}
    began = time.process_time()  # of the servers too: they run in this process
    introspection = world.post("/oauth/introspect", {"token": hostile})
    assert introspection.status in {400, 401, 413}
    answer = requests.get(
        f"{world.api}/v2/notes", headers={"Authorization": f"Bearer {hostile}"}, timeout=60
    )
    assert answer.status_code in {401, 431}
    assert time.process_time() - began < 5


def test_jw_16_a_token_has_at_most_16_kib(target: Target) -> None:
    assert target.takes(forge(target, claims={"x": "a" * 8_000}))
    for size in (13_000, 20_000, 45_000):
        token = forge(target, claims={"x": "a" * size})
        whole = requests.get(
            f"{target.world.api}/v2/notes", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        assert whole.status_code in {401, 431}
        assert prove(target.world, token).status in {401, 413}


def test_jw_20_cached_verification_ends_when_the_token_expires(
    world: LiveServers, issuer_key: SigningKey
) -> None:
    target = AccessTokens(world, issuer_key)
    token = forge(target)
    assert target.takes(token)
    head, _, signature = token.rpartition(".")
    assert not target.takes(f"{head}.{'A' * 85}A")
    assert not target.takes(f"{head[:-2]}AA.{signature}")
    assert target.takes(token)
    # Of its 60 seconds the real clock takes some while this test waits for a core.
    world.servers.clock.forward(seconds(50))
    assert target.takes(token)
    world.servers.clock.forward(seconds(10))
    assert not target.takes(token)


_P256 = json.loads(SigningKey.generate(Algorithm.ES256).public.text())


@pytest.mark.parametrize(
    "keys",
    [
        {}, [], "x", {"keys": {}}, {"keys": [7]}, {"keys": []}, {"keys": [{}]},
        {"keys": [{**_P256, "x": 7}]}, {"keys": [{**_P256, "x": None}]},
        {"keys": [{**_P256, "x": "AA"}]}, {"keys": [{**_P256, "x": _P256["y"]}]},
        {"keys": [{**_P256, "crv": "P-384"}]}, {"keys": [{**_P256, "crv": ["P-256"]}]},
        {"keys": [{**_P256, "kty": "oct", "k": "AAAA"}]}, {"keys": [{**_P256, "d": "AAAA"}]},
        {"keys": [{**_P256, "use": "enc"}]}, {"keys": [{**_P256, "alg": "HS256"}]},
        {"keys": [{**_P256, "kid": 7}]}, {"keys": [{**_P256, "kid": {"a": 1}}]},
        {"keys": [_P256, _P256]}, {"keys": [{**_P256, "kid": str(n)} for n in range(21)]},
        {"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": "_" * 343, "e": "AQ"}]},
        {"keys": [{"kty": "RSA", "n": "_" * 40_000, "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": -1, "e": 3}]},
        {"keys": [{"kty": "OKP", "crv": "X25519", "x": "A" * 43}]},
        {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "A" * 43}]},
        {"keys": [[[[[[[[[[_P256]]]]]]]]]]},
    ],
    ids=range(28),
)  # fmt: skip
def test_jw_21_malformed_key_set_is_a_validation_error(world: LiveServers, keys: object) -> None:
    metadata = ClientMetadata(
        name="Keys", grant_types=("client_credentials",), key_set=json.dumps(keys)
    )
    with world.nothing_changes(), pytest.raises(ValueError, match="key_set"):
        world.servers.register_client(metadata, "keys1")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LiveServers]:
    with live_servers(tmp_path) as servers:
        yield servers


def _rotate(world: LiveServers) -> None:
    async def rotate() -> None:
        servers = world.servers
        foundation = build_foundation(servers.settings, servers.runtime, SCOPES)
        await foundation.keys.rotate(servers.clock.now(), at_once=True, done_by=SYSTEM)
        await foundation.store.engine.close()

    asyncio.run(rotate())


def _published(world: LiveServers) -> set[str]:
    keys = requests.get(f"{world.auth}/oauth/jwks", timeout=60).json()["keys"]
    return {key["kid"] for key in keys}


def test_jw_22_rotated_key_is_fetched_and_the_old_one_kept(fresh: LiveServers) -> None:
    before, old = fresh.tokens()["access_token"], key_of(fresh).kid
    _rotate(fresh)
    wait_until(lambda: key_of(fresh).kid in _published(fresh))
    after = fresh.tokens()["access_token"]
    assert key_of(fresh).kid != old
    for token in (before, after):
        fresh.call(token).ok()
        assert fresh.introspect(token)["active"] is True


def test_jw_23_withdrawn_key_is_dropped_within_five_minutes(fresh: LiveServers) -> None:
    token, old = fresh.tokens()["access_token"], key_of(fresh).kid
    fresh.call(token).ok()
    _rotate(fresh)

    now = fresh.servers.clock.now()

    def withdraw(tx: Transaction) -> None:
        tx.db.run("UPDATE signing_keys SET removed_at = :now WHERE kid = :kid", now=now, kid=old)
        tx.db.run("UPDATE revision SET number = number + 1 WHERE name = 'directory'")

    fresh.servers.write(withdraw)
    wait_until(lambda: old not in _published(fresh))
    assert fresh.introspect(token) == {"active": False}
    # An API may keep a key set for five minutes, and then has another one, not both.
    fresh.servers.clock.forward(minutes(5))
    wait_until(lambda: fresh.call(token).status != 200, "the API still knows the key")
    assert fresh.call(token).json["title"] == "Invalid Token Error"
    fresh.call(fresh.tokens()["access_token"]).ok()


def test_jw_25_extra_claims_of_an_assertion_grant_nothing(world: LiveServers) -> None:
    target = Assertions(world, world.key)
    plain = prove(world, forge(target))
    claims: Claims = {
        "uid": 1, "scope": "read write admin", "roles": ["admin"], "client_id": "web1",
        "act": {"sub": "1"}, "grant_id": "gr_x", "cnf": {"jkt": "x"}, "auth_time": 1, "azp": "web1",
    }  # fmt: skip
    answer = prove(world, forge(target, claims=claims))
    answer.ok()
    assert set(answer.json) == set(plain.json)
    assert answer.json["scope"] == plain.json["scope"]
    payload = json.loads(urlsafe_b64decode(answer.json["access_token"].split(".")[1] + "=="))
    assert payload["sub"] == payload["client_id"] == "pk1"
    assert not {"uid", "roles", "act", "grant_id", "cnf", "azp"} & set(payload)
    prove(world, forge(target), scope="read").refused(400, "invalid_scope")
