"""A browser without JavaScript for apps of this process: cookies, forms and redirects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support import asgi
from valetkey.web.router import RoutedApp

PASSWORD = "correct horse battery staple"


@dataclass
class Answer:
    """A response with a page."""

    status: int
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str:
        """Return the only header of that name, "" for none."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, values
        return values[0] if values else ""

    @property
    def location(self) -> str:
        return self.header("location")

    @property
    def told(self) -> dict[str, str]:
        """Return the parameters in the query of the redirect."""
        return dict(parse_qsl(urlsplit(self.location).query, keep_blank_values=True))

    @property
    def told_in_fragment(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.location).fragment, keep_blank_values=True))

    def beside(self, way: str) -> str:
        """Return the address of the page before or after (`prev`, `next`) of a list."""
        link = self.body.partition(f'rel="{way}"')[0].rpartition('href="')[2]
        return unescape(link.partition('"')[0]) if f'rel="{way}"' in self.body else ""

    def form(self, button: str) -> tuple[str, dict[str, list[str]]]:
        """Return action and fields of the form whose button has that id, as the page shows it."""
        for action, content in re.findall(
            r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', self.body, re.DOTALL
        ):
            if f'id="{button}"' not in content:
                continue
            fields: dict[str, list[str]] = {}
            for tag in re.findall(r"<input[^>]*>", content):
                values = {k: unescape(v) for k, v in re.findall(r'([a-z]+)="([^"]*)"', tag)}
                if values.get("type") in {"checkbox", "radio"} and "checked" not in tag:
                    continue
                if "name" not in values:  # A field for scripts alone.
                    continue
                fields.setdefault(values["name"], []).append(values.get("value", ""))
            for name, text in re.findall(
                r'<textarea[^>]*?name="([^"]*)"[^>]*>(.*?)</textarea>', content, re.DOTALL
            ):
                fields[name] = [unescape(text)]
            for name, options in re.findall(
                r'<select[^>]*?name="([^"]*)"[^>]*>(.*?)</select>', content, re.DOTALL
            ):
                chosen = re.search(r'value="([^"]*)"\s+selected', options)
                first = re.search(r'value="([^"]*)"', options)
                fields[name] = [unescape(match[1]) for match in (chosen or first,) if match]
            return unescape(action), fields
        raise AssertionError(f"no form with {button}: {self.body}")


@dataclass
class Browser:
    """Keeps cookies, fills in forms, follows redirects only in `follow`."""

    app: RoutedApp
    cookies: dict[str, str] = field(default_factory=dict)
    address: str = "192.0.2.7"
    host: str = "auth.example"
    scheme: str = "https"
    #: The Accept-Language header of all requests; "" for none.
    language: str = ""

    async def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        cookies: bool = True,
    ) -> Answer:
        sent = {"host": self.host, **(headers or {})}
        if self.language:
            sent.setdefault("accept-language", self.language)
        if self.cookies and cookies:
            sent["cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if method == "POST":
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
            sent["content-length"] = str(len(body))
        status, got, content = await asgi.request(
            self.app, method, target, sent, body, scheme=self.scheme, address=self.address
        )
        if cookies:
            self._keep([value for key, value in got if key == "set-cookie"])
        return Answer(status, got, content.decode(errors="surrogateescape"))

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            pair, _, attributes = line.partition(";")
            name, _, value = pair.partition("=")
            if "Max-Age=0" in attributes:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value

    async def get(self, target: str, **parameters: str) -> Answer:
        query = urlencode(parameters)
        return await self.send("GET", f"{target}?{query}" if query else target)

    async def post(
        self,
        target: str,
        fields: Mapping[str, str | list[str]],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return await self.send("POST", target, urlencode(fields, doseq=True).encode(), headers)

    async def submit(
        self,
        page: Answer,
        button: str,
        **fields: str | list[str],
    ) -> Answer:
        """Press the button with that id, with these fields filled in."""
        action, shown = page.form(button)
        return await self.post(action, {**shown, **fields})

    async def sign_in(self, page: Answer, name: str = "alice", word: str = PASSWORD) -> Answer:
        """Fill in the sign-in page and follow redirects to the response."""
        return await self.follow(await self.submit(page, "sign-in", username=name, password=word))

    async def allow(self, page: Answer, **fields: str | list[str]) -> Answer:
        return await self.follow(await self.submit(page, "allow", decision="allow", **fields))

    async def deny(self, page: Answer) -> Answer:
        return await self.follow(await self.submit(page, "deny", decision="deny"))

    async def follow(self, answer: Answer) -> Answer:
        """Follow redirects within the server."""
        for _ in range(10):
            if answer.status != 303 or not answer.location.startswith("/"):
                return answer
            answer = await self.get(answer.location)
        raise AssertionError("redirected in circles")

    async def ask(self, **parameters: str) -> Answer:
        """Send an authorization request of web1, changed by `parameters`; "-" leaves one out."""
        return await self.follow(await self.get("/oauth/authorize", **usual(**parameters)))


def usual(**parameters: str) -> dict[str, str]:
    """Return the parameters of a valid request, changed; "-" leaves one out."""
    good = {
        "response_type": "code",
        "client_id": "web1",
        "redirect_uri": "https://app.example/cb",
        "scope": "read notes:read",
        "state": "xyz",
    }
    return {k: v for k, v in {**good, **parameters}.items() if v != "-"}
