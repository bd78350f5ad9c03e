"""Chapters of the walk, and their state: the demo, HTTP, Ada's browser, the tokens so far."""

import textwrap
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import cast
from urllib.parse import quote, urljoin, urlsplit

from valetkey.cli import say
from valetkey.cli.demo import wire
from valetkey.cli.demo.site import PASSWORD, PRINTER, USERNAME, DemoSite
from valetkey.cli.demo.wire import Reply, ShownExchange, TracedHttp, Unanswered, bearer
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url
from valetkey.testing.browser import Page, UserAgent

_WIDTH = 92


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A response that differs from the expected one."""

    chapter: int
    exchange: int
    what: str
    expected: str
    received: str

    def __str__(self) -> str:
        """Return the mismatch in one sentence."""
        return f"{self.what}: expected {self.expected}, received {self.received}"


@dataclass(slots=True)
class Chapter:
    """One chapter and its results so far."""

    number: int
    title: str
    about: str
    rows: str
    exchanges: list[ShownExchange] = field(default_factory=list[ShownExchange])
    print_verified: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, object]:
        """Return the chapter as JSON, with secrets as short as on the screen."""
        return {
            "number": self.number,
            "title": self.title,
            "rows": self.rows.split(),
            "exchanges": [_exchange(exchange) for exchange in self.exchanges],
            "checks": self.print_verified,
        }


class UnexpectedResponse(Exception):
    """Ends a chapter, because its next steps depend on this response."""


@dataclass(slots=True)
class Transcript:
    """Print the chapters as they run, unless `quiet`, and record the results.

    Prints one line per chapter and its failures; with `verbose` every exchange.

    `unanswered` is called for a request without a response, and may raise to end the walk.
    """

    unanswered: Callable[[], None]
    quiet: bool = False
    verbose: bool = False
    checked: int = 0
    chapters: list[Chapter] = field(default_factory=list[Chapter])
    wrongs: list[Mismatch] = field(default_factory=list[Mismatch])

    @contextmanager
    def chapter(self, title: str, about: str, rows: str) -> Generator[None]:
        """Run one chapter; `rows` are those of the specification that it shows.

        A wrong or missing response ends the chapter and is recorded; the next chapter still runs.
        """
        chapter = Chapter(len(self.chapters) + 1, title, about, rows)
        self.chapters.append(chapter)
        wrongs = len(self.wrongs)
        self._detail("")
        self._detail(f"{say.strong(f'{chapter.number:>2}. {title}')}  {say.faint(rows)}")
        for line in textwrap.wrap(about, _WIDTH):
            self._detail(f"    {line}")
        try:
            yield
        except UnexpectedResponse:
            return
        except Unanswered as unanswered:
            self.unanswered()
            self._remember("an answer", "an answer", str(unanswered))
        finally:
            if not self.verbose:
                self._summarise(chapter, self.wrongs[wrongs:])

    def add_exchange(self, exchange: ShownExchange) -> None:
        """Print and record an exchange."""
        chapter = self.chapters[-1]
        if not (exchange.brief and chapter.exchanges and chapter.exchanges[-1].brief):
            self._detail("")
        chapter.exchanges.append(exchange)
        for line in wire.lines(exchange) if self.verbose else ():
            self._detail(line)

    def check(self, what: str, received: object, expected: object) -> None:
        """Check that both values of the last response are equal; otherwise end the chapter."""
        self.need(what, received == expected, str(expected), str(received))

    def need(self, what: str, fact: bool, expected: str, received: str) -> None:
        """Check a fact about the last response; if it is false, end the chapter."""
        self.checked += 1
        if not fact:
            self._remember(what, expected, received)
            raise UnexpectedResponse(what)

    def right(self, sentence: str) -> None:
        """Print a statement that was just verified."""
        self.chapters[-1].print_verified.append(sentence)
        self._detail(f"    {say.coloured('✓', 'green')} {sentence}")

    def as_json(self) -> dict[str, object]:
        """Return the transcript as JSON."""
        return {
            "right": not self.wrongs,
            "checks": self.checked,
            "chapters": [chapter.as_json() for chapter in self.chapters],
            "wrong": [asdict(wrong) for wrong in self.wrongs],
        }

    def _remember(self, what: str, expected: str, received: str) -> None:
        chapter = self.chapters[-1]
        number = chapter.exchanges[-1].number if chapter.exchanges else 0
        wrong = Mismatch(
            chapter.number,
            number,
            what,
            wire.mask_secrets(expected),
            wire.mask_secrets(received),
        )
        self.wrongs.append(wrong)
        if self.verbose:
            self._print_mismatch(wrong)

    def _summarise(self, chapter: Chapter, wrongs: Sequence[Mismatch]) -> None:
        sign = say.coloured("✗", "red") if wrongs else say.coloured("✓", "green")
        count = len(chapter.exchanges)
        exchanges = say.faint(f"{count} exchange{'' if count == 1 else 's'}")
        self._print(f"{sign} {chapter.number:>2}. {chapter.title}  {exchanges}")
        for wrong in wrongs:
            self._print_mismatch(wrong)

    def _print_mismatch(self, wrong: Mismatch) -> None:
        self._print(f"    {say.coloured('✗', 'red')} {wrong.what}")
        self._print(f"      expected: {wrong.expected}")
        self._print(f"      received: {wrong.received}")

    def _detail(self, line: str) -> None:
        if self.verbose:
            self._print(line)

    def _print(self, line: str) -> None:
        if not self.quiet:
            say.line(line)


def _exchange(exchange: ShownExchange) -> dict[str, object]:
    return {
        "number": exchange.number,
        "method": exchange.method,
        "url": wire.address(exchange.url),
        "status": exchange.status,
        "location": wire.address(exchange.header("Location")),
        "answer": wire.document(exchange.json),
    }


_FORM = "application/x-www-form-urlencoded"


class Browser(UserAgent):
    """A user whose exchanges are shown: the app's request in full, the pages on one line."""

    def __init__(
        self, home: str, wire: TracedHttp, username: str = USERNAME, password: str = PASSWORD
    ) -> None:
        """Start with an empty cookie jar, for the server at `home`; Ada's by default."""
        super().__init__(home)
        self._wire = wire
        self._account = username, password

    def authorize(
        self, url: str, *, allows: tuple[str, ...] | None = None, denies: bool = False
    ) -> Page:
        """Follow an app's authorization request to its end, signing in when required.

        On the consent page: allow what is checked, or `allows` alone, or deny everything.
        """
        page = self.open(url)
        if any(button.id == "sign-in" for button in page.buttons):
            page = self.sign_in(page, *self._account)
        if any(button.id == "allow" for button in page.buttons):
            page = self.deny(page) if denies else self.allow(page, only=allows)
        return page

    def _ask(self, method: str, url: str, body: str | None, headers: dict[str, str]) -> Page:
        try:
            page = super()._ask(method, url, body, headers)
        except OSError as error:
            raise Unanswered(f"no answer to {method} {url.partition('?')[0]}") from error
        exchange = ShownExchange(
            number=0,
            method=method,
            url=url,
            sent_headers=() if body is None else (("Content-Type", _FORM),),
            sent=body or "",
            status=page.status,
            headers=page.headers,
            body=page.body,
            brief=self._is_between_pages(url, page),
        )
        self._wire.show(exchange)
        return page

    def _is_between_pages(self, url: str, page: Page) -> bool:
        """Return whether the request is between user and server, and does not involve the app."""
        leads_to = urljoin(url, page.headers.get("Location", ""))
        begins = urlsplit(url).path.endswith("/authorize") and "interaction=" not in url
        return not begins and urlsplit(leads_to).netloc == self._home.netloc


HOUR = 3600
_SOON = 5.0  # seconds in which every resource server knows of a revocation


@dataclass(slots=True)
class WalkContext:
    """The context of a chapter. `got` holds token responses, by the name of their app.

    `notes` is the number of Ada's notes.
    """

    site: DemoSite
    story: Transcript
    wire: TracedHttp
    ada: Browser
    notes: int
    got: dict[str, Reply] = field(default_factory=dict[str, Reply])

    def authorize_url(self, client_id: str, redirect_uri: str, **more: str) -> tuple[str, str]:
        """Return an app's authorization request, and its state."""
        state = to_base64url(SYSTEM.random(9))
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            **more,
        }
        query = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in parameters.items())
        return f"{self.site.auth_url}/oauth/authorize?{query}", state

    def sent_back(self, page: Page, redirect_uri: str, state: str) -> Mapping[str, str]:
        """Return the parameters of a redirect to the app, after checking them (S16)."""
        check = self.story.check
        check("the browser is sent on", page.status, 303)
        bare = page.location.partition("?")[0].partition("#")[0]
        check("to the registered redirect URI", bare, redirect_uri)
        check("state comes back byte for byte", page.redirect_parameters.get("state"), state)
        check(
            "iss names the server (RFC 9207)",
            page.redirect_parameters.get("iss"),
            self.site.auth_url,
        )
        self.story.right("sent to the registered redirect URI, with the app's state and with iss")
        return page.redirect_parameters

    def code(self, page: Page, redirect_uri: str, state: str) -> str:
        """Return the code in the redirect to the app."""
        code = self.sent_back(page, redirect_uri, state).get("code", "")
        self.story.need("a code", bool(code), "a code", str(sorted(page.redirect_parameters)))
        return code

    def token(
        self, answer: ShownExchange, scope: str, *, expires_in: int = HOUR, uid: int | None = None
    ) -> Reply:
        """Return a token response after checking it (S17)."""
        got, check = answer.json, self.story.check
        check("status", answer.status, 200)
        check("Cache-Control", answer.header("Cache-Control"), "no-store")
        token = got.get("access_token")
        kind = isinstance(token, str) and bool(token)
        self.story.need("access_token", kind, "a string", type(token).__name__)
        check("token_type", got.get("token_type"), "bearer")
        check("expires_in", got.get("expires_in"), expires_in)
        check("scope", set(answer.text("scope").split()), set(scope.split()))
        check("uid", got.get("uid"), uid)
        whose = "no user behind it" if uid is None else f"for user {uid}"
        life = "an hour" if expires_in == HOUR else f"{expires_in} seconds"
        self.story.right(f"a bearer token for {scope}, good for {life}, {whose}")
        return got

    def read(self, name: str, token: object) -> ShownExchange:
        """Read an object with a POST that has no body (S14)."""
        url = f"{self.site.api_url}/v2/{name}"
        answer = self.wire.send("POST", url, headers=bearer(str(token)))
        self.story.check("status", answer.status, 200)
        return answer

    def received(self, name: str) -> Reply:
        """Return the tokens that an earlier chapter obtained."""
        self.story.need(
            "the tokens of an earlier chapter", name in self.got, f"those of {name}", "none"
        )
        return self.got[name]

    def items(self, answer: ShownExchange) -> Sequence[Reply]:
        """Return the items of a list response."""
        value = answer.json.get("items")
        return cast("Sequence[Reply]", value) if isinstance(value, list) else ()

    def info(self, answer: ShownExchange) -> Reply:
        """Return the user's data in a token response."""
        value = answer.json.get("info")
        return cast("Reply", value) if isinstance(value, dict) else {}

    def exchange(self, code: str, redirect_uri: str, **more: str) -> ShownExchange:
        """Exchange Notes Printer's code for tokens, with everything in the query string (S11)."""
        form = {
            "grant_type": "authorization_code",
            "client_id": PRINTER,
            "client_secret": self.site.secret(PRINTER),
            "code": code,
            "redirect_uri": redirect_uri,
            **more,
        }
        return self.wire.send("POST", f"{self.site.auth_url}/oauth/token", query=form)

    def refused(self, answer: ShownExchange, status: int, code: str) -> None:
        """Check that the response is an error of the authorization server with an explanation."""
        check, explained = self.story.check, f"{self.site.auth_url}/errors/{code}"
        check("status", answer.status, status)
        check("error", answer.text("error"), code)
        check("error_uri", answer.text("error_uri").partition("?")[0], explained)
        self.story.right(f"refused with {code}, a page that explains it, and a reference")

    def invalid_token(self, answer: ShownExchange, but: str) -> None:
        """Check that the response is the Invalid Token Error (S19)."""
        self.story.check("status", answer.status, 401)
        self.story.check("title", answer.text("title"), "Invalid Token Error")
        challenge = answer.header("WWW-Authenticate")
        says = 'error="invalid_token"'
        self.story.need("WWW-Authenticate", says in challenge, f"Bearer {says}", challenge)
        self.story.right(f"401, Invalid Token Error: {but}")

    def expires(self, name: str, token: object) -> None:
        """Check that the resource server refuses a revoked token within five seconds."""
        url = f"{self.site.api_url}/v2/{name}"
        answer, took = self.wire.until(401, _SOON, "POST", url, bearer(str(token)))
        self.invalid_token(answer, f"the resource server knew after {took:.1f} seconds")
