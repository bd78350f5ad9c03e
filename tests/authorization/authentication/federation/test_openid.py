"""An OpenID provider: a real second Valetkey vouches for people, and hostile ones do not."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jwt as jose
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from tests.authorization.authentication.federation.rogue_provider import (
    CALLBACK,
    CODE,
    JOURNEY,
    KEY,
    NOW,
    announce,
    at_hash,
    claims,
    line,
    named,
    raw,
    signed,
)
from tests.support.pages import Page, Pages, pages
from valetkey.authorization.protocol.authorization_request import challenge_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.providers.rules.identities import (
    ClaimedIdentity,
    ProviderConnection,
    UpstreamState,
)
from valetkey.authorization.providers.rules.openid import OpenIdProvider
from valetkey.authorization.providers.settings import ProviderKind, ProviderSettings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers


async def _sent(provider: OpenIdProvider, upstream_state: UpstreamState) -> str:
    return await provider.authorization_url(upstream_state)


def test_real_server_identifies_the_user(tmp_path: Path) -> None:
    secret = "a secret that the other server gave to us"
    with Servers(tmp_path, with_resource=False) as other:
        metadata = ClientMetadata(
            "Us",
            redirect_uris=(CALLBACK,),
            grant_types=("authorization_code",),
            scopes=("openid", "email", "profile"),
        )
        other.register_client(metadata, "us", secret)
        ada = other.register_user("ada", "a good long password", name="Ada Lovelace")
        provider = OpenIdProvider(line(other.auth_url, secret=secret))
        person = UserAgent(other.auth_url)

        async def story() -> ClaimedIdentity:
            await provider.probe(JOURNEY)
            with pytest.raises(Refused) as refused:
                await OpenIdProvider(line(other.auth_url)).probe(JOURNEY)
            assert refused.value.refusal.check == "federation.client"
            page = person.open(await provider.authorization_url(JOURNEY))
            page = person.sign_in(page, "ada", "a good long password")
            back = person.allow(page)
            assert back.location.startswith(CALLBACK)
            # That server has a clock of its own, and the tests began a while ago.
            return await provider.read(dict(back.redirect_parameters), JOURNEY, SYSTEM.now())

        claimed = asyncio.run(story())

    assert claimed == ClaimedIdentity(
        other.auth_url, str(ada.uid), "ada@example.com", email_verified=True, name="Ada Lovelace",
        username="ada", auth_time=claimed.auth_time,
    )  # fmt: skip
    assert claimed.auth_time is not None


@pytest.fixture
def rogue() -> Iterator[Pages]:
    """A provider whose every answer a test writes."""
    with pages() as server:
        document = {
            "issuer": server.url,
            "authorization_endpoint": f"{server.url}/authorize",
            "token_endpoint": f"{server.url}/token",
            "jwks_uri": f"{server.url}/jwks",
        }
        server.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
        server.at["/jwks"] = Page(json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())
        yield server


def read(server: Pages, token: str, answer: Mapping[str, str] | None = None) -> ClaimedIdentity:
    """Who comes back with this ID token behind the code."""
    tokens = {"id_token": token, "token_type": "bearer", "access_token": "at"}
    server.at["/token"] = Page(json.dumps(tokens).encode())
    provider = OpenIdProvider(line(server.url))
    return asyncio.run(provider.read(answer or {"code": "abc"}, JOURNEY, NOW))


def check(server: Pages, token: str, answer: Mapping[str, str] | None = None) -> str:
    """The check that refuses it."""
    with pytest.raises(Refused) as refused:
        read(server, token, answer)
    return refused.value.refusal.check


def test_id_token_with_right_claims_is_accepted(rogue: Pages) -> None:
    identity = read(rogue, signed(claims(rogue)))
    assert (identity.subject, identity.proven_email) == ("248289761001", "ada@example.com")
    assert rogue.sent[-1]["code_verifier"] == JOURNEY.verifier


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"iss": "https://accounts.example"}, "federation.jwt.iss"),
        ({"aud": "somebody else"}, "federation.jwt.aud"),
        ({"exp": NOW - 61}, "federation.jwt.exp"),
        ({"exp": None}, "federation.jwt.exp"),
        ({"iat": NOW + 3600}, "federation.jwt.iat"),
        ({"nonce": "é"}, "federation.nonce"),
        ({"at_hash": "é"}, "federation.at_hash"),
        ({"iat": None}, "federation.iat"),
        ({"iat": NOW - 2 * 86_400}, "federation.iat"),
        ({"iat": "now"}, "federation.jwt.iat"),
        ({"iat": True}, "federation.jwt.iat"),
        ({"exp": str(NOW + 300)}, "federation.jwt.exp"),
        ({"nbf": NOW + 300.5}, "federation.jwt.nbf"),
        ({"aud": []}, "federation.jwt.aud"),
        ({"aud": ["them"], "azp": "us"}, "federation.jwt.aud"),
        ({"aud": ["us", 7], "azp": "us"}, "federation.jwt.aud"),
        ({"aud": ["us", "them"]}, "federation.azp"),
        ({"aud": ["us", "them"], "azp": None}, "federation.azp"),
        ({"aud": ["us", "them"], "azp": ["us"]}, "federation.azp"),
        ({"aud": ["us"], "azp": "them"}, "federation.azp"),
        ({"nonce": "of another trip"}, "federation.nonce"),
        ({"nonce": None}, "federation.nonce"),
        ({"nonce": 7}, "federation.nonce"),
        ({"aud": ["us", "them"], "azp": "them"}, "federation.azp"),
        ({"azp": "them"}, "federation.azp"),
        ({"sub": None}, "federation.sub"),
        ({"sub": ""}, "federation.sub"),
        ({"sub": "x" * 256}, "federation.sub"),
        ({"sub": 7}, "federation.jwt.sub"),
    ],
)
def test_wrong_claims_are_refused(rogue: Pages, more: dict[str, object], why: str) -> None:
    assert check(rogue, signed(claims(rogue, **more))) == why


@pytest.mark.parametrize(
    "more",
    [
        {"iat": NOW - 300.25, "exp": NOW + 300.75, "nbf": NOW - 300.5},
        {"iat": NOW - 300, "nbf": NOW - 300},
        {"exp": NOW - 59},
        {"aud": ["us"]},
        {"aud": ["us", "us"]},
        {"aud": ["us"], "azp": "us"},
        {"azp": "us"},
        {"aud": ["us", "them"], "azp": "us"},
        {"jti": 7, "groups": ["g" * 36] * 500, "acr": None},
        {"deep": [[[[[[[[[[{"a": 1}]]]]]]]]]], "big": 2**70, "odd": "\n<b>", "float": 1e-3},
        {"email_verified": "true", "is_private_email": "false"},
        {"at_hash": 7},
    ],
    ids=named,
)
def test_valid_id_token_may_have_additional_claims(rogue: Pages, more: dict[str, object]) -> None:
    assert read(rogue, raw(claims(rogue, **more), {})).subject == "248289761001"


_HEADERS = (
    # Microsoft Entra and ADFS
    {"typ": "JWT", "x5t": "nOo3ZDrODXEK1jKWhXslHR_KXEg"},
    {"x5t#S256": "x", "x5c": ["MII"], "x5u": "http://127.0.0.1/x"},
    {"jku": "http://127.0.0.1/jwks", "jwk": {"kty": "oct", "k": "AA"}},
    {"typ": None},
    {"typ": "JWS"},
    {"typ": "JOSE"},
    {"typ": "application/JWT"},
    {"typ": "id_token+jwt"},
    {"cty": "JWT", "zip": "DEF", "b64": True, "unknown": {"a": [1, 2.5]}, "pi.attr": 2**60},
)


@pytest.mark.parametrize("more", _HEADERS, ids=str)
def test_header_parameters_that_are_not_understood_are_ignored(
    rogue: Pages, more: dict[str, object]
) -> None:
    assert read(rogue, raw(claims(rogue), more)).subject
    assert not [path for path in rogue.asked if path == "/x"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"crit": ["exp"]}, "federation.jwt.header"),
        ({"crit": ["b64"], "b64": False}, "federation.jwt.header"),
        ({"crit": []}, "federation.jwt.header"),
        ({"b64": False}, "federation.jwt.header"),
        ({"typ": "at+jwt"}, "federation.jwt.typ"),
        ({"typ": "logout+jwt"}, "federation.jwt.typ"),
        ({"typ": "application/oauth-id-jag+jwt"}, "federation.jwt.typ"),
        ({"alg": "none"}, "federation.jwt.alg"),
        ({"alg": "HS256"}, "federation.jwt.alg"),
        ({"alg": "RS1"}, "federation.jwt.alg"),
        ({"alg": "RS256"}, "federation.jwt.key"),
        ({"alg": "ES384"}, "federation.jwt.key"),
        ({"alg": ["ES256"]}, "federation.jwt.alg"),
        ({"kid": "two"}, "federation.jwt.key"),
        ({"kid": 7}, "federation.jwt.kid"),
        ({"odd": "\0"}, "federation.jwt.header"),
        ({"odd": "\ud800"}, "federation.jwt.header"),
    ],
    ids=named,
)
def test_invalid_id_token_header_is_refused(
    rogue: Pages, more: dict[str, object], why: str
) -> None:
    assert check(rogue, raw(claims(rogue), more)) == why


RSA = RSAKey.generate_key(2048)


def _signers(rsa: RSAKey) -> Mapping[str, Key]:
    return {
        **{f"{family}{bits}": rsa for family in ("RS", "PS") for bits in (256, 384, 512)},
        "ES256": ECKey.generate_key("P-256"),
        "ES384": ECKey.generate_key("P-384"),
        "ES512": ECKey.generate_key("P-521"),
        "EdDSA": OKPKey.generate_key("Ed25519"),
        "Ed25519": OKPKey.generate_key("Ed25519"),
        "Ed448": OKPKey.generate_key("Ed448"),
    }


_SIGNERS, _STRANGERS = _signers(RSA), _signers(RSAKey.generate_key(2048))
_OTHERS: tuple[dict[str, object], ...] = (
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA", "kid": "pq"},
    {"kty": "oct", "k": "AAAA"},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
    {"kty": "OKP", "crv": "X25519", "x": "AA"},
    {"kty": 7},
)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("alg", _SIGNERS)
def test_algorithms_of_jwa_are_verified(rogue: Pages, alg: str) -> None:
    key = _SIGNERS[alg]
    others = [
        signer.as_dict(private=False) for signer in {id(k): k for k in _SIGNERS.values()}.values()
    ]
    for keys in ([*_OTHERS, *others], [key.as_dict(private=False)]):
        # Without kid: the keys of the algorithm are tried (Core section 10.1).
        rogue.at["/jwks"] = Page(json.dumps({"keys": keys}).encode())
        access = {"access_token": "at", "at_hash": at_hash(alg, "at")}
        token = jose.encode({"alg": alg}, claims(rogue, at_hash=access["at_hash"]), key, [alg])
        page = {"id_token": token, "access_token": "at"}
        rogue.at["/token"] = Page(json.dumps(page).encode())
        assert asyncio.run(OpenIdProvider(line(rogue.url)).read(CODE, JOURNEY, NOW)).subject
        rogue.at["/token"] = Page(json.dumps({**page, "access_token": "another"}).encode())
        if alg[:2] != "Ed":
            with pytest.raises(Refused) as refused:
                asyncio.run(OpenIdProvider(line(rogue.url)).read(CODE, JOURNEY, NOW))
            assert refused.value.refusal.check == "federation.at_hash"
    token = jose.encode({"alg": alg}, claims(rogue), _STRANGERS[alg], [alg])
    assert check(rogue, token) == "federation.jwt.signature"


@pytest.mark.parametrize(
    ("published", "kid", "why"),
    [
        # A kid twice, of keys of one or of two types.
        ([("one", "new"), ("one", "old")], "one", ""),
        ([("one", "old"), ("one", "new")], "one", ""),
        ([("one", "rsa"), ("one", "new")], "one", ""),
        ([("one", "rsa"), ("two", "new")], None, ""),
        ([(None, "rsa"), (None, "new")], None, ""),
        ([(None, "old"), (None, "new")], None, ""),
        # A key without kid can be that of any kid.
        ([(None, "new")], "one", ""),
        ([("two", "new")], "one", "federation.jwt.key"),
        ([("one", "rsa")], "one", "federation.jwt.key"),
        ([("one", "old"), ("two", "new")], "one", "federation.jwt.signature"),
        ([], "one", "federation.jwt.key"),
    ],
    ids=named,
)
def test_key_is_chosen_by_kid_and_algorithm(
    rogue: Pages, published: list[tuple[str | None, str]], kid: str | None, why: str
) -> None:
    signers: Mapping[str, Key] = {"new": KEY, "old": ECKey.generate_key("P-256"), "rsa": RSA}
    keys = [{**signers[name].as_dict(private=False), "kid": key_id} for key_id, name in published]
    shown = [{n: v for n, v in key.items() if v is not None} for key in keys]
    rogue.at["/jwks"] = Page(json.dumps({"keys": shown}).encode())
    token = raw(claims(rogue), {"kid": kid})
    if why:
        assert check(rogue, token) == why
    else:
        assert read(rogue, token).subject


@pytest.mark.parametrize("kid", ["one", None])
def test_keys_that_changed_under_their_kid_are_read_again_once(
    rogue: Pages, kid: str | None
) -> None:
    moment = [NOW]
    settings = ProviderSettings("other", "Other", ProviderKind.OPENID, rogue.url, "us")
    door = OutboundHttp([ip_network("127.0.0.0/8")], lambda: moment[0])
    provider = OpenIdProvider(
        ProviderConnection(settings, Secret("s" * 40), door, lambda: moment[0])
    )
    newer = ECKey.generate_key("P-256")

    def publish(key: ECKey) -> None:
        shown = {**key.as_dict(private=False), **({"kid": kid} if kid else {})}
        if not kid:
            shown.pop("kid", None)
        rogue.at["/jwks"] = Page(json.dumps({"keys": [shown]}).encode())

    async def come(key: ECKey, times: int = 1) -> list[ClaimedIdentity | BaseException]:
        page = {"id_token": raw(claims(rogue), {"kid": kid}, key)}
        rogue.at["/token"] = Page(json.dumps(page).encode())
        came = (provider.read(CODE, JOURNEY, NOW) for _ in range(times))
        return await asyncio.gather(*came, return_exceptions=True)

    async def story() -> None:
        publish(KEY)
        assert all(isinstance(outcome, ClaimedIdentity) for outcome in await come(KEY))
        publish(newer)
        # Sign-ins at the same time share the request.
        outcomes = await come(newer, 5)
        assert all(isinstance(outcome, ClaimedIdentity) for outcome in outcomes), outcomes
        assert rogue.asked.count("/jwks") == 2
        # Tokens that nobody signed do not make a request each.
        assert all(isinstance(outcome, Refused) for outcome in await come(KEY, 5))
        assert rogue.asked.count("/jwks") == 2

    asyncio.run(story())


def test_refusal_states_expected_and_received_value_without_the_nonce(rogue: Pages) -> None:
    def refusal(token: str) -> tuple[str, str]:
        with pytest.raises(Refused) as refused:
            read(rogue, token)
        return refused.value.refusal.expected, refused.value.refusal.received

    assert refusal(signed(claims(rogue, iss="https://else.example"))) == (
        rogue.url,
        "https://else.example",
    )
    assert refusal(signed(claims(rogue, aud="them\n"))) == ("us", "them?")
    assert refusal(signed(claims(rogue, exp=NOW - 100)))[1] == str(NOW - 100)
    assert refusal(raw(claims(rogue), {"kid": "two"}))[1] == "ES256, kid two"
    assert refusal(raw(claims(rogue), {"alg": "HS256"}))[1] == "HS256"
    assert refusal(raw(claims(rogue), {"typ": "at+jwt"}))[1] == "at+jwt"
    assert JOURNEY.nonce not in str(refusal(signed(claims(rogue, nonce="secret"))))
    assert "secret" not in str(refusal(signed(claims(rogue, nonce="secret"))))


def test_signature_of_another_key_is_refused(rogue: Pages) -> None:
    stranger = ECKey.generate_key("P-256", {"kid": "one"})
    assert check(rogue, signed(claims(rogue), stranger)) == "federation.jwt.signature"
    by_secret = signed(claims(rogue), OctKey.import_key("s" * 40), "HS256")
    assert check(rogue, by_secret) == "federation.jwt.alg"
    head, body, _ = signed(claims(rogue)).split(".")
    assert check(rogue, f"{head}.{body}.") == "federation.jwt.encoding"
    assert check(rogue, "not a token") == "federation.jwt.form"


def test_email_is_proven_only_if_valid_and_email_verified_is_true(rogue: Pages) -> None:
    # Apple and Cognito send a string.
    assert read(rogue, signed(claims(rogue, email_verified="true"))).proven_email
    for value in ("false", "TRUE", "1", 1, 1.0, None, False, [True]):
        identity = read(rogue, signed(claims(rogue, email_verified=value)))
        assert identity.proven_email == ""
    for address in ("a b@example.com", "ada@", "@example.com", "x\n@example.com", 7, "a" * 300):
        assert read(rogue, signed(claims(rogue, email=address))).proven_email == ""


def test_claims_missing_in_the_id_token_come_from_userinfo(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    document["userinfo_endpoint"] = f"{rogue.url}/userinfo"
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
    token = signed(claims(rogue, email=None, email_verified=None))
    answer = {"id_token": token, "access_token": "at"}
    good = {"sub": "248289761001", "email": "ada@example.com", "email_verified": True}
    for userinfo, proven in (
        (good, "ada@example.com"),
        ({**good, "sub": "somebody else"}, ""),
        ({**good, "email_verified": "true"}, "ada@example.com"),
        ({**good, "email_verified": "false"}, ""),
        ([], ""),
    ):
        rogue.at["/userinfo"] = Page(json.dumps(userinfo).encode())
        rogue.at["/token"] = Page(json.dumps(answer).encode())
        provider = OpenIdProvider(line(rogue.url))
        assert asyncio.run(provider.read({"code": "a"}, JOURNEY, NOW)).proven_email == proven


def test_named_claims_are_kept_from_id_token_and_userinfo(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    document["userinfo_endpoint"] = f"{rogue.url}/userinfo"
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
    more = {"sub": "248289761001", "hd": "of userinfo", "unit": [1], "secret": "x"}
    rogue.at["/userinfo"] = Page(json.dumps(more).encode())

    def kept(keep: tuple[str, ...], **changes: object) -> object:
        answer = {"id_token": raw(claims(rogue, **changes), {}), "access_token": "at"}
        rogue.at["/token"] = Page(json.dumps(answer).encode())
        provider = OpenIdProvider(line(rogue.url, keep=keep))
        return asyncio.run(provider.read({"code": "a"}, JOURNEY, NOW)).kept_claims

    assert kept((), hd="a.example") is None
    assert kept(("hd", "unit", "none"), hd="a.example") == {"hd": "a.example", "unit": [1]}
    assert kept(("none",), hd="a.example") == {}
    with pytest.raises(Refused) as refused:
        kept(("hd",), hd="x" * 8_200)
    assert refused.value.refusal.check == "federation.kept_claims"
    # A response that cannot be used must not end what was kept.
    for page in (
        Page(json.dumps({**more, "sub": "another"}).encode()),
        Page(json.dumps({"unit": [1]}).encode()),
        Page(b"{"),
        Page(b"[]"),
        Page(status=502),
        Page(b"<html>", kind="text/html"),
        Page(_userinfo_jwt(rogue, aud="them"), kind="application/jwt"),
        Page(_userinfo_jwt(rogue, sub="another"), kind="application/jwt"),
        Page(_userinfo_jwt(rogue)[:-2], kind="application/jwt"),
    ):
        rogue.at["/userinfo"] = page
        assert kept(("hd",), hd="a.example") == {"hd": "a.example"}
        with pytest.raises(Refused) as refused:
            kept(("unit",))
        assert refused.value.refusal.check == "federation.userinfo"
    # Signed userinfo may omit all but `sub` (Core section 5.3.2).
    for omissions in ({}, {"iss": None, "aud": None, "exp": None, "iat": None}):
        body = _userinfo_jwt(rogue, **omissions)
        rogue.at["/userinfo"] = Page(body, kind="application/jwt; charset=utf-8")
        assert kept(("unit",)) == {"unit": [1]}
    # Numbers and texts that not every JSON parser reads are not kept.
    for odd in (10**30, 2**53, {"a": [[[[[[[[[1]]]]]]]]]}):
        with pytest.raises(Refused) as refused:
            kept(("hd",), hd=odd)
        assert refused.value.refusal.check == "federation.kept_claims"
    rogue.at["/token"] = Page(json.dumps({"id_token": signed(claims(rogue))}).encode())
    with pytest.raises(Refused):
        asyncio.run(OpenIdProvider(line(rogue.url, keep=("unit",))).read(CODE, JOURNEY, NOW))


def _userinfo_jwt(server: Pages, **more: object) -> bytes:
    return signed(claims(server, nonce=None, unit=[1], **more)).encode()


def test_response_with_another_iss_is_refused(rogue: Pages) -> None:
    token = signed(claims(rogue))
    assert check(rogue, token, {"code": "abc", "iss": "https://else.example"}) == "federation.iss"
    assert read(rogue, token, {"code": "abc", "iss": rogue.url}).subject


def test_response_without_an_announced_iss_is_refused(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    document["authorization_response_iss_parameter_supported"] = True
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
    assert check(rogue, signed(claims(rogue))) == "federation.iss"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"error": "access_denied"}, "federation.declined"),
        ({"error": "server_error"}, "federation.error"),
        ({"state": "x"}, "federation.code"),
        ({"code": "x" * 2001}, "federation.code"),
        ({"code": "a\nb"}, "federation.code"),
    ],
)
def test_response_without_code_is_refused(rogue: Pages, answer: dict[str, str], why: str) -> None:
    assert check(rogue, signed(claims(rogue)), answer) == why
    assert not rogue.sent


def test_invalid_discovery_document_is_refused(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    for more, why in (
        ({"issuer": "https://accounts.example"}, "federation.discovery_issuer"),
        ({"token_endpoint": "http://inside.example/token"}, "federation.discovery_endpoint"),
        ({"jwks_uri": 7}, "federation.discovery"),
    ):
        body = json.dumps({**document, **more}).encode()
        rogue.at["/.well-known/openid-configuration"] = Page(body)
        assert check(rogue, signed(claims(rogue))) == why
    rogue.at["/.well-known/openid-configuration"] = Page(status=500)
    assert check(rogue, signed(claims(rogue))) == "federation.discovery"


_MISMATCH = ("federation.redirect_uri", "redirect_uri_mismatch")


def test_probe_reports_the_first_problem(rogue: Pages) -> None:
    provider = OpenIdProvider(line(rogue.url))

    def probed() -> tuple[str, str]:
        try:
            asyncio.run(provider.probe(JOURNEY))
        except Refused as refused:
            return refused.refusal.check, refused.refusal.received
        return "", ""

    for body, status, finding in (
        (b'{"error": "invalid_grant"}', 400, ("", "")),
        (b'{"error": "invalid_client"}', 400, ("federation.client", "invalid_client")),
        (b"", 401, ("federation.client", "")),
        (b'{"error": "redirect_uri_mismatch"}', 400, _MISMATCH),
        (b'{"error": "\\u0000<b>"}', 400, ("federation.token", "status 400")),
        (b"<html>", 200, ("federation.token", "status 200")),
    ):
        rogue.at["/token"] = Page(body, status=status)
        assert probed() == finding, body
    rogue.at["/token"] = Page(b'{"error": "invalid_grant"}', status=400)
    shown = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    for algorithms, finding in (
        (["RS256", "ES256"], ("", "")),
        (["RS1", "none"], ("federation.jwt.alg", "RS1, none")),
        (["RS256"], ("federation.keys", "1 usable keys")),
    ):
        document = {**shown, "id_token_signing_alg_values_supported": algorithms}
        rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
        assert probed() == finding
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(shown).encode())
    late = ProviderConnection(
        provider.settings,
        provider.line.secret,
        provider.line.http,
        lambda: Instant(SYSTEM.now() + 600),
    )
    with pytest.raises(Refused) as refused:
        asyncio.run(OpenIdProvider(late).probe(JOURNEY))
    assert refused.value.refusal.check == "federation.clock"
    assert "behind" in refused.value.refusal.received
    rogue.at["/jwks"] = Page(b'{"keys": []}')
    assert probed()[0] == "federation.keys"
    # Cached metadata would hide that the provider is gone.
    del rogue.at["/.well-known/openid-configuration"]
    assert probed()[0] == "federation.discovery"


def test_changed_provider_keys_are_fetched_again(rogue: Pages) -> None:
    provider = OpenIdProvider(line(rogue.url))
    newer = ECKey.generate_key("P-256", {"kid": "two", "alg": "ES256", "use": "sig"})

    async def both() -> tuple[ClaimedIdentity, ClaimedIdentity]:
        rogue.at["/token"] = Page(json.dumps({"id_token": signed(claims(rogue))}).encode())
        first = await provider.read({"code": "a"}, JOURNEY, NOW)
        rogue.at["/jwks"] = Page(json.dumps({"keys": [newer.as_dict(private=False)]}).encode())
        head = {"alg": "ES256", "kid": "two"}
        token = jose.encode(head, claims(rogue), newer, algorithms=["ES256"])
        rogue.at["/token"] = Page(json.dumps({"id_token": token}).encode())
        return first, await provider.read({"code": "b"}, JOURNEY, NOW)

    first, second = asyncio.run(both())
    assert first.subject == second.subject


def test_reauthentication_is_requested_upstream(rogue: Pages) -> None:
    provider = OpenIdProvider(line(rogue.url))
    url = asyncio.run(_sent(provider, replace(JOURNEY, fresh=True)))
    query = dict(parse_qsl(urlsplit(url).query))
    assert (query["prompt"], query["nonce"], query["state"]) == ("login", JOURNEY.nonce, "state")
    assert query["max_age"] == "0"
    assert query["code_challenge_method"] == "S256"
    assert JOURNEY.verifier not in url
    assert "max_age" not in asyncio.run(_sent(provider, JOURNEY))


@pytest.mark.parametrize(
    ("more", "proves"),
    [
        ({"auth_time": NOW - 30}, True),
        ({"auth_time": NOW - 60}, True),
        ({"auth_time": NOW}, True),
        # Another clock, which is half a minute late.
        ({"auth_time": NOW - 90, "iat": NOW - 30}, True),
        ({"auth_time": None}, False),
        ({"auth_time": "now"}, False),
        ({"auth_time": True}, False),
        ({"auth_time": NOW - 63}, False),
        ({"auth_time": NOW - 3600}, False),
        ({"auth_time": NOW - 3600, "iat": NOW - 3600}, False),
        ({"auth_time": NOW + 3600}, False),
    ],
    ids=named,
)
def test_mf_05_stale_upstream_login_is_refused(
    rogue: Pages, more: dict[str, object], *, proves: bool
) -> None:
    provider = OpenIdProvider(line(rogue.url))
    token = signed(claims(rogue, **more))
    rogue.at["/token"] = Page(json.dumps({"id_token": token}).encode())

    def come_back(upstream_state: UpstreamState) -> str:
        try:
            return asyncio.run(provider.read({"code": "abc"}, upstream_state, NOW)).subject
        except Refused as refused:
            return refused.refusal.check

    anew = replace(JOURNEY, fresh=True, departed_at=Instant(NOW - 60))
    assert come_back(anew) == ("248289761001" if proves else "federation.auth_time")
    assert come_back(replace(anew, departed_at=Instant(0))) == "federation.auth_time"
    assert come_back(JOURNEY) == "248289761001"


def test_provider_metadata_is_cached_for_ten_minutes(rogue: Pages) -> None:
    moment = [NOW]
    settings = ProviderSettings("other", "Other", ProviderKind.OPENID, rogue.url, "us")
    door = OutboundHttp([ip_network("127.0.0.0/8")], lambda: moment[0])
    provider = OpenIdProvider(
        ProviderConnection(settings, Secret("s" * 40), door, lambda: moment[0])
    )

    async def story() -> list[int]:
        counts: list[int] = []
        for later in (0, 599, 601):
            moment[0] = Instant(NOW + later)
            await provider.authorization_url(JOURNEY)
            counts.append(len(rogue.asked))
        rogue.at.clear()
        moment[0] = Instant(NOW + 2000)
        await provider.authorization_url(JOURNEY)
        return counts

    assert asyncio.run(story()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("announced", "method"),
    [
        ({}, "S256"),
        ({"code_challenge_methods_supported": ["plain", "S256"]}, "S256"),
        ({"code_challenge_methods_supported": ["plain"]}, "plain"),
        ({"code_challenge_methods_supported": []}, None),
    ],
    ids=named,
)
def test_pkce_method_follows_the_provider_metadata(
    rogue: Pages, announced: dict[str, object], method: str | None
) -> None:
    announce(rogue, **announced)
    url = asyncio.run(_sent(OpenIdProvider(line(rogue.url)), JOURNEY))
    query = dict(parse_qsl(urlsplit(url).query))
    assert query.get("code_challenge_method") == method
    values = {None: None, "plain": JOURNEY.verifier, "S256": challenge_of(JOURNEY.verifier)}
    assert query.get("code_challenge") == values[method]
    assert query["nonce"] == JOURNEY.nonce


def test_response_mode_is_form_post_where_nothing_else_is_announced(rogue: Pages) -> None:
    for modes, mode in ((["query", "form_post"], None), (["form_post"], "form_post")):
        announce(rogue, response_modes_supported=modes)
        url = asyncio.run(_sent(OpenIdProvider(line(rogue.url)), JOURNEY))
        assert dict(parse_qsl(urlsplit(url).query)).get("response_mode") == mode


def test_id_tokens_are_signed_with_the_secret_only_where_that_is_announced(rogue: Pages) -> None:
    def by(secret: str) -> str:
        return signed(claims(rogue), OctKey.import_key(secret), "HS256")

    assert check(rogue, by("s" * 40)) == "federation.jwt.alg"
    announce(rogue, id_token_signing_alg_values_supported=["HS256", "ES256"])
    assert read(rogue, by("s" * 40)).subject
    assert read(rogue, signed(claims(rogue))).subject
    # Neither another secret nor a published key is the client secret.
    for other in (
        "t" * 40,
        rogue.at["/jwks"].body.decode(),
        json.dumps(KEY.as_dict(private=False)),
    ):
        assert check(rogue, by(other)) == "federation.jwt.signature"
    provider = OpenIdProvider(line(rogue.url))
    assertion = provider.verify_assertion(by("s" * 40), typ="jwt", audience="us", now=NOW)
    with pytest.raises(Refused) as refused:
        asyncio.run(assertion)
    assert refused.value.refusal.check == "federation.jwt.alg"
