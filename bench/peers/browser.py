"""A browser for the load: it follows redirects and keeps cookies, over kept connections."""

from dataclasses import dataclass, field
from typing import NamedTuple

from bench.load import Line, Reply
from bench.workloads import CALLBACK, Place, location

_REDIRECTS = 10


class Visit(NamedTuple):
    """The last request, and its answer."""

    request: bytes
    reply: Reply


@dataclass
class Browser:
    """Somebody's browser at a server. `lines` are the connections that it has, to each place."""

    home: Place
    cookies: dict[str, str] = field(default_factory=dict[str, str])
    lines: dict[Place, Line] = field(default_factory=dict[Place, Line])

    async def open(self, path: str) -> Visit:
        """Follow redirects until there is a page or the redirect leads back to the app."""
        address = self.home
        for _ in range(_REDIRECTS):
            if address not in self.lines:
                self.lines[address] = Line(address.host, address.port)
            sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            request = address.request("GET", path, "", *([f"Cookie: {sent}"] if sent else []))
            reply = await self.lines[address].ask(request)
            if reply.status == 200:
                return Visit(request, reply)
            self._keep_cookies(reply)
            target = location(reply)
            if target.startswith(CALLBACK):
                return Visit(request, reply)
            address, path = (address, target) if target.startswith("/") else _split(target)
        raise AssertionError(f"more than {_REDIRECTS} redirects, the last to {path}")

    def _keep_cookies(self, reply: Reply) -> None:
        for line in reply.head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "set-cookie":
                cookie, _, content = value.partition(";")[0].partition("=")
                self.cookies[cookie] = content


def _split(url: str) -> tuple[Place, str]:
    return Place.of(url), "/" + url.split("/", 3)[3]
