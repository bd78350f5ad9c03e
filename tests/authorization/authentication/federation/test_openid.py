"""An OpenID provider: a real second Valetkey vouches for people, and hostile ones do not."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jwt as jose
from joserfc.jwk import ECKey, OctKey

from tests.support.pages import Page, Pages, pages
from valetkey.authorization.authentication.federation.openid import OpenIdProvider
from valetkey.authorization.authentication.federation.provider import (
    ClaimedIdentity,
    ProviderConnection,
    UpstreamState,
)
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.federation import ProviderKind, ProviderSettings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

CALLBACK = "http://127.0.0.1:9/oauth/sign-in/with/other/callback"
JOURNEY = UpstreamState("state", "the-nonce-of-this-trip", "v" * 43, CALLBACK)
NOW = SYSTEM.now()


def line(
    issuer: str, client_id: str = "us", secret: str = "s" * 40, keep: tuple[str, ...] = ()
) -> ProviderConnection:
    """To a provider on loopback."""
    settings = ProviderSettings(
        "other", "Other", ProviderKind.OPENID, issuer, client_id, keep_claims=keep
    )
    door = OutboundHttp([ip_network("127.0.0.0/8")], lambda: NOW)
    return ProviderConnection(settings, Secret(secret), door, lambda: NOW)


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


KEY = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})


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


def claims(server: Pages, **more: object) -> dict[str, object]:
    """What a good ID token says, changed by `more`; None leaves one out."""
    said: dict[str, object] = {
        "iss": server.url,
        "sub": "248289761001",
        "aud": "us",
        "exp": NOW + 300,
        "iat": NOW,
        "nonce": JOURNEY.nonce,
        "email": "ada@example.com",
        "email_verified": True,
    }
    return {name: value for name, value in {**said, **more}.items() if value is not None}


def signed(said: Mapping[str, object], key: ECKey | OctKey = KEY, alg: str = "ES256") -> str:
    """As that provider would."""
    return jose.encode({"alg": alg, "kid": "one"}, dict(said), key, algorithms=[alg])


def read(server: Pages, token: str, answer: Mapping[str, str] | None = None) -> ClaimedIdentity:
    """Who comes back with this ID token behind the code."""
    server.at["/token"] = Page(json.dumps({"id_token": token, "token_type": "bearer"}).encode())
    provider = OpenIdProvider(line(server.url))
    return asyncio.run(provider.read(answer or {"code": "abc"}, JOURNEY, NOW))


def check(server: Pages, token: str, answer: Mapping[str, str] | None = None) -> str:
    """The check that refuses it."""
    with pytest.raises(Refused) as refused:
        read(server, token, answer)
    return refused.value.refusal.check


def test_a_good_token_is_believed(rogue: Pages) -> None:
    found = read(rogue, signed(claims(rogue)))
    assert (found.subject, found.proven_email) == ("248289761001", "ada@example.com")
    assert rogue.sent[-1]["code_verifier"] == JOURNEY.verifier


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"iss": "https://accounts.example"}, "federation.jwt.iss"),
        ({"aud": "somebody else"}, "federation.jwt.aud"),
        ({"exp": NOW - 61}, "federation.jwt.exp"),
        ({"exp": None}, "federation.jwt.exp"),
        ({"iat": NOW + 3600}, "federation.jwt.iat"),
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
def test_anything_else_is_not(rogue: Pages, more: dict[str, object], why: str) -> None:
    assert check(rogue, signed(claims(rogue, **more))) == why


def test_signature_of_another_key_is_refused(rogue: Pages) -> None:
    stranger = ECKey.generate_key("P-256", {"kid": "one"})
    assert check(rogue, signed(claims(rogue), stranger)) == "federation.jwt.signature"
    by_secret = signed(claims(rogue), OctKey.import_key("s" * 40), "HS256")
    assert check(rogue, by_secret) == "federation.jwt.alg"
    head, body, _ = signed(claims(rogue)).split(".")
    assert check(rogue, f"{head}.{body}.") == "federation.jwt.encoding"
    assert check(rogue, "not a token") == "federation.jwt.form"


def test_an_address_is_proven_by_the_word_true_alone(rogue: Pages) -> None:
    for said in ("true", 1, None, False, [True]):
        found = read(rogue, signed(claims(rogue, email_verified=said)))
        assert found.proven_email == ""
    for address in ("a b@example.com", "ada@", "@example.com", "x\n@example.com", 7, "a" * 300):
        assert read(rogue, signed(claims(rogue, email=address))).proven_email == ""


def test_claims_missing_in_the_id_token_come_from_userinfo(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    document["userinfo_endpoint"] = f"{rogue.url}/userinfo"
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
    token = signed(claims(rogue, email=None, email_verified=None))
    answer = {"id_token": token, "access_token": "at"}
    good = {"sub": "248289761001", "email": "ada@example.com", "email_verified": True}
    for said, proven in (
        (good, "ada@example.com"),
        ({**good, "sub": "somebody else"}, ""),
        ({**good, "email_verified": "true"}, ""),
        ([], ""),
    ):
        rogue.at["/userinfo"] = Page(json.dumps(said).encode())
        rogue.at["/token"] = Page(json.dumps(answer).encode())
        provider = OpenIdProvider(line(rogue.url))
        assert asyncio.run(provider.read({"code": "a"}, JOURNEY, NOW)).proven_email == proven


def test_named_claims_are_kept_from_id_token_and_userinfo(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    document["userinfo_endpoint"] = f"{rogue.url}/userinfo"
    rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(document).encode())
    more = {"sub": "248289761001", "hd": "of userinfo", "unit": [1], "secret": "x"}
    rogue.at["/userinfo"] = Page(json.dumps(more).encode())

    def kept(keep: tuple[str, ...], **said: object) -> object:
        answer = {"id_token": signed(claims(rogue, **said)), "access_token": "at"}
        rogue.at["/token"] = Page(json.dumps(answer).encode())
        provider = OpenIdProvider(line(rogue.url, keep=keep))
        return asyncio.run(provider.read({"code": "a"}, JOURNEY, NOW)).kept

    assert kept((), hd="a.example") is None
    assert kept(("hd", "unit", "none"), hd="a.example") == {"hd": "a.example", "unit": [1]}
    assert kept(("none",), hd="a.example") == {}
    with pytest.raises(Refused) as refused:
        kept(("hd",), hd="x" * 8_200)
    assert refused.value.refusal.check == "federation.kept_claims"
    # Another user's response is none; a failure must not end what was kept.
    rogue.at["/userinfo"] = Page(json.dumps({**more, "sub": "another"}).encode())
    assert kept(("unit",)) == {}
    rogue.at["/userinfo"] = Page(status=502)
    assert kept(("hd",), hd="a.example") == {"hd": "a.example"}
    with pytest.raises(Refused) as refused:
        kept(("unit",))
    assert refused.value.refusal.check == "federation.userinfo"


def test_an_answer_that_names_another_server_is_not_taken(rogue: Pages) -> None:
    token = signed(claims(rogue))
    assert check(rogue, token, {"code": "abc", "iss": "https://else.example"}) == "federation.iss"
    assert read(rogue, token, {"code": "abc", "iss": rogue.url}).subject


def test_a_server_that_promises_to_name_itself_must(rogue: Pages) -> None:
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


def test_a_document_of_another_issuer_is_not_believed(rogue: Pages) -> None:
    document = json.loads(rogue.at["/.well-known/openid-configuration"].body)
    for more, why in (
        ({"issuer": "https://accounts.example"}, "federation.discovery_issuer"),
        ({"token_endpoint": "http://inside.example/token"}, "federation.discovery_endpoint"),
        ({"jwks_uri": 7}, "federation.discovery"),
    ):
        said = json.dumps({**document, **more}).encode()
        rogue.at["/.well-known/openid-configuration"] = Page(said)
        assert check(rogue, signed(claims(rogue))) == why
    rogue.at["/.well-known/openid-configuration"] = Page(status=500)
    assert check(rogue, signed(claims(rogue))) == "federation.discovery"


_MISMATCH = ("federation.redirect_uri", "redirect_uri_mismatch")


def test_probe_names_the_first_thing_that_is_wrong(rogue: Pages) -> None:
    provider = OpenIdProvider(line(rogue.url))

    def probed() -> tuple[str, str]:
        try:
            asyncio.run(provider.probe(JOURNEY))
        except Refused as refused:
            return refused.refusal.check, refused.refusal.received
        return "", ""

    for body, status, found in (
        (b'{"error": "invalid_grant"}', 400, ("", "")),
        (b'{"error": "invalid_client"}', 400, ("federation.client", "invalid_client")),
        (b"", 401, ("federation.client", "")),
        (b'{"error": "redirect_uri_mismatch"}', 400, _MISMATCH),
        (b'{"error": "\\u0000<b>"}', 400, ("federation.token", "status 400")),
        (b"<html>", 200, ("federation.token", "status 200")),
    ):
        rogue.at["/token"] = Page(body, status=status)
        assert probed() == found, body
    rogue.at["/jwks"] = Page(b'{"keys": []}')
    assert probed()[0] == "federation.keys"
    # Cached metadata would hide that the provider is gone.
    del rogue.at["/.well-known/openid-configuration"]
    assert probed()[0] == "federation.discovery"


def test_keys_that_changed_are_read_again(rogue: Pages) -> None:
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
    asked = dict(parse_qsl(urlsplit(url).query))
    assert (asked["prompt"], asked["nonce"], asked["state"]) == ("login", JOURNEY.nonce, "state")
    assert asked["max_age"] == "0"
    assert asked["code_challenge_method"] == "S256"
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
    ids=str,
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
