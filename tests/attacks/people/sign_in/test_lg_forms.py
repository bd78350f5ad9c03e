"""LG: forms sent from elsewhere, by other methods, with other cookies; addresses to be led to."""

from collections.abc import Mapping
from html.parser import HTMLParser
from urllib.parse import quote, urlencode, urljoin, urlsplit

import pytest

from tests.attacks.people.told import consent_page, fetch, owed, shown, signed_in, yes
from tests.attacks.raw import only, request, say
from tests.support.live import CALLBACK, PASSWORD, LiveServers
from valetkey.testing.browser import Page, UserAgent

_FOREIGN: tuple[Mapping[str, str], ...] = (
    {"origin": "https://evil.test"},
    {"origin": "null"},
    {"origin": "null", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "garbage"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.test"},
    {"origin": "http://localhost"},
    {"origin": "http://127.0.0.1"},
    {"origin": "https://app.example"},
    {"origin": "file://"},
    {"origin": "evil"},
)
_BUTTONS = ("sign-in", "allow", "deny", "switch-account", "sign-out")


def _page(world: LiveServers, button: str) -> tuple[UserAgent, Page]:
    """Somebody in front of the page with this button."""
    if button == "sign-in":
        person = UserAgent(world.auth)
        return person, world.ask(person)
    person = signed_in(world)
    if button == "sign-out":
        return person, person.open(f"{world.auth}/oauth/sign-out")
    return person, consent_page(world, person)


def _form(page: Page, button: str) -> tuple[str, dict[str, str]]:
    pressed = next(candidate for candidate in page.buttons if candidate.id == button)
    form = page.forms[pressed.form]
    fields = {**dict(form.fields), **{name: value for name, value, _ in form.boxes}}
    if pressed.name:
        fields[pressed.name] = pressed.value
    if button == "sign-in":
        fields |= {"username": "alice", "password": PASSWORD}
    return urljoin(page.url, form.action), fields


def _works(world: LiveServers, answer: Page) -> None:
    """The control: the form does what it is for."""
    assert answer.status == 303, answer.text
    assert answer.location.startswith(("/", world.auth))


@pytest.mark.parametrize("button", _BUTTONS)
def test_lg_01_form_requires_the_csrf_token_of_its_browser(world: LiveServers, button: str) -> None:
    person, page = _page(world, button)
    other, others = _page(world, button)
    url, fields = _form(page, button)
    foreign = _form(others, button)[1]["csrf"]
    without = {name: value for name, value in fields.items() if name != "csrf"}
    with world.nothing_changes():
        shown(fetch(person, "POST", url, without), 403, "forbidden")
        for token in (
            "",
            "x",
            foreign,
            fields["csrf"][:-1],
            f"{fields['csrf']} ",
            "null",
            "\u00e9",
        ):
            shown(fetch(person, "POST", url, {**fields, "csrf": token}), 403, "forbidden")
        # Cookies alone, as another site's form would send them.
        names = {"sign-in": (), "sign-out": ()}.get(button, (("decision", "allow"),))
        shown(fetch(person, "POST", url, urlencode(names)), 403, "forbidden")
        # The token alone, in a browser that has none of the cookies, or others.
        for stranger in (UserAgent(world.auth), other):
            answer = fetch(stranger, "POST", url, fields)
            if button == "sign-out" and stranger is not other:
                continue  # nobody is signed in there: there is nothing to end
            shown(answer, 403, "forbidden")
    _works(world, fetch(person, "POST", url, fields))


@pytest.mark.parametrize("button", _BUTTONS)
def test_lg_05_a_form_from_another_site_is_refused(world: LiveServers, button: str) -> None:
    person, page = _page(world, button)
    url, fields = _form(page, button)
    with world.nothing_changes():
        for headers in _FOREIGN:
            shown(fetch(person, "POST", url, fields, headers), 403, "forbidden")
        for origin in (world.auth.upper(), f"{world.auth}/", f"{world.auth}.evil.test", world.api):
            shown(fetch(person, "POST", url, fields, {"origin": origin}), 403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "@"},
        {"origin": "@", "sec-fetch-site": "same-origin"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
@pytest.mark.parametrize("button", _BUTTONS)
def test_lg_05_form_of_this_server_is_accepted(
    world: LiveServers, button: str, headers: dict[str, str]
) -> None:
    person, page = _page(world, button)
    url, fields = _form(page, button)
    sent = {name: value.replace("@", world.auth) for name, value in headers.items()}
    _works(world, fetch(person, "POST", url, fields, sent))


def test_lg_05_form_with_two_origins_is_refused(world: LiveServers) -> None:
    person, page = _page(world, "allow")
    url, fields = _form(page, "allow")
    cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    target = url.removeprefix(world.auth)
    with world.nothing_changes():
        for second in ("Origin: https://evil.test", "Sec-Fetch-Site: cross-site"):
            headers = [f"Cookie: {cookie}", f"Origin: {world.auth}",
                       "Sec-Fetch-Site: same-origin", second]  # fmt: skip
            sent = request(
                world.auth, target=target, headers=headers, body=urlencode(fields).encode()
            )
            assert only(say(world.auth, sent)).status in {400, 403}


@pytest.mark.parametrize("button", _BUTTONS)
def test_lg_03_form_is_accepted_by_post_only(world: LiveServers, button: str) -> None:
    person, page = _page(world, button)
    url, fields = _form(page, button)
    more = "&" if "?" in url else "?"
    with world.nothing_changes():
        for method in ("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            response = fetch(person, method, url, fields)
            assert response.status == 405
            assert "POST" in response.headers["allow"]
        for extra in ({}, {"_method": "POST"}, {"method": "post"}):
            query = urlencode({**fields, **extra})
            headers = {"x-http-method-override": "POST", "x-http-method": "POST"}
            answer = fetch(person, "GET", f"{url}{more}{query}", None, headers)
            # The address of the form has no page of its own where the form only leads on.
            assert answer.status in ({405} if button == "switch-account" else {200, 400})
            assert "set-cookie" not in answer.headers
        body = urlencode(fields)
        for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x", ""):
            answer = fetch(person, "POST", url, body, {"content-type": kind})
            shown(answer, 400, "invalid_request")
    _works(world, fetch(person, "POST", url, fields))


def test_lg_01_csrf_token_of_one_form_is_refused_in_another(world: LiveServers) -> None:
    person, page = _page(world, "allow")
    consent, fields = _form(page, "allow")
    sign_out, bye = _form(person.open(f"{world.auth}/oauth/sign-out"), "sign-out")
    _, other = _form(consent_page(world, person), "allow")
    with world.nothing_changes():
        shown(fetch(person, "POST", sign_out, {"csrf": fields["csrf"]}), 403, "forbidden")
        shown(fetch(person, "POST", consent, {**fields, "csrf": bye["csrf"]}), 403, "forbidden")
        # Nor is the form of one request good for another, in the same browser and session.
        shown(fetch(person, "POST", consent, {**fields, "csrf": other["csrf"]}), 403, "forbidden")
        sign_in = consent.replace("/oauth/consent", "/oauth/sign-in")
        typed = {"csrf": fields["csrf"], "username": "alice", "password": PASSWORD}
        shown(fetch(person, "POST", sign_in, typed), 403, "forbidden")
    _works(world, fetch(person, "POST", consent, fields))


def test_lg_04_cross_site_sign_in_form_is_refused(
    world: LiveServers,
) -> None:
    mallory = UserAgent(world.auth)
    _, fields = _form(mallory.open(f"{world.auth}/oauth/sign-in"), "sign-in")
    planted = {**fields, "username": "mallory"}
    url = f"{world.auth}/oauth/sign-in"
    alice, nobody = signed_in(world), UserAgent(world.auth)
    nobody.open(url)
    with world.nothing_changes():
        for victim in (alice, nobody, UserAgent(world.auth)):
            for headers in ({}, {"origin": world.auth}, {"origin": "https://evil.test"}):
                answer = fetch(victim, "POST", url, planted, headers)
                shown(answer, 403, "forbidden")
                assert "set-cookie" not in answer.headers
    assert "Alice" in alice.open(f"{world.auth}/").text
    assert mallory.submit(mallory.open(url), "sign-in", planted).status == 200


def test_lg_08_sign_out_requires_a_post_of_the_own_form(world: LiveServers) -> None:
    person = signed_in(world)
    url = f"{world.auth}/oauth/sign-out"
    with world.nothing_changes():
        for more in ("", "?csrf=x", "?decision=allow", "?confirm=1&_method=POST", "?sign-out="):
            page = fetch(person, "GET", url + more)
            assert page.status == 200
            assert "set-cookie" not in page.headers
        shown(fetch(person, "POST", url, ""), 403, "forbidden")
        shown(fetch(person, "POST", url, "", {"origin": "https://evil.test"}), 403, "forbidden")
    assert "Alice" in person.open(f"{world.auth}/").text


@pytest.mark.parametrize(
    "place",
    ["https://evil.test/", "//evil.test", "/\\evil.test", "/\t/evil.test", "/%09/evil.test",
     "\\\\evil.test", "http:evil.test", "javascript:alert(1)", "/\r\nLocation: https://evil.test",
     "https:evil.test", ".evil.test", "@evil.test", "/%2f%2fevil.test", "///evil.test"],
)  # fmt: skip
def test_lg_11_redirect_parameters_are_ignored(world: LiveServers, place: str) -> None:
    names = (
        "next", "continue", "return_to", "returnUrl", "redirect", "redirect_uri", "url",
        "post_logout_redirect_uri", "target", "goto", "RelayState", "interaction_uri",
    )  # fmt: skip
    query = urlencode(dict.fromkeys(names, place))
    person = UserAgent(world.auth)
    for path in ("/oauth/sign-in", "/oauth/sign-out", "/"):
        page = fetch(person, "GET", f"{world.auth}{path}?{query}")
        assert page.status in {200, 400}
        assert "evil" not in page.body
    page = person.open(f"{world.auth}/oauth/sign-in")
    _, fields = _form(page, "sign-in")
    if "\r" not in place and "\t" not in place:
        fields |= dict.fromkeys(names, place)
    answer = fetch(person, "POST", f"{world.auth}/oauth/sign-in", fields)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "path",
    ["//evil.test", "/\\evil.test", "/%5cevil.test", "/http://evil.test", "/https:evil.test",
     "/..//evil.test", "/.//evil.test", "/;@evil.test", "/errors/..%2f..%2fevil", "/errors/evil",
     "/errors/%3Cscript%3Eevil", "/oauth/sign-in/", "/oauth//sign-in", "/OAUTH/sign-in"],
)  # fmt: skip
def test_lg_11_odd_paths_never_redirect(world: LiveServers, path: str) -> None:
    reply = only(say(world.auth, request(world.auth, "GET", path)))
    assert reply.status in {400, 404}
    assert "location" not in reply.headers
    assert b"evil" not in reply.body


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _is_ours(script: Mapping[str, str | None]) -> bool:
    """Whether it is one of this server's files, and nothing within the page."""
    return str(script.get("src")).startswith("/assets/") and set(script) <= {"src", "defer"}


def test_lg_09_pages_neither_submit_themselves_nor_load_foreign_content(world: LiveServers) -> None:
    person = signed_in(world)
    pages = [
        world.ask(UserAgent(world.auth)),
        consent_page(world, person),
        person.open(f"{world.auth}/oauth/sign-out"),
        person.open(f"{world.auth}/"),
        world.ask(person, redirect_uri="https://evil.test/cb"),
        person.open(f"{world.auth}/errors/invalid_request"),
        person.open(f"{world.auth}/errors/"),
    ]
    for page in pages:
        owed(page)
        elements = _Elements()
        elements.feed(page.body)
        assert elements.found
        for tag, attributes in elements.found:
            assert tag not in {"iframe", "frame", "object", "embed", "base", "style"}
            assert tag != "script" or _is_ours(attributes)
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            if tag == "form":
                assert str(attributes["action"]).startswith(("/oauth/", "/language"))
                assert attributes["method"] == "post"
                assert "target" not in attributes
            if tag in {"img", "link"}:
                assert str(attributes.get("src") or attributes.get("href")).startswith("/")
            if tag == "meta":
                assert "http-equiv" not in attributes


@pytest.mark.parametrize(
    "text",
    ['"><script>evil()</script>', "' onfocus=evil() x='", "{{evil}}", "\u202eevil", "<b>evil"],
)
def test_lg_typed_username_is_escaped(world: LiveServers, text: str) -> None:
    person = UserAgent(world.auth)
    hinted = world.ask(person, login_hint=text)
    typed = person.submit(hinted, "sign-in", {"username": text, "password": "x"})
    assert typed.status == 401
    for page in (hinted, typed):
        owed(page)
        elements = _Elements()
        elements.feed(page.body)
        names = [
            attributes["value"]
            for _, attributes in elements.found
            if attributes.get("id") == "username"
        ]
        assert names == [text.replace("\u202e", "")]
        assert not [tag for tag, _ in elements.found if tag == "b"]
        assert all(_is_ours(attributes) for tag, attributes in elements.found if tag == "script")


def test_lg_form_actions_stay_on_this_server_and_are_limited_by_csp(world: LiveServers) -> None:
    person = signed_in(world)
    page = consent_page(world, person)
    for form in page.forms:
        assert urlsplit(form.action).netloc == ""
        assert form.action.startswith(("/oauth/", "/language"))
        assert quote(form.action, safe="/?=.-_~") == form.action
    policy = page.headers["content-security-policy"]
    assert "form-action 'self' https://app.example;" in policy
    yes(world, person.allow(page), to=CALLBACK)
