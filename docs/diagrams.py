"""The diagrams of the documentation as SVG, for light and dark, each with a description."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

_WIDTH = 760
_STYLE = (
    ".ground{fill:#f5f7fa}.box{fill:#fff;stroke:#b9c3d0}.ours{fill:#e6eefe;stroke:#2456d6}"
    ".end{fill:#fdeceb;stroke:#c0362c}"
    ".line{stroke:#5b6675;fill:none;stroke-width:1.5}.life{stroke:#b9c3d0;stroke-dasharray:4 4}"
    ".head{fill:#5b6675}text{fill:#1b2430;font:14px system-ui,sans-serif}"
    ".name{font-weight:600}.small{font-size:12.5px;fill:#4c5766}"
    "@media(prefers-color-scheme:dark){.ground{fill:#151a22}.box{fill:#212936;stroke:#465264}"
    ".ours{fill:#182b52;stroke:#6f9bff}.end{fill:#40201f;stroke:#ff8f86}.line{stroke:#a9b4c3}"
    ".life{stroke:#465264}.head{fill:#a9b4c3}text{fill:#e8edf4}.small{fill:#b4becb}}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its left upper corner, its size, its name and smaller lines below."""

    x: int
    y: int
    width: int
    height: int
    name: str
    lines: tuple[str, ...] = ()
    kind: str = "box"

    def svg(self) -> Iterator[str]:
        """Yield the rectangle and its text in the middle."""
        yield (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}"'
            f' height="{self.height}" rx="8"/>'
        )
        top = self.y + (self.height - 18 * len(self.lines)) / 2 + 5
        middle = self.x + self.width / 2
        yield _text(middle, top, self.name, "name")
        for number, line in enumerate(self.lines, 1):
            yield _text(middle, top + 18 * number, line, "small")


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points with a head at its end, and a label at a place of its own."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    at: tuple[int, int] = (0, 0)
    anchor: str = "middle"

    def svg(self) -> Iterator[str]:
        """Yield the line and its label."""
        places = " ".join(f"{x},{y}" for x, y in self.points)
        yield f'<polyline class="line" points="{places}" marker-end="url(#head)"/>'
        if self.label:
            yield _text(*self.at, self.label, "small", self.anchor)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _drawn(
    title: str, description: str, height: int, parts: Sequence[Box | Arrow | str]
) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
        f' height="{height}" role="img" aria-labelledby="title told">'
    )
    yield f'<title id="title">{escape(title)}</title>\n<desc id="told">{escape(description)}</desc>'
    yield (
        f"<style>{_STYLE}</style>\n"
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker>\n'
        f'<rect class="ground" width="{_WIDTH}" height="{height}" rx="12"/>'
    )
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            yield from part.svg()
    yield "</svg>"


def _svg(
    title: str, description: str, height: int, parts: Sequence[Box | Arrow | str]
) -> Iterator[str]:
    yield "\n".join(_drawn(title, description, height, parts))


def _sequence(
    title: str, actors: Sequence[tuple[str, str]], messages: Sequence[tuple[int, int, str]]
) -> Iterator[str]:
    """Yield a sequence of messages (from, to, text) between actors (name, kind of box).

    A message of an actor to itself is a remark.
    """
    room = _WIDTH // len(actors)
    centres = [room * number + room // 2 for number in range(len(actors))]
    step, top = 46, 112
    bottom = top + step * len(messages) - 16
    parts: list[Box | Arrow | str] = [
        f'<line class="life" x1="{x}" y1="64" x2="{x}" y2="{bottom}"/>' for x in centres
    ]
    parts += [
        Box(x - 76, 20, 152, 44, name, kind=kind)
        for x, (name, kind) in zip(centres, actors, strict=True)
    ]
    for number, (start, to, text) in enumerate(messages):
        y = top + step * number
        if start == to:
            width = round(len(text) * 6.7) + 28
            left = min(max(centres[to] - width // 2, 12), _WIDTH - 12 - width)
            parts.append(_remark(left, y - 24, width, f"{number + 1}. {text}"))
            continue
        ends = ((centres[start], y), (centres[to], y))
        middle = (centres[start] + centres[to]) // 2
        half = round(len(text) * 3.4) + 16
        middle = min(max(middle, 12 + half), _WIDTH - 12 - half)
        parts.append(Arrow(ends, f"{number + 1}. {text}", (middle, y - 8)))
    description = " ".join(
        f"{number}. {actors[start][0]}{'' if start == to else f' to {actors[to][0]}'}: {text}."
        for number, (start, to, text) in enumerate(messages, 1)
    )
    return _svg(title, description, bottom + 24, parts)


def _remark(x: int, y: int, width: int, text: str) -> str:
    return (
        f'<rect class="ours" x="{x}" y="{y}" width="{width}" height="30" rx="15"/>\n'
        f"{_text(x + width / 2, y + 20, text, 'small')}"
    )


def _parts() -> Iterator[str]:
    parts: tuple[Box | Arrow | str, ...] = (
        Box(24, 24, 150, 60, "Your team", ("console, commands",)),
        Box(204, 24, 150, 60, "Users", ("in their browser",)),
        Box(476, 24, 150, 60, "Apps", ("of you and of others",)),
        Box(
            24,
            176,
            330,
            84,
            "Authorization server",
            ("sign-in, consent, tokens, revocation", "console, portal, account pages"),
            "ours",
        ),
        Box(
            424,
            176,
            148,
            84,
            "Resource server",
            ("stores users' data", "checks each token"),
            "ours",
        ),
        Box(592, 176, 144, 84, "Your own API", ("with the SDK, or", "behind your proxy")),
        Box(94, 324, 190, 48, "SQLite or PostgreSQL"),
        Box(424, 324, 148, 48, "Its own database"),
        Arrow(((99, 84), (99, 174)), "administer", (106, 134), "start"),
        Arrow(((279, 84), (279, 174)), "sign in, allow", (272, 134), "end"),
        Arrow(((500, 84), (342, 174)), "get tokens", (404, 122), "end"),
        Arrow(((540, 84), (510, 174)), "call", (512, 134), "end"),
        Arrow(((580, 84), (650, 174)), "call with a token", (632, 134), "start"),
        Arrow(((424, 218), (356, 218)), "is it valid?", (390, 288)),
        Arrow(((189, 260), (189, 322))),
        Arrow(((498, 260), (498, 322))),
        Arrow(((664, 260), (664, 300), (320, 300), (320, 262))),
    )
    description = (
        "Your team administers the authorization server. Users sign in there and allow apps. Apps"
        " get tokens there and call the resource server or your own API, which ask the"
        " authorization server whether a token is valid. Each server has its own database."
    )
    return _svg("The two servers and who uses them", description, 396, parts)


_APP, _AUTH, _BROWSER = ("App", "box"), ("Valetkey", "ours"), ("User's browser", "box")

_CODE_FLOW = (
    (0, 1, "open the app"),
    (1, 0, "redirect with PKCE, state"),
    (0, 2, "/oauth/authorize"),
    (2, 2, "sign in, allow"),
    (2, 0, "redirect with code, state, iss"),
    (0, 1, "code, state, iss"),
    (1, 2, "code, PKCE verifier"),
    (2, 1, "access and refresh token"),
    (1, 3, "request with the access token"),
    (3, 1, "the user's data"),
)
_REFRESH = (
    (0, 1, "refresh token 1"),
    (1, 0, "access token, refresh token 2"),
    (0, 1, "refresh token 2: it was received"),
    (1, 0, "access token, refresh token 3"),
    (2, 1, "refresh token 1, stolen"),
    (1, 1, "used twice: the grant and all its tokens end"),
    (1, 2, "invalid_grant"),
    (0, 1, "refresh token 3"),
    (1, 0, "invalid_grant: the user signs in again"),
)


def _revocation() -> Iterator[str]:
    parts: tuple[Box | Arrow | str, ...] = (
        Box(24, 24, 152, 52, "User", ("Revoke access",)),
        Box(24, 96, 152, 52, "Administrator", ("disable, secure",)),
        Box(24, 168, 152, 52, "App", ("/oauth/revoke",)),
        Box(24, 240, 152, 52, "Server", ("a token used twice",)),
        Box(
            256, 120, 180, 76, "One transaction", ("ends the grant", "and writes the event"), "ours"
        ),
        Box(500, 24, 236, 56, "Valetkey", ("refuses at once",), "ours"),
        Box(500, 96, 236, 56, "Resource server, SDK", ("refuse within 5 seconds",), "ours"),
        Box(500, 168, 236, 56, "API that follows the feed", ("refuses within 5 seconds",)),
        Box(500, 240, 236, 56, "API that only verifies JWTs", ("until the token expires",), "end"),
        *(Arrow(((176, y), (254, 158))) for y in (50, 122, 194, 266)),
        *(Arrow(((436, 158), (498, y))) for y in (52, 124, 196, 268)),
    )
    description = (
        "A user, an administrator, an app or the server itself ends a grant in one transaction."
        " Valetkey refuses its tokens at once; the resource server, the SDK and APIs that follow"
        " the feed within five seconds. An API that only verifies JWTs accepts an access token"
        " until it expires."
    )
    return _svg("Revocation reaches every server", description, 320, parts)


def _sign_in() -> Iterator[str]:
    parts: tuple[Box | Arrow | str, ...] = (
        Box(24, 24, 190, 56, "Request of an app", ("/oauth/authorize",)),
        Box(304, 24, 170, 56, "Sign in", ("password or passkey",), "ours"),
        Box(546, 24, 190, 56, "Sign in elsewhere", ("Google, GitHub, …",)),
        Box(284, 138, 190, 56, "Second factor", ("passkey or code",), "ours"),
        Box(546, 138, 190, 56, "Add a second factor", ("if one is required",), "ours"),
        Box(284, 252, 190, 56, "Consent", ("what the app may do",), "ours"),
        Box(24, 252, 190, 56, "Back to the app", ("with a code",)),
        Box(546, 252, 190, 56, "Back to the app", ("access_denied",), "end"),
        Arrow(((214, 52), (302, 52)), "no session", (258, 42)),
        Arrow(((474, 52), (544, 52))),
        Arrow(((641, 80), (641, 108), (420, 108), (420, 136)), "signed in", (530, 102)),
        Arrow(((379, 80), (379, 136)), "has a factor", (372, 112), "end"),
        Arrow(((474, 166), (544, 166)), "has none", (509, 156)),
        Arrow(((379, 194), (379, 250)), "signed in", (372, 226), "end"),
        Arrow(((641, 194), (641, 222), (420, 222), (420, 250)), "added", (530, 216)),
        Arrow(((284, 280), (216, 280)), "Allow", (250, 270)),
        Arrow(((474, 280), (544, 280)), "Deny", (509, 270)),
        Arrow(((119, 80), (119, 250)), "session, allowed before", (126, 170), "start"),
    )
    description = (
        "A request of an app without a session leads to the sign-in page: password, passkey, or a"
        " provider elsewhere. An account with a second factor is asked for it; an account that is"
        " required to have one adds it. Then the user allows the app, which gets a code, or denies"
        " it, and the app gets access_denied. With a session and an earlier consent the app gets"
        " its code at once."
    )
    return _svg("The states of a sign-in", description, 332, parts)


def _deployment() -> Iterator[str]:
    def machine(x: int, y: int, width: int, height: int, name: str) -> str:
        return (
            f'<rect class="life" fill="none" x="{x}" y="{y}" width="{width}" height="{height}"'
            f' rx="10"/>\n{_text(x + 10, y + 18, name, "small", "start")}'
        )

    both = "Valetkey"
    parts: tuple[Box | Arrow | str, ...] = (
        _text(116, 34, "One machine", "name"),
        machine(24, 50, 184, 250, "machine"),
        Box(40, 80, 152, 44, "Proxy with TLS"),
        Box(40, 160, 152, 50, both, ("both servers",), "ours"),
        Box(40, 244, 152, 44, "SQLite"),
        Arrow(((116, 124), (116, 158))),
        Arrow(((116, 210), (116, 242))),
        _text(312, 34, "Two machines", "name"),
        machine(232, 50, 160, 172, "machine 1"),
        machine(232, 232, 160, 68, "machine 2"),
        Box(246, 80, 132, 44, "Proxy with TLS"),
        Box(246, 160, 132, 50, both, ("both servers",), "ours"),
        Box(246, 254, 132, 38, "PostgreSQL"),
        Arrow(((312, 124), (312, 158))),
        Arrow(((350, 210), (350, 252))),
        _text(576, 34, "Three machines", "name"),
        Box(440, 80, 272, 44, "Load balancer"),
        machine(416, 138, 152, 84, "machine 1"),
        machine(584, 138, 152, 84, "machine 2"),
        machine(416, 232, 320, 68, "machine 3"),
        Box(430, 164, 124, 48, both, ("both servers",), "ours"),
        Box(598, 164, 124, 48, both, ("both servers",), "ours"),
        Box(500, 254, 152, 38, "PostgreSQL"),
        Arrow(((530, 124), (530, 162))),
        Arrow(((700, 124), (700, 162))),
        Arrow(((510, 212), (546, 252))),
        Arrow(((642, 212), (606, 252))),
        _text(576, 322, "same keyring and configuration on 1 and 2", "small"),
    )
    description = (
        "One machine: a proxy with TLS, both servers, SQLite. Two machines: PostgreSQL has its own."
        " Three machines: a load balancer in front of two machines with both servers, which share"
        " keyring, configuration and the PostgreSQL of the third machine."
    )
    return _svg("Deployment on one to three machines", description, 340, parts)


DIAGRAMS: Mapping[str, Callable[[], Iterator[str]]] = {
    "parts": _parts,
    "code-flow": partial(
        _sequence,
        "The authorization code flow",
        (_BROWSER, _APP, _AUTH, ("API", "box")),
        _CODE_FLOW,
    ),
    "refresh": partial(_sequence, "Refresh and reuse", (_APP, _AUTH, ("Thief", "end")), _REFRESH),
    "revocation": _revocation,
    "sign-in": _sign_in,
    "deployment": _deployment,
}
"""Each diagram by its name: `docs/diagrams/NAME.svg`."""
