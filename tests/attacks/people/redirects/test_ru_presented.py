"""RU: redirect URIs as they are presented; only the bytes that were registered are followed."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

import pytest

from tests.attacks.people.look_alikes import LOOK_LIKE_LOOPBACK, NOT_REGISTERED, ODD_PORTS
from tests.attacks.people.told import back, consent_page, fetch, shown, signed_in, yes
from tests.attacks.raw import only, request, say
from tests.support.live import CALLBACK, CHALLENGE, VERIFIER, LiveServers
from tests.vectors.rows import rows
from valetkey.kernel.url import check_redirect_uri
from valetkey.testing.browser import Page, UserAgent

_LOOPBACK = "http://127.0.0.1/cb"
_PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


def _ask(world: LiveServers, client_id: str, redirect_uri: str | None, **changes: str) -> Page:
    parameters = {"response_type": "code", "client_id": client_id, "state": "xyz", **changes}
    if redirect_uri is not None:
        parameters["redirect_uri"] = redirect_uri
    query = urlencode({name: value for name, value in parameters.items() if value})
    return fetch(UserAgent(world.auth), "GET", f"{world.auth}/oauth/authorize?{query}")


def _leads_to_a_page_of_ours(page: Page) -> None:
    assert page.status == 303, page.text
    assert page.location.startswith("/oauth/sign-in?interaction=v1.")


def _stays_here(world: LiveServers, client_id: str, redirect_uri: str, **changes: str) -> None:
    shown(_ask(world, client_id, redirect_uri, **changes), 400, "invalid_request")
    # What is wrong beside it must not have a say in where the refusal goes.
    wrong = _ask(
        world, client_id, redirect_uri, **{**changes, "response_type": "x", "prompt": "none"}
    )
    shown(wrong, 400, "invalid_request")


def test_ru_01_registered_redirect_uri_receives_the_code(world: LiveServers) -> None:
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))


@pytest.mark.parametrize("presented", NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_ru_redirect_uri_that_differs_from_the_registered_one_is_refused(
    world: LiveServers, presented: tuple[str, ...]
) -> None:
    _leads_to_a_page_of_ours(_ask(world, "web1", CALLBACK))
    with world.nothing_changes():
        for uri in presented:
            _stays_here(world, "web1", uri)


def test_ru_posted_request_with_an_unregistered_redirect_uri_shows_an_error(
    world: LiveServers,
) -> None:
    url = f"{world.auth}/oauth/authorize"
    form = {"response_type": "code", "client_id": "web1", "redirect_uri": CALLBACK}
    good = fetch(UserAgent(world.auth), "POST", url, form)
    assert good.location.startswith("/oauth/authorize?interaction=v1.")
    with world.nothing_changes():
        for group in NOT_REGISTERED.values():
            page = fetch(UserAgent(world.auth), "POST", url, {**form, "redirect_uri": group[0]})
            shown(page, 400, "invalid_request")


def test_ru_unregistered_redirect_uri_is_refused_after_earlier_consent_too(
    world: LiveServers,
) -> None:
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))
    yes(world, world.ask(person))
    with world.nothing_changes():
        for group in NOT_REGISTERED.values():
            shown(world.ask(person, redirect_uri=group[0]), 400, "invalid_request")


def test_ru_13_query_of_the_redirect_uri_must_match_exactly(world: LiveServers) -> None:
    registered = f"{CALLBACK}?a=1&b=2"
    world.client("query1", redirect_uris=(registered,))
    _leads_to_a_page_of_ours(_ask(world, "query1", registered))
    with world.nothing_changes():
        for query in (
            "?b=2&a=1", "?a=1", "?a=1&b=2&c=3", "?a=1&b=2&", "?&a=1&b=2", "?a=1&&b=2", "?a=1;b=2",
            "?a=1&b=2&a=1", "?A=1&b=2", "?%61=1&b=2", "?a=1&b=2#", "??a=1&b=2", "", "?",
        ):  # fmt: skip
            _stays_here(world, "query1", CALLBACK + query)
    refused = _ask(world, "query1", registered, scope="nothing:known")
    back(world, refused, "invalid_scope", to=registered)


def test_ru_19_empty_redirect_uri_counts_as_omitted(world: LiveServers) -> None:
    """RFC 6749 section 3.1; a space is a value, and `openid` needs an address."""
    ask = f"{world.auth}/oauth/authorize?response_type=code&client_id=web1"
    _leads_to_a_page_of_ours(_ask(world, "web1", None))
    for empty in ("redirect_uri=", "redirect_uri"):
        _leads_to_a_page_of_ours(fetch(UserAgent(world.auth), "GET", f"{ask}&{empty}"))
    with world.nothing_changes():
        for wrong in ("redirect_uri=%20", "redirect_uri=%00", "redirect_uri=&scope=openid"):
            shown(fetch(UserAgent(world.auth), "GET", f"{ask}&{wrong}"), 400, "invalid_request")


def test_ru_redirect_uri_is_required_when_several_are_registered(world: LiveServers) -> None:
    other = "https://app.example/other"
    world.client("several1", redirect_uris=(CALLBACK, other))
    _leads_to_a_page_of_ours(_ask(world, "several1", other))
    with world.nothing_changes():
        shown(_ask(world, "several1", None), 400, "invalid_request")
        _stays_here(world, "several1", f"{CALLBACK} {other}")
        _stays_here(world, "several1", f"{CALLBACK},{other}")


def test_ru_client_without_redirect_uris_is_refused(world: LiveServers) -> None:
    with world.nothing_changes():
        for client_id in ("svc1", "resource-server"):
            shown(_ask(world, client_id, None), 400, "invalid_request")
            _stays_here(world, client_id, CALLBACK)


def test_ru_redirect_uri_of_another_client_is_refused(world: LiveServers) -> None:
    world.client("web3", redirect_uris=("https://three.example/cb",))
    with world.nothing_changes():
        _stays_here(world, "web1", "https://three.example/cb")
        _stays_here(world, "web3", CALLBACK)


def test_ru_21_repeated_redirect_uri_is_refused(world: LiveServers) -> None:
    good = f"response_type=code&client_id=web1&redirect_uri={quote(CALLBACK)}"
    evil = f"redirect_uri={quote('https://evil.test/cb')}"
    url = f"{world.auth}/oauth/authorize"
    person = UserAgent(world.auth)
    with world.nothing_changes():
        for query in (
            f"{good}&{evil}", f"{evil}&{good}", f"{good}&redirect_uri={quote(CALLBACK)}",
            f"{good}&redirect%5Furi={quote(CALLBACK)}", f"{good}&redirect_uri",
        ):  # fmt: skip
            shown(fetch(person, "GET", f"{url}?{query}"), 400, "invalid_request")
            shown(fetch(person, "POST", url, query), 400, "invalid_request")
        shown(fetch(person, "POST", f"{url}?{good}", evil), 400, "invalid_request")
        shown(fetch(person, "POST", f"{url}?{evil}", good), 400, "invalid_request")


def test_ru_parameters_named_like_redirect_uri_are_ignored(world: LiveServers) -> None:
    good = f"response_type=code&client_id=web1&redirect_uri={quote(CALLBACK)}&scope=nothing"
    evil = quote("https://evil.test/cb")
    for name in ("redirect_uri[]", "redirect_uri[0]", "Redirect_Uri", " redirect_uri", "redirect"):
        url = f"{world.auth}/oauth/authorize?{good}&{quote(name)}={evil}"
        back(world, fetch(UserAgent(world.auth), "GET", url), "invalid_scope", state=None)


@pytest.mark.parametrize("port", ["1", "80", "1024", "65535"])
def test_ru_23_native_app_may_use_any_port_of_its_loopback_uri(
    world: LiveServers, port: str
) -> None:
    uri = f"http://127.0.0.1:{port}/cb"
    person = signed_in(world)
    page = consent_page(world, person, "nat1", redirect_uri=uri, **_PKCE)
    code = yes(world, person.allow(page), to=uri)
    world.exchange(code, "nat1", redirect_uri=uri).ok()


def test_ru_23_only_the_port_may_differ_and_only_for_apps_on_a_device(world: LiveServers) -> None:
    world.client("loop1", redirect_uris=(_LOOPBACK,))
    world.client(
        "loop2",
        redirect_uris=("http://localhost/cb", "https://127.0.0.1/cb", "com.example.app:/cb"),
        type="public",
        application_type="native",
        secret=None,
    )
    # A public app runs on the user's device, also as a web app that is being developed.
    world.client("loop3", redirect_uris=(_LOOPBACK,), type="public", secret=None)
    _leads_to_a_page_of_ours(_ask(world, "loop3", "http://127.0.0.1:1024/cb", **_PKCE))
    _leads_to_a_page_of_ours(_ask(world, "loop1", _LOOPBACK))
    _leads_to_a_page_of_ours(_ask(world, "loop2", "com.example.app:/cb", **_PKCE))
    _leads_to_a_page_of_ours(_ask(world, "loop2", "http://localhost:1024/cb", **_PKCE))
    with world.nothing_changes():
        for path in ("/other", "/", "", "/cb/", "/CB", "/cb?x=1", "/cb;x"):
            _stays_here(world, "nat1", f"http://127.0.0.1:1024{path}")
        _stays_here(world, "loop1", "http://127.0.0.1:1024/cb")
        _stays_here(world, "loop1", "http://127.0.0.1:80/cb")
        for uri in (
            "http://localhost:1024/other", "http://127.0.0.1:1024/cb", "https://127.0.0.1:1024/cb",
            "com.example.app:/other",
            "com.example.app:cb", "com.example.app://cb", "COM.example.app:/cb",
            "com.example.app.evil:/cb",
        ):  # fmt: skip
            _stays_here(world, "loop2", uri)


def test_ru_25_look_alikes_of_loopback_are_refused(world: LiveServers) -> None:
    _leads_to_a_page_of_ours(_ask(world, "nat1", "http://127.0.0.1:1024/cb", **_PKCE))
    with world.nothing_changes():
        for uri in LOOK_LIKE_LOOPBACK:
            _stays_here(world, "nat1", uri, **_PKCE)


def test_ru_27_malformed_port_is_refused(world: LiveServers) -> None:
    with world.nothing_changes():
        for port in ODD_PORTS:
            _stays_here(world, "nat1", f"http://127.0.0.1:{port}/cb", **_PKCE)


def test_ru_loopback_empty_path_equals_slash_and_web_apps_may_prompt_none(
    world: LiveServers,
) -> None:
    """127.0.0.1 with and without a slash, localhost for native apps, `prompt=none` for pages."""
    scope = "notes:read"
    for client_id, registered, presented, kind in (
        ("root1", "http://127.0.0.1", "http://127.0.0.1:1024/", "native"),
        ("root2", "http://127.0.0.1/", "http://127.0.0.1:1024", "native"),
        ("root3", "http://localhost:7000/", "http://localhost:8000", "native"),
        ("root4", "http://localhost:3000", "http://localhost:3000/", "web"),
    ):
        world.client(
            client_id,
            redirect_uris=(registered,),
            scopes=(scope,),
            type="public",
            application_type=kind,
            secret=None,
        )
        person = signed_in(world)
        page = consent_page(world, person, client_id, redirect_uri=presented, **_PKCE)
        code = person.allow(page).redirect_parameters["code"]
        parameters = {"redirect_uri": presented, "code_verifier": VERIFIER, "client_secret": ""}
        world.exchange(code, client_id, **parameters).ok()
        silent = {"redirect_uri": presented, "prompt": "none", **_PKCE}
        answer = world.ask(person, client_id, **silent).redirect_parameters
        # Any program on the machine can have a native app's port: its user is asked each time.
        assert ("code" in answer) is (kind == "web")
        assert answer.get("error", "") == ("" if kind == "web" else "interaction_required")


@pytest.mark.parametrize("length", [2_000, 7_000])
def test_ru_33_long_redirect_uri_is_refused(world: LiveServers, length: int) -> None:
    with world.nothing_changes():
        for uri in (CALLBACK + "x" * length, "https://" + "a" * length, "@" * (length // 4)):
            _stays_here(world, "web1", uri)


def test_ru_33_request_above_the_size_limit_is_refused(world: LiveServers) -> None:
    query = "response_type=code&client_id=web1&redirect_uri="
    long = f"/oauth/authorize?{query}{quote(CALLBACK)}"
    with world.nothing_changes():
        for length in (8 * 1024, 60 * 1024):
            reply = only(say(world.auth, request(world.auth, "GET", long + "x" * length)))
            assert reply.status == 414
            assert "location" not in reply.headers
        url = f"{world.auth}/oauth/authorize"
        page = fetch(UserAgent(world.auth), "POST", url, query + "x" * (65_536 - len(query)))
        shown(page, 400, "invalid_request")
        page = fetch(UserAgent(world.auth), "POST", url, query + "x" * 65_536)
        shown(page, 413, "content_too_large")


def test_ru_33_request_target_of_one_megabyte_is_refused(world: LiveServers) -> None:
    sent = request(world.auth, "GET", "/oauth/authorize?redirect_uri=" + "x" * 1_048_576)
    try:
        replies = say(world.auth, sent)
    except (BrokenPipeError, ConnectionResetError):
        replies = []  # it hung up before all of it was said
    assert all(reply.status in {414, 431} for reply in replies)
    _leads_to_a_page_of_ours(_ask(world, "web1", CALLBACK))


@dataclass(frozen=True, slots=True)
class _Match:
    registered: str
    presented: str
    why: str
    native: bool = False
    matches: bool = False


def test_ru_every_vector_of_matching_holds_over_http(world: LiveServers) -> None:
    vectors = rows("redirect_uri.toml", "match", _Match)
    clients: dict[tuple[str, bool], str] = {}
    for vector in vectors:
        key = (vector.registered, vector.native)
        if key not in clients:
            clients[key] = f"vector{len(clients)}"
            check_redirect_uri(vector.registered, native=vector.native)
            kind = "native" if vector.native else "web"
            world.client(clients[key], redirect_uris=(vector.registered,), application_type=kind)
    with world.nothing_changes():
        for vector in vectors:
            page = _ask(world, clients[vector.registered, vector.native], vector.presented)
            if vector.matches:
                _leads_to_a_page_of_ours(page)
            else:
                shown(page, 400, "invalid_request")
