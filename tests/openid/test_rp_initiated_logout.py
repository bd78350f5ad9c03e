"""What the RP-Initiated Logout profile asks: out means out, and back only to where was agreed."""

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests

from tests.openid.provider import Provider
from tests.openid.relying_party import SECONDS, RelyingParty
from valetkey.testing.browser import Page, UserAgent

BACK = "https://rp.example/signed-out"


class Visit:
    """A person who signed in to an app and now wants to leave."""

    def __init__(self, op: Provider) -> None:
        self.op = op
        self.rp: RelyingParty = op.register(post_logout_redirect_uris=[BACK])
        self.person: UserAgent = op.person()
        tokens = self.rp.tokens(self.rp.authenticate(self.person))
        self.hint = str(tokens["id_token"])

    def leave(self, **parameters: str) -> Page:
        """Ask to be signed out, and press the button."""
        url = f"{self.rp.at('end_session_endpoint')}?{urlencode(parameters)}"
        page = self.person.open(url)
        assert any(button.id == "sign-out" for button in page.buttons), page.text
        assert not self.is_out(), "signed out before anybody agreed"
        return self.person.submit(page, "sign-out")

    def is_out(self) -> bool:
        """Whether the provider would ask who it is."""
        answer = self.rp.receive(self.rp.ask(self.person, prompt="none"))
        return answer.error == "login_required"


@pytest.fixture
def visit(op: Provider) -> Visit:
    return Visit(op)


def ends_here(visit: Visit, page: Page) -> None:
    """The provider's own page says that it is done, and nobody is sent anywhere."""
    assert not page.location
    assert page.status < 300 or page.status == 400
    assert "signed out" in page.text.lower()
    assert visit.is_out()


def test_logout_with_hint_ends_the_session_and_redirects_with_the_state(visit: Visit) -> None:
    page = visit.leave(id_token_hint=visit.hint, post_logout_redirect_uri=BACK, state="one&two=3")
    assert page.location.startswith(f"{BACK}?")
    assert dict(parse_qsl(urlsplit(page.location).query)) == {"state": "one&two=3"}
    assert visit.is_out()


def test_logout_without_state_redirects_without_state(visit: Visit) -> None:
    page = visit.leave(id_token_hint=visit.hint, post_logout_redirect_uri=BACK)
    assert page.location == BACK
    assert visit.is_out()


@pytest.mark.parametrize("only", [(), ("state",), ("id_token_hint",), ("id_token_hint", "state")])
def test_logout_without_redirect_uri_ends_on_our_page(visit: Visit, only: tuple[str, ...]) -> None:
    parameters = {"id_token_hint": visit.hint, "state": "x"}
    ends_here(visit, visit.leave(**{name: parameters[name] for name in only}))


def test_post_logout_redirect_uri_without_hint_or_client_id_is_ignored(visit: Visit) -> None:
    ends_here(visit, visit.leave(post_logout_redirect_uri=BACK, state="x"))


def test_logout_with_client_id_redirects_without_hint(visit: Visit) -> None:
    page = visit.leave(client_id=visit.rp.client_id, post_logout_redirect_uri=BACK)
    assert page.location == BACK


@pytest.mark.parametrize(
    "address", ["https://rp.example/elsewhere", f"{BACK}?foo=bar", "https://evil.example/"]
)
def test_unregistered_post_logout_redirect_uri_is_ignored(visit: Visit, address: str) -> None:
    ends_here(
        visit,
        visit.leave(id_token_hint=visit.hint, post_logout_redirect_uri=address, state="x"),
    )


def test_id_token_hint_with_invalid_signature_is_ignored(visit: Visit) -> None:
    head, body, signature = visit.hint.split(".")
    broken = signature[:-8] + signature[-8:][::-1]
    assert broken != signature
    for hint in (f"{head}.{body}.{broken}", "not.a.token", f"{head}.{body}."):
        other = Visit(visit.op)
        page = other.leave(id_token_hint=hint, post_logout_redirect_uri=BACK, state="x")
        ends_here(other, page)


def test_request_by_post_is_accepted(visit: Visit) -> None:
    form = {"id_token_hint": visit.hint, "post_logout_redirect_uri": BACK, "state": "x"}
    url, cookies = visit.rp.at("end_session_endpoint"), visit.person.cookies
    answer = requests.post(url, form, cookies=cookies, timeout=SECONDS)
    assert answer.status_code == requests.codes.ok
    assert 'id="sign-out"' in answer.text
    assert not visit.is_out()


def test_signed_out_user_is_redirected_immediately(op: Provider) -> None:
    visit = Visit(op)
    stranger = op.person()
    query = urlencode({"id_token_hint": visit.hint, "post_logout_redirect_uri": BACK, "state": "x"})
    page = stranger.open(f"{visit.rp.at('end_session_endpoint')}?{query}")
    assert page.location == f"{BACK}?state=x"
    assert not visit.is_out()
