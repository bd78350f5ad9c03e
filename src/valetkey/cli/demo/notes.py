"""Example data of the demo: Ada's notes, and requests of her app that the server refuses."""

from dataclasses import dataclass
from typing import cast

from valetkey.cli.demo.site import DESK, PASSWORD, PRINTER, USERNAME, DemoSite
from valetkey.cli.demo.wire import ShownExchange, TracedHttp, Unanswered, basic, bearer

_NOTES = (
    (
        "Lisbon, 12 to 16 May",
        "Flights and hotel are booked.\n\nStill to do: tram tickets, a table for Friday evening.",
    ),
    (
        "Reading club",
        "Thursday at 19:00 in the library.\nNext book: The Left Hand of Darkness, up to chapter 7.",
    ),
    (
        "Shopping list",
        "Coffee, rice, lemons, olive oil.\nPaper for the printer.",
    ),
)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The number of Ada's notes, and an access token that can read and write them."""

    count: int
    token: str


def seed(site: DemoSite) -> Seeded:
    """Create the notes, unless there are some. Raises Unanswered if a server does not respond."""
    wire = TracedHttp(lambda _: None)
    form = {
        "grant_type": "password",
        "username": USERNAME,
        "password": PASSWORD,
        "scope": "read write",
    }
    header = basic(DESK, site.secret(DESK))
    answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
    token = answer.text("access_token")
    url = f"{site.api_url}/v2/notes"
    listed = _good(wire.send("GET", url, headers=bearer(token)), 200)
    found = len(cast("list[object]", listed.json.get("items", [])))
    if found:
        return Seeded(found, token)
    _fail(site, wire)
    for title, text in _NOTES:
        document = {"title": title, "text": text}
        _good(wire.send("POST", url, document=document, headers=bearer(token)), 201)
    return Seeded(len(_NOTES), token)


def _fail(site: DemoSite, wire: TracedHttp) -> None:
    """Send two invalid requests as Notes Printer, for the list of failed requests."""
    asked = {
        "response_type": "code",
        "client_id": PRINTER,
        "redirect_uri": f"{site.callback}/",
        "scope": "notes:read",
    }
    wire.send("GET", f"{site.auth_url}/oauth/authorize", query=asked)
    form = {
        "grant_type": "authorization_code",
        "code": "an-old-code",
        "redirect_uri": site.callback,
    }
    header = basic(PRINTER, site.secret(PRINTER))
    wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)


def _good(answer: ShownExchange, status: int) -> ShownExchange:
    if answer.status != status:
        raise Unanswered(f"{answer.method} {answer.url} was answered with {answer.status}")
    return answer
