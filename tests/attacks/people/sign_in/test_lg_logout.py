"""LG-23: nobody is signed out by a link, and who signed out is out, also of what hung on it."""

from collections.abc import Iterator
from urllib.parse import urlencode, urljoin

import pytest

from tests.attacks.people.told import owed
from tests.support.live import CODE_GRANT, PASSWORD, LiveServers
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.testing.browser import Page, UserAgent

_BYE = "https://app.example/bye"


@pytest.fixture(scope="module")
def openid(world: LiveServers) -> LiveServers:
    """The world, and an app whose grants end with the session."""
    world.client(
        "bound1",
        name="Bound One",
        grant_types=CODE_GRANT,
        scopes=("openid", "notes:read"),
        ends_with_session=True,
        openid=OpenIdRegistration(post_logout_redirect_uris=(_BYE,)),
    )
    return world


def _visit(world: LiveServers) -> tuple[UserAgent, dict[str, str]]:
    """Somebody who signed in to the app; what it was given."""
    person = UserAgent(world.auth)
    page = world.ask(person, "bound1", scope="openid notes:read")
    page = person.sign_in(page, "alice", PASSWORD)
    page = page if page.location else person.allow(page)
    answer = world.exchange(page.redirect_parameters["code"], "bound1")
    answer.ok()
    return person, answer.json


def _asked(world: LiveServers, **parameters: str) -> str:
    return f"{world.auth}/oauth/logout?{urlencode(parameters)}"


def _is_in(world: LiveServers, person: UserAgent) -> bool:
    page = world.ask(person, "bound1", scope="openid", prompt="none")
    return page.redirect_parameters.get("error") != "login_required"


def _questions(world: LiveServers, tokens: dict[str, str]) -> Iterator[str]:
    for hint in ("", tokens["id_token"], "nonsense"):
        for back in ("", _BYE, "https://evil.example/"):
            parameters = {"id_token_hint": hint, "post_logout_redirect_uri": back, "state": "s"}
            yield _asked(world, **{name: value for name, value in parameters.items() if value})


def test_lg_23_logout_link_only_shows_the_confirmation(openid: LiveServers) -> None:
    person, tokens = _visit(openid)
    elsewhere = {"sec-fetch-site": "cross-site", "referer": "https://evil.example/"}
    with openid.nothing_changes():
        for url in _questions(openid, tokens):
            page = person.open(url, elsewhere)
            owed(page)
            assert page.status == 200
            assert "sign-out" in {button.id for button in page.buttons}
            assert "http-equiv" not in page.body.lower()
            assert "refresh" not in page.headers
    assert _is_in(openid, person)


def test_lg_23_cross_site_logout_form_is_refused(openid: LiveServers) -> None:
    person, tokens = _visit(openid)
    cookies = {"cookie": "; ".join(f"{name}={value}" for name, value in person.cookies.items())}
    page = person.open(_asked(openid, id_token_hint=tokens["id_token"]))
    form = next(candidate for candidate in page.forms if candidate.action != "/language")
    fields = dict(form.fields)
    hostile = ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"})
    with openid.nothing_changes():
        for headers in hostile:
            assert openid.post(form.action, fields, headers={**cookies, **headers}).status == 403
        for wrong in (
            {**fields, "csrf": ""},
            {**fields, "csrf": fields["csrf"][::-1]},
            {**fields, "returns_to": "https://evil.example/"},
            {},
        ):
            assert openid.post(form.action, wrong, headers=cookies).status == 403
        assert openid.post("/oauth/logout", fields, headers=cookies).status == 200
    assert _is_in(openid, person)


def test_lg_23_unregistered_post_logout_redirect_uris_are_refused(openid: LiveServers) -> None:
    person, tokens = _visit(openid)
    for back in (
        "https://evil.example/",
        f"{_BYE}/",
        f"{_BYE}?a=b",
        f"{_BYE}#a",
        "https://app.example/BYE",
        "https://app.example/bye%20",
        "//app.example/bye",
        "javascript:alert(1)",
        "https://app.example@evil.example/bye",
    ):
        parameters = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": back}
        stranger = UserAgent(openid.auth)
        shown = stranger.open(_asked(openid, **parameters))
        assert (shown.status, shown.location) == (200, "")
        assert "refresh" not in shown.headers
        assert "evil" not in shown.body
        page = person.submit(person.open(_asked(openid, **parameters)), "sign-out")
        assert (page.status, page.location) == (200, "")
        assert "refresh" not in page.headers
        assert not _is_in(openid, person)
        person, tokens = _visit(openid)


def test_lg_23_old_cookies_and_cached_pages_are_useless_after_sign_out(openid: LiveServers) -> None:
    person, tokens = _visit(openid)
    before = dict(person.cookies)
    question = person.open(_asked(openid, id_token_hint=tokens["id_token"]))
    for page in (question, person.open(f"{openid.auth}/")):
        assert page.headers["cache-control"] == "no-store"
    signed_out = person.submit(question, "sign-out")
    owed(signed_out)
    assert "You are signed out" in signed_out.text
    # Whoever kept the cookies has nothing either.
    person.cookies = before
    assert not _is_in(openid, person)
    home: Page = person.open(f"{openid.auth}/")
    assert "sign-out" not in {button.id for button in home.buttons}
    again = urljoin(question.url, question.forms[0].action)
    assert openid.post(again.removeprefix(openid.auth), dict(question.forms[0].fields)).status in {
        303,
        403,
    }


def test_lg_23_sign_out_ends_tokens_bound_to_the_session(openid: LiveServers) -> None:
    person, tokens = _visit(openid)
    assert openid.introspect(tokens["access_token"], "bound1")["active"] is True
    person.submit(person.open(f"{openid.auth}/oauth/sign-out"), "sign-out")
    openid.refresh(tokens["refresh_token"], "bound1").refused(400, "invalid_grant")
    assert openid.introspect(tokens["access_token"], "bound1")["active"] is False


def test_lg_23_code_of_an_ended_session_is_refused(openid: LiveServers) -> None:
    person, _ = _visit(openid)
    page = openid.ask(person, "bound1", scope="openid notes:read")
    person.submit(person.open(f"{openid.auth}/oauth/sign-out"), "sign-out")
    openid.exchange(page.redirect_parameters["code"], "bound1").refused(400, "invalid_grant")
