"""What people and apps are told: PAGE and BACK of the catalogue, and one request at a time."""

import re
from collections.abc import Mapping
from http.client import HTTPConnection
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.attacks.raw import HARDENED
from tests.support.live import CALLBACK, PASSWORD, LiveServers
from tests.support.wait import CEILING
from valetkey.testing.browser import Page, UserAgent

_REFERENCE = re.compile(r"VK(?:-[0-9A-HJKMNP-TV-Z]{4}){3}")
_DESCRIPTION = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749 section 4.1.2.1


_OWN_SCRIPT = re.compile(r'<script src="/assets/[a-z]+-[0-9a-f]{16}\.js" defer></script>')


def owed(page: Page) -> Page:
    """The page, held to what every answer owes."""
    assert page.status < 500, page.text
    assert len(page.body) < 65_536
    for name in HARDENED:
        assert len(page.headers.get_all(name, [])) == 1, name
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    # Files of ours alone: nothing that a page says can become one.
    assert "<script" not in _OWN_SCRIPT.sub("", page.body).lower()
    return page


def shown(page: Page, status: int, code: str) -> None:
    """PAGE of the catalogue: told to the person here, and nowhere else."""
    owed(page)
    assert page.status == status, page.text
    assert page.location == ""
    assert "location" not in page.headers
    assert "refresh" not in page.headers
    assert "http-equiv" not in page.body.lower()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<code>{code}</code>" in page.body
    assert _REFERENCE.search(page.text)
    assert "evil" not in page.body


def back(
    world: LiveServers, page: Page, code: str, *, to: str = CALLBACK, state: str | None = "xyz"
) -> None:
    """BACK of the catalogue: told to the client, with its state, at an address of its own."""
    parameters = answered(page, to=to)
    assert parameters.get("error") == code, page.location
    assert parameters.get("state") == state
    assert parameters["iss"] == world.auth
    explained, _, reference = parameters["error_uri"].partition("?reference=")
    assert explained == f"{world.auth}/errors/{code}"
    assert _REFERENCE.fullmatch(reference)
    # Nothing that no specification of OAuth or OpenID Connect knows.
    assert parameters.keys() <= {"error", "error_description", "error_uri", "state", "iss"}
    assert _DESCRIPTION.fullmatch(parameters["error_description"])
    assert "code" not in parameters
    assert "access_token" not in parameters


def yes(world: LiveServers, page: Page, *, to: str = CALLBACK, state: str | None = "xyz") -> str:
    """The code that the client got, after a look at everything around it."""
    parameters = answered(page, to=to)
    assert parameters.get("state") == state
    assert parameters["iss"] == world.auth
    assert set(parameters) == {"code", "iss"} | ({"state"} if state is not None else set())
    return parameters["code"]


def answered(page: Page, *, to: str = CALLBACK) -> dict[str, str]:
    """What a redirect to exactly this address says; each thing once."""
    owed(page)
    assert page.status == 303, page.text
    sent = page.headers["location"]
    assert len(page.headers.get_all("location", [])) == 1
    begins = to + ("&" if "?" in to else "?")
    assert sent.startswith(begins), sent
    assert sent.endswith("#"), sent
    assert re.fullmatch(r"[\x21-\x7e]+", sent)
    pairs = parse_qsl(sent[len(begins) : -1], keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs), sent
    return dict(pairs)


def fetch(
    person: UserAgent,
    method: str,
    url: str,
    form: Mapping[str, str] | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Page:
    """One request with the person's cookies as they are; nothing is followed, nothing is kept."""
    parts = urlsplit(url)
    sent = {"cookie": "; ".join(f"{name}={value}" for name, value in person.cookies.items())}
    if form is not None:
        sent["content-type"] = "application/x-www-form-urlencoded"
    sent = {name: value for name, value in {**sent, **(headers or {})}.items() if value}
    body = form if isinstance(form, str | None) else urlencode(form)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = HTTPConnection(parts.netloc, timeout=CEILING)
    try:
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    location = answer.headers.get("location", "")
    return owed(Page(answer.status, url, text, answer.headers, location=location))


def signed_in(world: LiveServers, name: str = "alice") -> UserAgent:
    """A browser in which this person is signed in."""
    person = UserAgent(world.auth)
    page = person.sign_in(person.open(f"{world.auth}/oauth/sign-in"), name, PASSWORD)
    assert page.status == 200, page.text
    return person


def consent_page(
    world: LiveServers, person: UserAgent, client_id: str = "web1", **changes: str
) -> Page:
    """The consent page of the baseline request, with `changes`."""
    page = world.ask(person, client_id, **{"prompt": "consent", **changes})
    assert page.status == 200, page.text
    assert any(button.id == "allow" for button in page.buttons), page.text
    return owed(page)
