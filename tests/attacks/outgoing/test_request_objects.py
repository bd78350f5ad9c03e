"""Requests that come as objects, by value and by address (OpenID Connect Core 6, RFC 9101; JW)."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest
import requests
from joserfc import jwt as other_library
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.attacks.outgoing.apps import CALLBACK, SECRET, Apps, apps, fresh_key, jwks
from tests.support.live import raw_jwt
from tests.support.pages import Page, Pages, pages
from tests.support.wait import CEILING
from valetkey.kernel.jose.jwt import sign
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.jose.mac import sign_shared
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import UserAgent

_NAMES = iter(range(1_000))
_KINDS: dict[str, Callable[[], ECKey | RSAKey | OKPKey]] = {
    "ES256": lambda: ECKey.generate_key("P-256", {"kid": "k", "use": "sig"}),
    "RS256": lambda: RSAKey.generate_key(2048, {"kid": "k", "use": "sig"}),
    "PS256": lambda: RSAKey.generate_key(2048, {"kid": "k", "use": "sig"}),
    "EdDSA": lambda: OKPKey.generate_key("Ed25519", {"kid": "k", "use": "sig"}),
}
_TYPE = "application/oauth-authz-req+jwt"
_OUTSIDE = {"redirect_uri": CALLBACK, "scope": "read", "state": "outside"}


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


def _inside(it: Apps, client_id: str, /, **changes: object) -> dict[str, object]:
    """What a request object says; None leaves out."""
    claims = {
        "iss": client_id,
        "aud": it.auth,
        "exp": it.servers.clock.now() + 60,
        "client_id": client_id,
        "response_type": "code",
        **_OUTSIDE,
        "state": "inside",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


def _signed(
    it: Apps, client_id: str, /, *, by: SigningKey | None = None, typ: str = "", **changes: object
) -> str:
    return sign(_inside(it, client_id, **changes), by or it.key, typ=typ)


def _saying(it: Apps, client_id: str, changes: Mapping[str, object]) -> str:
    return sign(_inside(it, client_id, **changes), it.key, typ="")


def _understood(answer: dict[str, str], state: str = "inside") -> None:
    """Everything about it was right: all that is missing is a person."""
    assert answer.get("error") == "login_required", answer
    assert answer.get("state") == state
    assert answer["at"] == CALLBACK


def _broken(answer: dict[str, str], error: str = "invalid_request_object") -> None:
    """The client is told, where what stood outside says."""
    assert answer.get("error") == error, answer
    assert answer.get("state") == "outside"
    assert answer["at"] == CALLBACK


def test_parameters_are_taken_from_the_signed_request_object(it: Apps, name: str) -> None:
    it.app(name)
    for typ in ("", "JWT", "oauth-authz-req+jwt", "application/oauth-authz-req+jwt"):
        _understood(it.ask(name, request=_signed(it, name, typ=typ)))
        _understood(it.ask(name, request=_signed(it, name, typ=typ), **_OUTSIDE))


def test_rotated_key_is_fetched_after_another_client_is_registered(
    it: Apps, there: Pages, name: str
) -> None:
    it.app(name, jwks_uri=f"{there.url}/jwks")
    for number in range(2):
        key = fresh_key()
        there.at["/jwks"] = Page(jwks(key))
        it.app(f"{name}-{number}")
        _understood(it.ask(name, request=_signed(it, name, by=key)))
    _broken(it.ask(name, request=_signed(it, name, by=fresh_key()), **_OUTSIDE))


def test_request_object_may_omit_iss_aud_client_id_and_response_type(it: Apps, name: str) -> None:
    it.app(name)
    for absent in ("iss", "aud", "client_id", "response_type"):
        _understood(it.ask(name, request=_saying(it, name, {absent: None})))
    least = {"iss": None, "aud": None, "client_id": None, "response_type": None}
    more = {"redirect_uri": None, "scope": None}
    _understood(it.ask(name, request=_saying(it, name, {**least, **more}), **_OUTSIDE))


def test_object_by_value_without_exp_or_outside_its_times_is_refused(
    it: Apps, there: Pages, name: str
) -> None:
    now, at = it.servers.clock.now(), f"{there.url}/r"
    it.app(name, request_uris=(at,))
    for wrong in ({"exp": None}, {"exp": now - 60}, {"nbf": now + 60}, {"nbf": -1}):
        _broken(it.ask(name, request=_saying(it, name, wrong), **_OUTSIDE))
    _understood(it.ask(name, request=_signed(it, name, nbf=now)))
    # What lies at an address of the client's own is not replayed by others, and may go without.
    there.at["/r"] = Page(_saying(it, name, {"exp": None}).encode(), _TYPE)
    _understood(it.ask(name, request_uri=at))
    there.at["/r"] = Page(_saying(it, name, {"exp": now - 60}).encode(), _TYPE)
    _broken(it.ask(name, request_uri=at, **_OUTSIDE))
    it.plant(name, request_object_signing_alg="none")
    unsigned = raw_jwt({"alg": "none"}, _inside(it, name, exp=None))
    _broken(it.ask(name, request=unsigned, **_OUTSIDE))


def test_error_of_a_refused_object_uses_the_response_mode_inside_it(
    it: Apps, there: Pages, name: str
) -> None:
    def ask(**extra: str) -> requests.Response:
        query = {"client_id": name, "response_type": "code", "redirect_uri": CALLBACK, **extra}
        url = f"{it.auth}/oauth/authorize?{urlencode(query)}"
        return requests.get(url, allow_redirects=False, timeout=CEILING)

    at = f"{there.url}/r"
    it.app(name, request_uris=(at,))
    for mode in ("fragment", "form_post"):
        unsigned = raw_jwt({"alg": "none"}, _inside(it, name, response_mode=mode))
        forged = _signed(it, name, by=fresh_key(), response_mode=mode)
        over = _signed(it, name, exp=1, response_mode=mode)
        there.at["/r"] = Page(forged.encode(), _TYPE)
        beside = {"request": over, "response_mode": "query"}
        alone = [{"request": token} for token in (unsigned, forged, over)]
        for parameters in (*alone, beside, {"request_uri": at}):
            answer = ask(**parameters)
            if mode == "fragment":
                refusal = dict(parse_qsl(urlsplit(answer.headers["location"]).fragment))
            else:
                assert answer.status_code == 200
                refusal = dict(re.findall(r'name="(\w+)"\s+value="([^"]*)"', answer.text))
                assert f'action="{CALLBACK}"' in answer.text
            assert refusal["error"].startswith(("invalid_request", "request_not_supported")), (
                refusal
            )
            assert refusal["state"] == "inside"
    # Where it goes is a registered address, wherever it stands.
    forged = _signed(it, name, by=fresh_key())
    assert it.ask(name, request=forged, scope="openid")["at"] == CALLBACK
    evil_inside = _signed(it, name, by=fresh_key(), redirect_uri="https://evil.example/cb")
    assert it.ask(name, request=evil_inside, scope="openid")["page"] == "400"
    assert ask(request=forged, redirect_uri="https://evil.example/cb").status_code == 400


def test_json_values_in_request_object_become_parameters(it: Apps, name: str) -> None:
    it.app(name)
    claims = {"id_token": {"acr": {"essential": True}}}
    _understood(it.ask(name, request=_signed(it, name, max_age=60, claims=claims, ours=[1, None])))
    for wrong in (-1, "soon", True, 1.5, None, [60]):
        answer = it.ask(name, request=_signed(it, name, max_age=wrong))
        assert answer["error"] == ("login_required" if wrong is None else "invalid_request")


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", sorted(_KINDS))
def test_request_object_signed_by_authlib_is_accepted(it: Apps, name: str, algorithm: str) -> None:
    key = _KINDS[algorithm]()
    with pages() as there:
        document = json.dumps({"keys": [key.as_dict(private=False)]})
        there.at["/jwks"] = Page(document.encode())
        it.app(name, jwks_uri=f"{there.url}/jwks", request_object_signing_alg=algorithm)
        header = {"alg": algorithm, "kid": "k"}
        request = other_library.encode(header, _inside(it, name), key, [algorithm])
        _understood(it.ask(name, request=request))
        # A key that is not there any more: what is new is read at once, and the old is nothing.
        there.at["/jwks"] = Page(jwks(it.key))
        _broken(it.ask(name, request=_signed(it, name, by=fresh_key()), **_OUTSIDE))
        _broken(it.ask(name, request=request, **_OUTSIDE))


def test_request_object_signed_with_the_client_secret_is_accepted(it: Apps, name: str) -> None:
    it.app(name, SECRET, request_object_signing_alg="HS256")
    _understood(it.ask(name, request=sign_shared(_inside(it, name), Secret(SECRET))))
    key = OctKey.import_key(SECRET)
    request = other_library.encode({"alg": "HS256"}, _inside(it, name), key, ["HS256"])
    _understood(it.ask(name, request=request))
    wrong = sign_shared(_inside(it, name), Secret(SECRET + "x"))
    _broken(it.ask(name, request=wrong, **_OUTSIDE))
    # A client that said nothing may use any algorithm that it has a key for (Registration 2).
    silent = f"{name}-silent"
    it.app(silent, SECRET, id_token_signed_response_alg="HS256")
    _understood(it.ask(silent, request=sign_shared(_inside(it, silent), Secret(SECRET))))
    other = f"{name}-other"
    it.app(other)
    for secret in (SECRET, jwks(it.key).decode(), it.key.public.text()):
        _broken(it.ask(other, request=sign_shared(_inside(it, other), Secret(secret)), **_OUTSIDE))


def test_request_uri_is_fetched_once_per_fragment(it: Apps, there: Pages, name: str) -> None:
    it.app(name, request_uris=(f"{there.url}/r",))
    there.at["/r"] = Page(_signed(it, name).encode() + b"\n", _TYPE)
    _understood(it.ask(name, request_uri=f"{there.url}/r"))
    assert there.asked == ["/r"]
    # The fragment is the hash of what lies there: no part of the address.
    there.at["/r"] = Page(_signed(it, name, state="other").encode(), "application/jwt")
    _understood(
        it.ask(name, request_uri=f"{there.url}/r#GkurKxf5T0Y-mnPFCHqWOMiZi4VS138cQO_V7PZHAdM"),
        "other",
    )


def test_request_uri_is_not_fetched_again_after_the_user_signs_in(
    it: Apps, there: Pages, name: str
) -> None:
    it.app(name, request_uris=(f"{there.url}/r",))
    there.at["/r"] = Page(_signed(it, name, prompt="login").encode(), _TYPE)
    it.servers.register_user("alice", "correct horse battery staple")
    person = UserAgent(it.auth)
    query = {"client_id": name, "response_type": "code", "request_uri": f"{there.url}/r"}
    page = person.open(f"{it.auth}/oauth/authorize?{urlencode(query)}")
    # By now another request lies there: it is not the one that this person was asked for.
    there.at["/r"] = Page(_signed(it, name, state="another").encode(), _TYPE)
    page = person.sign_in(page, "alice", "correct horse battery staple")
    page = page if page.location else person.allow(page)
    assert page.redirect_parameters["state"] == "inside"
    assert page.redirect_parameters["code"]
    assert there.asked == ["/r"]


def test_request_object_is_accepted_in_a_form_post(it: Apps, name: str) -> None:
    it.app(name)
    form = {"client_id": name, "response_type": "code", "request": _signed(it, name, prompt="none")}
    url = f"{it.auth}/oauth/authorize"
    sent = requests.post(url, data=form, allow_redirects=False, timeout=CEILING).headers["location"]
    location = requests.get(urljoin(url, sent), allow_redirects=False, timeout=CEILING).headers[
        "location"
    ]
    assert location.startswith(f"{CALLBACK}?")
    assert "error=login_required" in location
    assert "state=inside" in location


def test_fragment_of_a_registered_request_uri_is_ignored(it: Apps, there: Pages, name: str) -> None:
    it.app(name, request_uris=(f"{there.url}/r#abc",))
    there.at["/r"] = Page(_signed(it, name).encode(), _TYPE)
    _understood(it.ask(name, request_uri=f"{there.url}/r#def"))


@pytest.mark.parametrize(
    "page",
    [
        Page(status=404, kind=_TYPE),
        Page(b"x" * 300_000, _TYPE),
        Page(b"<html>", "text/html"),
        Page(status=302, headers=(("location", "/right"),), kind=_TYPE),
        Page(b"\xff\xfe", _TYPE),
    ],
    ids=["gone", "large", "html", "moved", "not ascii"],
)
def test_request_uri_without_a_request_object_is_invalid_request_uri(
    it: Apps, there: Pages, name: str, page: Page
) -> None:
    there.at |= {"/r": page, "/right": Page(_signed(it, name).encode(), _TYPE)}
    it.app(name, request_uris=(f"{there.url}/r",))
    _broken(it.ask(name, request_uri=f"{there.url}/r", **_OUTSIDE), "invalid_request_uri")
    assert there.asked == ["/r"]


def test_unsigned_request_object_needs_registered_alg_none(
    it: Apps, there: Pages, name: str
) -> None:
    request = raw_jwt({"alg": "none"}, _inside(it, name))
    there.at["/r"] = Page(request.encode(), _TYPE)
    at = f"{there.url}/r"
    it.app(name, request_uris=(at,))
    _broken(it.ask(name, request=request, **_OUTSIDE), "request_not_supported")
    _broken(it.ask(name, request_uri=at, **_OUTSIDE), "request_uri_not_supported")
    it.plant(name, request_uris=(at,), request_object_signing_alg="none")
    _understood(it.ask(name, request=request))
    _understood(it.ask(name, request_uri=at))
    # And then a signature would be another promise than the registered one.
    _broken(it.ask(name, request=_signed(it, name), **_OUTSIDE))
    for header in ({"alg": "None"}, {"alg": "NONE"}, {"alg": ""}, {}):
        _broken(it.ask(name, request=raw_jwt(header, _inside(it, name)), **_OUTSIDE))
    signed = raw_jwt({"alg": "none"}, _inside(it, name), b"x")
    _broken(it.ask(name, request=signed, **_OUTSIDE))


def test_request_object_overrides_the_query_once_its_signature_is_valid(
    it: Apps, name: str
) -> None:
    it.app(name)
    _understood(it.ask(name, request=_signed(it, name), state="outside", scope="garbage"))
    # Inside an address that is not registered: a page, and nobody is sent anywhere.
    evil = _signed(it, name, redirect_uri="https://evil.example/cb")
    answer = it.ask(name, request=evil, **_OUTSIDE)
    assert answer["page"] == "400"
    assert "redirect_uri" in answer["text"]
    # A forged object names an address: it goes where the request around it says, or nowhere.
    forged = _signed(it, name, by=fresh_key(), redirect_uri="https://evil.example/cb")
    _broken(it.ask(name, request=forged, **_OUTSIDE))
    outside = {**_OUTSIDE, "redirect_uri": "https://evil.example/cb"}
    assert it.ask(name, request=_signed(it, name, by=fresh_key()), **outside)["page"] == "400"


@pytest.mark.parametrize(
    "said",
    [
        {"iss": "another"},
        {"iss": 7},
        {"aud": "https://another.example"},
        {"aud": []},
        {"aud": 7},
        {"exp": 1},
        {"exp": True},
        {"exp": "9999999999"},
        {"nbf": 9_999_999_999},
        {"iat": 9_999_999_999},
        {"client_id": "another"},
        {"client_id": 7},
        {"response_type": "token"},
        {"request": "a.b.c"},
        {"request_uri": "https://app.example/r"},
    ],
    ids=json.dumps,
)
def test_jw_15_request_object_with_a_wrong_claim_is_refused(
    it: Apps, name: str, said: dict[str, object]
) -> None:
    it.app(name)
    _broken(it.ask(name, request=_saying(it, name, said), **_OUTSIDE))


def test_request_and_request_uri_together_are_refused(it: Apps, name: str) -> None:
    it.app(name)
    more = {"request": _signed(it, name), "request_uri": "https://app.example/r"}
    _broken(it.ask(name, **more, **_OUTSIDE), "invalid_request")


def test_jw_11_jwt_of_another_type_is_no_request_object(it: Apps, name: str) -> None:
    it.app(name)
    for typ in ("", "JWT", "client-authentication+jwt"):
        _broken(it.ask(name, request=it.assertion(name), **_OUTSIDE))
        # Not even with a request inside: it was made to prove who the client is.
        both = sign(it.claims(name, scope="read", state="inside"), it.key, typ=typ)
        _broken(it.ask(name, request=both, **_OUTSIDE))
    for typ in ("at+jwt", "logout+jwt", "dpop+jwt", "client-authentication+jwt"):
        _broken(it.ask(name, request=_signed(it, name, typ=typ), **_OUTSIDE))
    token = it.prove(name, it.assertion(name)).json()["access_token"]
    _broken(it.ask(name, request=token, **_OUTSIDE))


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "ES256", "crit": ["exp"]},
        {"alg": "ES256", "b64": False, "crit": ["b64"]},
        {"alg": "ES256", "zip": "DEF"},
        {"alg": "ES256", "jku": "http://127.0.0.1/jwks"},
        {"alg": "ES256", "x5u": "http://127.0.0.1/x"},
        {"alg": "ES256", "kid": "../../dev/null"},
        {"alg": "ES256", "kid": 7},
        {"alg": "ES256", "kid": "x" * 3_000},
        {"alg": "HS256"},
        {"alg": "RS256"},
    ],
    ids=lambda header: json.dumps(header)[:40],
)
def test_jw_09_request_objects_with_unsafe_jose_headers_are_refused(
    it: Apps, name: str, header: dict[str, object]
) -> None:
    it.app(name)
    token = raw_jwt(header, _inside(it, name, exp=None), bytes(64))
    _broken(it.ask(name, request=token, **_OUTSIDE))


def test_jw_13_request_object_must_be_compact_serialization(it: Apps, name: str) -> None:
    it.app(name)
    header, payload, signature = _signed(it, name).split(".")
    for text in (
        "x",
        "..",
        f"{header}.{payload}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature}=",
        f"{header}.{payload}.{payload}.{payload}.{signature}",
        json.dumps({"payload": payload, "protected": header, "signature": signature}),
        "." * 5_000,
    ):
        _broken(it.ask(name, request=text, **_OUTSIDE))
