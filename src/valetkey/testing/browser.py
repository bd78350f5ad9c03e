"""A test browser without JavaScript: follows redirects, submits forms, keeps cookies."""

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

_REDIRECTS = 10
_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Button:
    """The form field of a submit button."""

    id: str
    name: str
    value: str
    form: int


@dataclass(slots=True)
class Form:
    """A form of the page: its action and the initial values."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    boxes: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])


@dataclass(frozen=True, slots=True)
class Page:
    """A page in the browser. `location` is the redirect to another server, "" if there was none."""

    status: int
    url: str
    body: str
    headers: HTTPMessage
    location: str = ""
    forms: tuple[Form, ...] = ()
    buttons: tuple[Button, ...] = ()

    @property
    def redirect_parameters(self) -> Mapping[str, str]:
        """Return the parameters of the redirect, from its query or fragment."""
        parts = urlsplit(self.location)
        return dict(parse_qsl(parts.query) + parse_qsl(parts.fragment))

    @property
    def text(self) -> str:
        """The text of the page on one line, without tags."""
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.body)).strip()


class UserAgent:
    """A browser session. Other hosts are not visited: the page has their URLs."""

    def __init__(self, home: str, tls: ssl.SSLContext | None = None) -> None:
        """Start with an empty cookie jar, for the server at `home`.

        It trusts the authorities of `tls`; without it, public ones.
        """
        self._home = urlsplit(home)
        self._tls = tls
        self.cookies: dict[str, str] = {}

    def open(self, url: str, headers: Mapping[str, str] | None = None) -> Page:
        """Request the URL, and follow redirects within this server."""
        return self._follow("GET", url, None, dict(headers or {}))

    def submit(
        self,
        page: Page,
        button: str,
        values: Mapping[str, str] | None = None,
        *,
        boxes: Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Page:
        """Press the button with this id after typing `values`; `boxes` are the values checked."""
        pressed = next(page_button for page_button in page.buttons if page_button.id == button)
        form = page.forms[pressed.form]
        typed = dict(values or {})
        pairs = [(name, typed.pop(name, value)) for name, value in form.fields]
        pairs += [
            (name, value)
            for name, value, checked in form.boxes
            if (checked if boxes is None else value in boxes)
        ]
        pairs += list(typed.items())
        if pressed.name:
            pairs.append((pressed.name, pressed.value))
        extra = {"origin": f"{self._home.scheme}://{self._home.netloc}", **(headers or {})}
        return self._follow("POST", urljoin(page.url, form.action), urlencode(pairs), extra)

    def sign_in(self, page: Page, username: str, password: str) -> Page:
        """Fill in the sign-in page and submit it."""
        return self.submit(page, "sign-in", {"username": username, "password": password})

    def allow(self, page: Page, *, only: Sequence[str] | None = None) -> Page:
        """Allow the checked scopes, or only these."""
        return self.submit(page, "allow", boxes=only)

    def deny(self, page: Page) -> Page:
        """Deny the request."""
        return self.submit(page, "deny")

    def _follow(self, method: str, url: str, body: str | None, headers: dict[str, str]) -> Page:
        for _ in range(_REDIRECTS):
            page = self._ask(method, url, body, headers)
            target = page.headers.get("location")
            if target is None or page.status not in {302, 303}:
                return page
            url = urljoin(url, target)
            if urlsplit(url).netloc != self._home.netloc:
                return Page(page.status, page.url, page.body, page.headers, location=url)
            method, body, headers = "GET", None, {}
        raise RecursionError(f"more than {_REDIRECTS} redirects")

    def _ask(self, method: str, url: str, body: str | None, headers: dict[str, str]) -> Page:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = dict(headers)
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
        connection = self._connect()
        try:
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            html = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        for cookie in answer.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            if value and "max-age=0" not in cookie.lower():
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        reader = _Reader()
        if answer.headers.get_content_type() == "text/html":
            reader.feed(html)
        return Page(
            answer.status,
            url,
            html,
            answer.headers,
            forms=tuple(reader.forms),
            buttons=tuple(reader.buttons),
        )

    def _connect(self) -> HTTPConnection:
        if self._home.scheme == "https":
            return HTTPSConnection(self._home.netloc, timeout=_SECONDS, context=self._tls)
        return HTTPConnection(self._home.netloc, timeout=_SECONDS)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.buttons: list[Button] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(attributes.get("action", ""), attributes.get("method", "get")))
        elif tag == "button" and self.forms:
            self.buttons.append(self._button(attributes))
        elif tag == "input" and self.forms:
            self._input(attributes, dict(attrs))

    def _button(self, attributes: Mapping[str, str]) -> Button:
        return Button(
            attributes.get("id", ""),
            attributes.get("name", ""),
            attributes.get("value", ""),
            len(self.forms) - 1,
        )

    def _input(self, members: Mapping[str, str], attributes: Mapping[str, str | None]) -> None:
        name, value = members.get("name", ""), members.get("value", "")
        if members.get("type") == "checkbox":
            self.forms[-1].boxes.append((name, value or "on", "checked" in attributes))
        elif members.get("type") == "submit":
            self.buttons.append(self._button(members))
        elif name:
            self.forms[-1].fields.append((name, value))
