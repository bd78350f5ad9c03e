"""A crawler: reads every page that it can reach, follows its links and sends its forms."""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote, urlencode, urljoin, urlsplit

from tests.support.english import VOID, english_on
from tests.support.plain_browser import Answer, Browser
from valetkey.web.paths import Paths
from valetkey.web.router import Route

MOST = 2_000
"""Requests of one crawl, at most: the site is bounded, and the test says so if it is not."""

_LEAKS = re.compile(r"[<>{}'\"\\^`|\s]|%3C|%7B|\bNone\b|\bMacro\b|\bUndefined\b", re.IGNORECASE)
_INTERNAL = re.compile(r"\bUNSET\b|\bNODEFAULT\b|\bobject at 0x|=\"None\"")
"""Python's own words for a value that is not there."""

_TAG = re.compile(r"<[^>]*>")
_LAST = (
    "/email/confirm",
    "/disable",
    "/sessions",
    "/end",
    "/password/remove",
    "/remove",
    "/undo",
    "switch-account",
    "/delete",
    "/account/new",
    "/account/reset",
    "/language",
    "sign-out",
)
"""What ends something is sent after everything else, in this order."""

_TYPED = frozenset({"text", "email", "password", "search", "url", "number", "tel", "date"})
_CONTROLS = frozenset({"button", "input", "select", "textarea"})
_OK = frozenset({200, 204, 303})
_ANSWERED = frozenset({200, 303, 400, 401, 409, 422, 429})
"""What a form may be answered with: 401 and 429 are pages that ask again."""


Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A form as one of its buttons sends it.

    `typed` are the fields that people fill in, `boxes` those that are not checked, each with
    whether it is one of several choices.
    """

    action: str
    method: str
    fields: tuple[tuple[str, str], ...]
    boxes: tuple[tuple[str, str, bool], ...]
    typed: frozenset[str]

    def body(self, typed: Mapping[str, str] | None = None) -> str:
        """What is sent: fields that were left empty hold what is `typed`; None empties them all."""
        pairs: list[tuple[str, str]] = []
        for name, value in self.fields:
            if name not in self.typed:
                pairs.append((name, value))
            elif typed is None:
                pairs.append((name, ""))
            elif name == "confirmation":
                pairs.append((name, dict(self.fields)["confirms"]))
            else:
                pairs.append((name, value or typed.get(name, "")))
        for name, value, is_radio in self.boxes:
            if (typed or {}).get(name) not in {value, "every"}:
                continue
            if is_radio:
                pairs = [pair for pair in pairs if pair[0] != name]
            pairs.append((name, value))
        return urlencode(pairs)


class Html(HTMLParser):
    """The addresses, forms and ids of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.forms: list[Form] = []
        self.passwords: set[str] = set()
        self.shown: set[str] = set()
        self.menus: set[str] = set()
        self.popovers: set[str] = set()
        #: What does nothing without a script, as it is written.
        self.dead: list[str] = []
        self._hidden: list[bool] = []
        self._open: tuple[str, str] | None = None
        self._fields: list[tuple[str, str]] = []
        self._boxes: list[tuple[str, str, bool]] = []
        self._typed: set[str] = set()
        self._buttons: list[tuple[str, str]] = []
        self._select, self._area = "", ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if values.get("type") == "password":
            self.passwords.add(values.get("id", ""))
        self.shown.add(values.get("data-show", ""))
        self.ids.update(value for name, value in attrs if name == "id" and value)
        if "popover" in values:
            self.popovers.add(values["id"])
        if "popovertarget" in values:
            self.menus.add(values["popovertarget"])
        self._look_at(tag, values)
        if tag in {"a", "link"} and "href" in values:
            self.links.append(values["href"])
        elif tag in {"img", "script"} and "src" in values:
            self.links.append(values["src"])
        elif tag == "form" and "data-method" in values:
            # Hidden until a script sends it, to the operation that it names.
            return
        elif tag == "form":
            self._open = (values.get("action", ""), values.get("method", "get").upper())
            self._fields, self._boxes, self._typed, self._buttons = [], [], set(), []
        elif self._open is not None:
            self._control(tag, values, dict(attrs))

    def _look_at(self, tag: str, values: Mapping[str, str]) -> None:
        hidden = any(self._hidden[-1:]) or "hidden" in values
        if tag not in VOID:
            self._hidden.append(hidden)
        if not hidden and self._is_dead(tag, values):
            self.dead.append(self.get_starttag_text() or "")

    def _is_dead(self, tag: str, values: Mapping[str, str]) -> bool:
        """Whether a visitor without scripts sees a control that does nothing, or no control."""
        if tag == "a":
            return values.get("href", "#") == "#" or values["href"].startswith("javascript:")
        if tag == "form":
            return not values.get("action")
        if tag == "button" and values.get("type") == "button":
            return "popovertarget" not in values
        in_form = self._open is not None or "form" in values
        return tag in _CONTROLS and values.get("type") != "hidden" and not in_form

    def _control(self, tag: str, values: dict[str, str], attributes: dict[str, str | None]) -> None:
        name, value, kind = (
            values.get("name", ""),
            values.get("value", ""),
            values.get("type", "text"),
        )
        if tag == "button":
            self._buttons.append((name, value))
        elif tag == "select":
            self._select = name
        elif tag == "option" and not self._select:
            return  # of a list of suggestions
        elif tag == "option" and "selected" in attributes:
            self._fields = [pair for pair in self._fields if pair[0] != self._select]
            self._fields.append((self._select, value))
        elif tag == "option" and self._select not in dict(self._fields):
            self._fields.append((self._select, value))
        elif tag == "textarea":
            self._area = name
            self._fields.append((name, ""))
            self._typed.add(name)
        elif tag == "input" and name:
            if kind in {"checkbox", "radio"} and "checked" not in attributes:
                self._boxes.append((name, value or "on", kind == "radio"))
                return
            self._fields.append((name, value))
            if kind in _TYPED:
                self._typed.add(name)

    def missing(self) -> Iterator[str]:
        """What every page needs and this one does not have."""
        if "#content" not in self.links:
            yield "has no skip link"
        for name in sorted(self.passwords - self.shown):
            yield f"has no button that shows the password in {name}"
        for menu in sorted(self.menus - self.popovers):
            yield f"has a button that opens {menu}, which is no popover"

    def handle_data(self, data: str) -> None:
        if self._area:
            name, value = self._fields.pop()
            self._fields.append((name, value + data))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._hidden.pop()
        if tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._area = ""
        elif tag == "form" and self._open is not None:
            action, method = self._open
            for button in self._buttons or [("", "")]:
                pressed = (button,) if button[0] else ()
                fields = (*self._fields, *pressed)
                boxes, typed = tuple(self._boxes), frozenset(self._typed)
                self.forms.append(Form(action, method, fields, boxes, typed))
            self._open = None


@dataclass
class Crawl:
    """One visitor's crawl of the whole site, and what was wrong. Addresses begin with a slash."""

    browser: Browser
    routes: tuple[Route, ...]
    #: Sign in again after a form has ended the session.
    again: Callable[[], Awaitable[None]] | None = None
    #: What pages elsewhere lead to is left to other crawls.
    below: str = "/"
    #: Pages that are opened again after each form, for what it may have put there.
    changing: tuple[str, ...] = ()
    #: Sentences of pages that are meant to refuse.
    refusals: tuple[str, ...] = ()
    #: What no page may show.
    never: tuple[str, ...] = ()
    #: What is typed into fields of these names.
    typed: Mapping[str, str] = field(default_factory=dict[str, str])
    findings: list[str] = field(default_factory=list[str])
    #: English texts on pages in another language, and what does nothing without a script: where.
    english: dict[str, str] = field(default_factory=dict[str, str])
    dead: dict[str, str] = field(default_factory=dict[str, str])
    reached: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    requests: int = 0
    _seen: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _waiting: deque[tuple[str, str]] = field(default_factory=deque[tuple[str, str]])
    _anchors: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    _asked: dict[str, str] = field(default_factory=dict[str, str])
    _elsewhere: set[str] = field(default_factory=set[str])
    _forms: dict[Key, str] = field(default_factory=dict[Key, str])
    _sent: set[Key] = field(default_factory=set[Key])
    _routes: dict[str, Route | None] = field(default_factory=dict[str, Route | None])

    async def everything(self, *starts: str) -> None:
        """Follow all links, then send all forms, those that end something last.

        Begin again with what the forms made, such as letters.
        """
        for turn in ("blank", "filled in", "filled in again"):
            for start in starts:
                self._seen.pop(start, None)
                self._waiting.append((start, "the start"))
            await self._follow_all()
            how = turn.removesuffix(" again")
            while due := [key for key in self._forms if (*key, how) not in self._sent]:
                key = min(due, key=lambda key: (_rank(key), key))
                self._sent.add((*key, how))
                await self._send_from(self._forms[key], key, how)
                await self._follow_all()
        for page, target, anchor in sorted(self._anchors):
            if target in self._seen and anchor not in self._seen[target]:
                self._wrong(page, f"leads to #{anchor}, which {target} does not have")

    def route(self, path: str) -> Route | None:
        """The route that answers at a path, as the server finds it."""
        if path not in self._routes:
            paths = Paths([(route.path, route) for route in self.routes])
            self._routes[path] = paths.find(path)[0]
        return self._routes[path]

    def _wrong(self, page: str, what: str) -> None:
        self.findings.append(f"{page} {what}")

    async def _follow_all(self) -> None:
        while self._waiting:
            address, page = self._waiting.popleft()
            if address in self._seen:
                continue
            self._seen[address] = set()
            answer = await self._ask("GET", address)
            meant = any(sentence in answer.body for sentence in self.refusals)
            if answer.status == 404 and "/failures/VK-" in address and not meant:
                answer = await self._once_written(address)
            if answer.status in _OK or meant:
                self._read(address, answer)
            else:
                self._wrong(page, f"links to {address}: {answer.status} {_text(answer)}")

    async def _once_written(self, address: str) -> Answer:
        """What is there when the record of a refusal is on disk, which is behind the request."""
        answer = await self._ask("GET", address)
        for _ in range(200):
            if answer.status != 404:
                break
            self.requests -= 1
            await asyncio.sleep(0.02)
            answer = await self._ask("GET", address)
        return answer

    async def _ask(self, method: str, address: str, body: str = "") -> Answer:
        self.requests += 1
        assert self.requests < MOST, "the crawl does not come to its end"
        route = self.route(urlsplit(address).path)
        if route is not None:
            self.reached.add((route.path, method))
        origin = f"{self.browser.scheme}://{self.browser.host}"
        headers = {"accept": "text/html"} | ({"origin": origin} if method == "POST" else {})
        return await self.browser.send(method, address, body.encode(), headers)

    def _read(self, address: str, answer: Answer, answered: str = "") -> None:
        """Note what the page leads to; `answered` says that it came in answer to a form."""
        page = address + answered
        if answer.status == 303:
            self._note(address, page, answer.location)
            self._asked.setdefault(answer.location, self._asked.get(address, address))
        if answer.header("content-type").startswith("text/css"):
            for url in re.findall(r"url\(([^)]*)\)", answer.body):
                self._note(address, page, url.strip("\"'"))
        is_page = answer.header("content-type").startswith("text/html")
        if not is_page or not address.startswith(self.below):
            return
        shown = _TAG.sub(" ", answer.body)
        html = Html(answer.body)
        self.english |= dict.fromkeys(english_on(answer.body, self.browser.language), page)
        self.dead |= dict.fromkeys(html.dead, page)
        banned = (f"shows {text}" for text in self.never if text in shown)
        internal = (f"shows {text}" for text in _INTERNAL.findall(answer.body))
        for what in (*banned, *internal, *html.missing()):
            self._wrong(page, what)
        self._seen.setdefault(page, set()).update(html.ids)
        inside = {link for link in html.links if link.startswith("#")}
        for anchor in sorted({unquote(link[1:]) for link in inside} - html.ids):
            self._wrong(page, f"leads to #{anchor}, which it does not have")
        for link in html.links:
            self._note(address, page, link)
        for form in html.forms:
            self._note_form(page, form, posted=bool(answered))

    def _note(self, base: str, page: str, link: str) -> None:
        if link.startswith("#"):
            return
        if _LEAKS.search(link) or not link:
            self._wrong(page, f"leads to a malformed address: {link!r}")
            return
        target = urlsplit(urljoin(f"{self.browser.scheme}://{self.browser.host}{base}", link))
        # The links of the documentation are checked where it is built: test_site.py.
        if target.netloc != self.browser.host or target.path.startswith("/docs/"):
            return
        if not target.path.startswith(self.below):
            # One of each kind is looked at, to see that it is there.
            route = self.route(target.path)
            kind = target.path if route is None else route.path
            if kind in self._elsewhere:
                return
            self._elsewhere.add(kind)
        address = target.path + (f"?{target.query}" if target.query else "")
        if target.fragment:
            self._anchors.add((page, address, unquote(target.fragment)))
        self._waiting.append((address, page))

    def _note_form(self, page: str, form: Form, *, posted: bool) -> None:
        if _LEAKS.search(form.action):
            self._wrong(page, f"sends a form to a malformed address: {form.action!r}")
            return
        route = self.route(urlsplit(form.action).path)
        if route is None or form.method not in route.methods:
            self._wrong(page, f"sends a form to {form.method} {form.action}, which is nowhere")
        elif form.method == "GET":
            for typed in (None, self.typed):
                self._waiting.append((f"{form.action}?{form.body(typed)}", page))
        elif not posted:
            self._forms.setdefault(_key(route, form), page)

    async def _send_from(self, page: str, key: Key, how: str) -> None:
        """Open the page of the form anew, and send the form as it is now."""
        answer = await self._ask("GET", page)
        if "/oauth/sign-in" in answer.location and self.again is not None:
            await self.again()
            answer = await self._ask("GET", page)
        form = self._form_in(answer, key)
        if form is None and page in self._asked:
            # What an app asks for is answered once: it asks again.
            answer = await self._ask("GET", self._asked[page])
            while answer.status == 303 and answer.location.startswith("/"):
                answer = await self._ask("GET", answer.location)
            form = self._form_in(answer, key)
        # Where nothing is typed, nothing can be left out.
        if form is None or (how == "blank" and not form.typed):
            return
        await self._send(page, form, self._typed(how))
        for name, value, is_radio in form.boxes if how != "blank" else ():
            form = self._form_in(await self._ask("GET", page), key) if is_radio else None
            if form is not None:
                await self._send(page, form, {**self.typed, name: value})

    def _form_in(self, answer: Answer, key: Key) -> Form | None:
        return next((form for form in Html(answer.body).forms if self._key_of(form) == key), None)

    async def _send(self, page: str, form: Form, typed: Mapping[str, str] | None) -> None:
        how = "blank" if typed is None else "filled in"
        answer = await self._ask("POST", form.action, form.body(typed))
        if answer.status not in _ANSWERED:
            self._wrong(page, f"sends a form, {how}, to {form.action}: {answer.status}")
            return
        self._read(form.action, answer, f" (answered, {how})")
        for path in self.changing:
            self._seen.pop(path, None)
            self._waiting.append((path, form.action))
        # The page of an answer cannot be opened again: its forms are sent from it.
        for there in Html(answer.body).forms if answer.status == 200 else ():
            key = self._key_of(there)
            if key is not None and (*key, how) not in self._sent:
                self._sent.add((*key, how))
                await self._send(f"{form.action} (answered, {how})", there, typed)

    def _typed(self, how: str) -> Mapping[str, str] | None:
        return None if how == "blank" else self.typed

    def _key_of(self, form: Form) -> Key | None:
        route = self.route(urlsplit(form.action).path)
        return None if route is None else _key(route, form)


def _text(answer: Answer) -> str:
    main = re.sub(r"<[^>]*>", " ", answer.body.partition("<main")[2])
    return " ".join(main.split())[:200]


def _key(route: Route, form: Form) -> Key:
    """Forms of one template are sent once: same route, same fields, same button."""
    names = sorted({name for name, _ in form.fields})
    pressed = form.fields[-1] if form.fields and form.fields[-1][0] in {"do", "decision"} else ()
    return (route.path, *names, *pressed)


def _rank(key: Key) -> int:
    """A form that deletes what other pages are about comes after all others."""
    if "confirmation" in key:
        return len(_LAST) + 1
    return next((rank for rank, part in enumerate(_LAST, 1) if part in key[0]), 0)


def pages_of(routes: tuple[Route, ...]) -> Iterator[tuple[str, str]]:
    """Every path and method that people use with a browser."""
    for route in routes:
        if type(route.refuse).__name__ == "RefuseWithPage":
            yield from ((route.path, method) for method in route.methods if method != "HEAD")
