"""AZ: authorization requests that are wrong, and who is told."""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest

from tests.attacks.people.requests.desk import switch_client
from tests.attacks.people.told import back, consent_page, fetch, shown, signed_in, yes
from tests.attacks.raw import only, request, say
from tests.support.live import CALLBACK, LiveServers
from valetkey.kernel.moment import minutes
from valetkey.testing.browser import Page, UserAgent

_GOOD = {
    "response_type": "code",
    "client_id": "web1",
    "redirect_uri": CALLBACK,
    "scope": "notes:read",
    "state": "xyz",
}
_NOBODY = (
    "nobody",
    "WEB1",
    "web1 ",
    " web1",
    "web1\0",
    "web1\n",
    "web\u200b1",
    "ｗeb1",
    "' or 1=1--",
    "web1' --",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "../web1",
    "%00",
    "null",
    "undefined",
    "0",
    "-1",
    "9" * 400,
    "é",
    "\U0001f511",
    "a" * 5_000,
)
_TWISTED = {
    "response_type": (
        ("", "invalid_request"),
        ("CODE", "unsupported_response_type"),
        ("code ", "unsupported_response_type"),
        ("code\n", "unsupported_response_type"),
        ("code code", "unsupported_response_type"),
        ("code none", "unsupported_response_type"),
        ("none", "unsupported_response_type"),
        ("\0", "unsupported_response_type"),
        ("x" * 5_000, "unsupported_response_type"),
    ),
    "response_mode": tuple(
        (mode, "invalid_request")
        for mode in ("form-post", "query.jwt", "web_message", "QUERY", "query\n")
    ),
    "scope": tuple(
        (scope, "invalid_scope")
        for scope in (
            "nothing:known",
            "admin",
            "openid",
            "offline_access",
            "client:read",
            "notes:read client:write",
            "NOTES:READ",
            "notes:read  write",
            " notes:read",
            "notes:read ",
            "notes:read\twrite",
            "notes:read\nwrite",
            "notes:read\u00a0write",
            "notes:read,write",
            'notes:read"',
            "notes:read\\",
            "notes:*",
            "*",
            "é",
            "\0",
            " ",
            "x" * 5_000,
            " ".join(f"s{number}" for number in range(150)),
        )
    ),
    "prompt": tuple(
        (prompt, "invalid_request")
        for prompt in (
            "none login",
            "login none",
            "none consent",
            "none none login",
            "NONE",
            "none\n",
            "create",
            "garbage",
            "login,consent",
            " login",
            " ".join(["login"] * 100),
            " ".join(f"p{number}" for number in range(100)),
            "x" * 4_000,
        )
    ),
    "max_age": tuple(
        (age, "invalid_request")
        for age in ("-1", "1.5", "1e3", "abc", " 60", "60\n", "+60", "６０", "6_0", "nan", "9" * 10)
    ),
    "nonce": (
        ("x" * 4_096, "invalid_request"),
        ("a\0b", "invalid_request"),
        ("\n", "invalid_request"),
    ),
    "login_hint": (("x" * 321, "invalid_request"), ("a\r\nb", "invalid_request")),
    "resource": tuple(
        (resource, "invalid_target")
        for resource in (
            "https://other.example",
            "https://other.example/#x",
            "/v2/notes",
            "v2",
            "*",
            "urn:x:y",
            "\0",
        )
    ),
    "id_token_hint": tuple(
        (hint, "invalid_request") for hint in ("x.y.z", "e30.e30.", "x" * 4_000)
    ),
    "request": (("eyJhbGciOiJub25lIn0.e30.", "request_not_supported"),),
    "request_uri": (
        ("https://evil.test/request", "request_uri_not_supported"),
        ("urn:ietf:params:oauth:request_uri:x", "request_uri_not_supported"),
        ("http://169.254.169.254/latest", "request_uri_not_supported"),
    ),
    "registration": (("{}", "registration_not_supported"),),
    "code_challenge_method": (("S256", "invalid_request"), ("plain", "invalid_request")),
    "code_challenge": tuple(
        (challenge, "invalid_request")
        for challenge in ("x", "x" * 43, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-c=", "é", "\0")
    ),
}


def _query(**changes: str) -> str:
    return urlencode({name: text for name, text in {**_GOOD, **changes}.items() if text})


def _ask(world: LiveServers, **changes: str) -> Page:
    url = f"{world.auth}/oauth/authorize?{_query(**changes)}"
    return fetch(UserAgent(world.auth), "GET", url)


def _without_reference(page: Page) -> str:
    return re.sub(r"VK-[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}", "", page.body)


def test_az_01_unknown_and_disabled_clients_get_the_same_page(world: LiveServers) -> None:
    world.client("off1")
    assert _ask(world, client_id="off1").status == 303
    switch_client(world, "off1", on=False)
    with world.nothing_changes():
        off = _ask(world, client_id="off1")
        shown(off, 400, "invalid_request")
        for client_id in ("", *_NOBODY):
            page = _ask(world, client_id=client_id)
            shown(page, 400, "invalid_request")
            assert _without_reference(page) == _without_reference(off), client_id
            assert page.headers.keys() == off.headers.keys()
            form = _query(client_id=client_id)
            shown(fetch(UserAgent(world.auth), "POST", f"{world.auth}/oauth/authorize", form), 400,
                  "invalid_request")  # fmt: skip


def test_az_01_repeated_client_id_is_refused(world: LiveServers) -> None:
    with world.nothing_changes():
        for more in ("client_id=web1", "client_id=web2", "client_id=", "client%5fid=web2"):
            url = f"{world.auth}/oauth/authorize?{_query()}&{more}"
            shown(fetch(UserAgent(world.auth), "GET", url), 400, "invalid_request")


def test_az_01_a_client_id_of_ten_kibibytes_is_not_looked_up(world: LiveServers) -> None:
    target = f"/oauth/authorize?client_id={'a' * 10_240}"
    assert only(say(world.auth, request(world.auth, "GET", target))).status == 414


@pytest.mark.parametrize("name", _TWISTED)
def test_az_invalid_parameter_is_returned_as_error_to_the_redirect_uri(
    world: LiveServers, name: str
) -> None:
    assert _ask(world).status == 303
    with world.nothing_changes():
        for text, code in _TWISTED[name]:
            back(world, _ask(world, **{name: text}), code)
            back(world, _ask(world, **{name: text, "state": ""}), code, state=None)
            # Nobody is asked to sign in for a request that cannot be answered.
            assert not _ask(world, **{name: text}).location.startswith("/")


def test_az_02_empty_parameter_counts_as_omitted(world: LiveServers) -> None:
    url = f"{world.auth}/oauth/authorize?{_query()}"
    for more in ("prompt=", "nonce=", "max_age", "code_challenge=&code_challenge_method=", "x"):
        assert fetch(UserAgent(world.auth), "GET", f"{url}&{more}").location.startswith(
            "/oauth/sign"
        )
    empty = fetch(UserAgent(world.auth), "GET", url.replace("response_type=code", "response_type="))
    back(world, empty, "invalid_request")


def test_az_03_parameters_split_over_query_and_body_are_refused(world: LiveServers) -> None:
    url = f"{world.auth}/oauth/authorize"
    person = UserAgent(world.auth)
    names = list(_GOOD)
    assert fetch(person, "POST", url, _GOOD).status == 303
    assert fetch(person, "POST", f"{url}?{_query()}").status == 303
    with world.nothing_changes():
        for position in range(1, len(names)):
            left = urlencode({name: _GOOD[name] for name in names[:position]})
            right = urlencode({name: _GOOD[name] for name in names[position:]})
            shown(fetch(person, "POST", f"{url}?{left}", right), 400, "invalid_request")
        for name in names:
            query = urlencode({name: _GOOD[name]})
            shown(fetch(person, "POST", f"{url}?{query}", _GOOD), 400, "invalid_request")
            both = f"{_query()}&{query}"
            shown(fetch(person, "GET", f"{url}?{both}"), 400, "invalid_request")
            shown(fetch(person, "POST", url, both), 400, "invalid_request")


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_az_03_methods_other_than_get_and_post_are_refused(world: LiveServers, method: str) -> None:
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))
    cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    with world.nothing_changes():
        sent = request(
            world.auth, method, f"/oauth/authorize?{_query()}", headers=[f"Cookie: {cookie}"]
        )
        reply = only(say(world.auth, sent, method=method))
        assert reply.status == 405
        assert reply.headers["allow"] == "GET, POST"
        assert "location" not in reply.headers


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/json", "multipart/form-data; boundary=x", "", "text/html",
     "application/x-www-form-urlencoded; charset=utf-16"],
)  # fmt: skip
def test_az_03_post_with_another_content_type_is_refused(world: LiveServers, kind: str) -> None:
    url = f"{world.auth}/oauth/authorize"
    with world.nothing_changes():
        page = fetch(UserAgent(world.auth), "POST", url, _query(), {"content-type": kind})
        shown(page, 400, "invalid_request")


@pytest.mark.parametrize(
    "query",
    [
        "state=%zz", "state=%", "state=%f", "state=%ff", "state=%c0%80", "state=%ed%a0%80",
        "state=%f5%80%80%80", "st%ffate=x", "=x", "x=%00", "%00=x", "prompt=%ff", "a=1&a=2",
        "&".join(f"x{number}=" for number in range(101)),
    ],
)  # fmt: skip
def test_az_06_unreadable_query_shows_error_page_without_redirect(
    world: LiveServers, query: str
) -> None:
    with world.nothing_changes():
        good = _query(state="") if query.startswith("state") else _query()
        for whole_query in (f"{good}&{query}", f"{query}&{good}"):
            url = f"{world.auth}/oauth/authorize"
            shown(
                fetch(UserAgent(world.auth), "GET", f"{url}?{whole_query}"), 400, "invalid_request"
            )
            shown(fetch(UserAgent(world.auth), "POST", url, whole_query), 400, "invalid_request")


@pytest.mark.parametrize("raw", [b"\x80", b"\xff\xfe", b"\xc3\xa9", b"\x01", b"\x7f", b"\t"])
def test_az_06_raw_bytes_in_the_address_are_refused(world: LiveServers, raw: bytes) -> None:
    sent = request(world.auth, "GET", f"/oauth/authorize?{_query(state='')}&state=@@")
    with world.nothing_changes():
        reply = only(say(world.auth, sent.replace(b"@@", raw)))
        assert reply.status == 400
        assert "location" not in reply.headers


def test_az_09_prompt_none_returns_a_code_or_an_error_without_a_page(world: LiveServers) -> None:
    person = UserAgent(world.auth)
    with world.nothing_changes():
        back(world, world.ask(person, prompt="none"), "login_required")
    page = person.sign_in(
        world.ask(person, prompt="consent"), "alice", "correct horse battery staple"
    )
    assert person.allow(page).redirect_parameters["code"]
    yes(world, world.ask(person, prompt="none"))
    with world.nothing_changes():
        back(world, world.ask(person, prompt="none", scope="write"), "consent_required")
        back(world, world.ask(person, "web2", prompt="none"), "consent_required")


@pytest.mark.parametrize("prompt", ["login", "select_account", "login consent"])
def test_az_09_prompt_login_requires_a_new_sign_in(world: LiveServers, prompt: str) -> None:
    person = signed_in(world)
    page = world.ask(person, prompt=prompt)
    assert any(button.id == "sign-in" for button in page.buttons)
    # Neither coming again nor going to the next page by hand replaces signing in.
    for path in ("consent", "authorize"):
        again = person.open(page.url.replace("/oauth/sign-in", f"/oauth/{path}"))
        assert any(button.id == "sign-in" for button in again.buttons), path
    wrong = person.sign_in(page, "alice", "wrong horse battery staple")
    assert wrong.status == 401
    page = person.sign_in(page, "alice", "correct horse battery staple")
    yes(world, page if page.location else person.allow(page))


def test_az_10_max_age_is_compared_with_the_sign_in_time(world: LiveServers) -> None:
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))
    yes(world, world.ask(person, max_age="60"))
    world.servers.clock.forward(minutes(2))
    back(world, world.ask(person, max_age="60", prompt="none"), "login_required")
    page = world.ask(person, max_age="60")
    assert any(button.id == "sign-in" for button in page.buttons)
    yes(world, person.sign_in(page, "alice", "correct horse battery staple"))
    for much in ("999999999", "600"):
        yes(world, world.ask(person, max_age=much))


def test_az_12_unknown_parameters_are_ignored_and_never_shown(world: LiveServers) -> None:
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))
    for name in ("claims", "ui_locales", "acr_values", "display", "audience", "decision", "iss"):
        yes(world, world.ask(person, **{name: '"><script>evil</script>'}))
    for name in ("message", "error_description", "error", "title", "next", "continue", "theme"):
        page = world.ask(UserAgent(world.auth), **{name: "Your account is hacked, call evil"})
        assert page.status == 200
        assert "hacked" not in page.body


def test_az_12_parameter_named_like_an_internal_one_is_ignored(world: LiveServers) -> None:
    alice = signed_in(world)
    for name in ("interaction", "trial", "csrf", "decision", "reference"):
        for value in ("x", "%00"):
            page = world.ask(alice, state="abc", prompt="none", **{name: value})
            plain = world.ask(alice, state="abc", prompt="none")
            assert page.redirect_parameters["state"] == "abc"
            assert page.redirect_parameters.keys() == plain.redirect_parameters.keys()
            assert page.redirect_parameters.get("error") == plain.redirect_parameters.get("error")
    # One of another request, sealed by us: the parameters beside it are what is asked.
    sealed = parse_qsl(urlsplit(world.ask(UserAgent(world.auth)).url).query)
    assert dict(sealed)["interaction"]
    page = world.ask(alice, state="mine", prompt="none", interaction=dict(sealed)["interaction"])
    assert page.redirect_parameters["state"] == "mine"


def test_az_04_redirect_uri_is_required_only_with_scope_openid(
    world: LiveServers,
) -> None:
    world.client("plain1", scopes=("openid", "read"))
    alice = signed_in(world)
    for scope in ("openid", "read openid"):
        for mode in ("", "fragment", "form_post"):
            page = world.ask(alice, "plain1", redirect_uri="", scope=scope, response_mode=mode)
            shown(page, 400, "invalid_request")
    page = world.ask(alice, "plain1", scope="openid", prompt="none")
    assert page.redirect_parameters["error"] == "consent_required"
    # Without it, one that is registered is meant (RFC 6749 section 3.1.2.3).
    code = world.allow("plain1", redirect_uri="", scope="read").redirect_parameters["code"]
    tokens = world.exchange(code, "plain1", redirect_uri="").json
    assert tokens["scope"] == "read"
    # And what is left out makes no sign-in of it.
    code = world.allow("plain1", redirect_uri="", scope="").redirect_parameters["code"]
    tokens = world.exchange(code, "plain1", redirect_uri="").json
    assert tokens["scope"] == "read"
    assert "id_token" not in tokens


def test_az_14_granted_scope_is_the_allowed_subset_without_repeats(world: LiveServers) -> None:
    person = signed_in(world)
    page = consent_page(world, person, scope="notes:read write notes:read read write")
    boxes = [value for _, value, _ in page.forms[1].boxes]
    assert boxes == ["notes:read", "write", "read"]
    granted = world.exchange(yes(world, person.allow(page, only=["read"])))
    granted.ok()
    assert granted.json["scope"] == "read"
    # What was not ticked is asked for again, and not given without.
    back(world, world.ask(person, scope="read write", prompt="none"), "consent_required")


def test_az_15_resource_must_be_the_api(world: LiveServers) -> None:
    person = signed_in(world)
    page = consent_page(world, person, resource=world.api)
    granted = world.exchange(yes(world, person.allow(page)))
    granted.ok()
    assert world.call(granted.json["access_token"]).status == 200
    yes(world, world.ask(person, resource=f"{world.api}/"))
    for other in (f"{world.api}//", f"{world.api}/x", quote(world.api, safe="")):
        back(world, world.ask(person, resource=other), "invalid_target")
