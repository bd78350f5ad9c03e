"""The work that all servers are given alike; each answer is checked."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from bench.load import Finished, Line, Worker
from bench.peers.browser import Browser
from bench.peers.peer import Peer
from bench.workloads import CALLBACK, CHALLENGE, SECRET, VERIFIER, Repeat, location
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.secret import from_base64url

CALLERS = 32
WITHOUT_ID_TOKEN = "notes:read"
JWT = "client credentials, JWT"
REFERENCE = "client credentials, by reference"
INTROSPECTION = "introspection, by reference"
IN_TURN = "introspection, 3,200 in turn, a write in ten"
INTROSPECTION_ONCE = "introspection, each token once"
FLOW = "code + PKCE, with ID token"
RS256_FLOW = "code + PKCE, with ID token by RS256"
BARE_FLOW = "code + PKCE, without ID token"
REFRESH = "refresh with rotation"
USERINFO = "userinfo"
USERINFO_IN_TURN = "userinfo, 3,200 in turn, a write in ten"
USERINFO_ONCE = "userinfo, each token once"
RESOURCE = "resource call, JWT verified before"
PAGE = "sign-in page"
CONSENT = "consent page"
ACCOUNT = "account page"
FULL_ACCOUNT = "account page, thousands of grants"
KEYS = "JWKS"
DISCOVERY = "discovery"
MIX = "80 introspections, 15 refreshes, 5 flows"
WORKLOADS = (
    JWT,
    REFERENCE,
    INTROSPECTION,
    IN_TURN,
    INTROSPECTION_ONCE,
    FLOW,
    RS256_FLOW,
    BARE_FLOW,
    REFRESH,
    USERINFO,
    USERINFO_IN_TURN,
    USERINFO_ONCE,
    RESOURCE,
    PAGE,
    CONSENT,
    ACCOUNT,
    FULL_ACCOUNT,
    KEYS,
    DISCOVERY,
    MIX,
)
"""In the order of the tables."""

ONCE = (INTROSPECTION_ONCE, USERINFO_ONCE)
"""Answers that no server has in a cache: each token is asked about for the first time."""

MANY_TOKENS = (IN_TURN, USERINFO_IN_TURN, *ONCE)
"""Prepared by thousands of requests."""

_PAGES = (PAGE, CONSENT, ACCOUNT, FULL_ACCOUNT)
_OF_USERS = (FLOW, RS256_FLOW, REFRESH, MIX)
_WITH_TOKENS = (INTROSPECTION, USERINFO, RESOURCE)


@dataclass
class Flow(Worker):
    """Someone signed in, who allowed it before, opens the app: a code, then tokens."""

    peer: Peer
    connection: Line
    scope: str
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Connect elsewhere only where the server redirects to."""
        self._lines = {self.peer.place: self.connection}

    async def step(self) -> None:
        """The authorization request, the redirects, the exchange."""
        browser = Browser(self.peer.place, dict(self.peer.cookies), self._lines)
        _, reply = await browser.open(authorize(self.peer, self.scope))
        target = "" if reply.status == 200 else location(reply)
        answer = parse_qs(urlsplit(target).query)
        assert "code" in answer, f"status {reply.status}, redirect to {target[:200]!r}"
        form = {
            "grant_type": "authorization_code",
            "client_id": self.peer.public,
            "code": answer["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        self.tokens = json.loads(reply.check().body)
        wrong = f"ID token or none, unlike {self.scope!r}"
        assert ("openid" in self.scope.split()) == ("id_token" in self.tokens), wrong


def authorize(peer: Peer, scope: str) -> str:
    """The authorization request of the app on the phone."""
    parameters = {
        "response_type": "code",
        "client_id": peer.public,
        "redirect_uri": CALLBACK,
        "scope": f"{scope} {peer.refresh_scope}".strip(),
        "state": "of-the-bench",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    query = urlencode(parameters | dict(peer.asked), quote_via=quote)
    return f"{peer.paths.authorize}?{query}"


@dataclass
class Rotation(Worker):
    """A public client uses its refresh token, gets the successor, and goes on."""

    peer: Peer
    connection: Line
    token: str

    async def step(self) -> None:
        """Rotate once."""
        form = {
            "grant_type": "refresh_token",
            "client_id": self.peer.public,
            "refresh_token": self.token,
        }
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        successor = json.loads(reply.check().body)["refresh_token"]
        assert successor != self.token, "the refresh token did not rotate"
        self.token = successor


def machine(peer: Peer, kind: str, connection: Line | None = None) -> Repeat:
    """A client that fetches tokens for itself: `kind` is "jwt" or "reference"."""
    secret = {"grant_type": "client_credentials", "client_secret": SECRET}
    request = peer.post(peer.paths.machine_token, secret | dict(peer.machine[kind]))
    expected = b'"access_token":"eyJ' if kind == "jwt" else b'"access_token":"'
    return Repeat(connection or peer.line(), request, peer.said(expected))


def introspection(peer: Peer, token: str, connection: Line | None = None) -> Repeat:
    """An API that asks what a token is worth."""
    credentials = b64encode(f"{peer.introspects_as}:{SECRET}".encode()).decode()
    form, headers = {"token": token}, [f"Authorization: Basic {credentials}"]
    if peer.posts_secret:
        form |= {"client_id": peer.introspects_as, "client_secret": SECRET}
        headers.clear()
    address = peer.admin or peer.place
    request = address.request("POST", peer.paths.introspection, urlencode(form), *headers)
    return Repeat(connection or peer.line(peer.admin), request, peer.said(b'"active":true'))


def userinfo(peer: Peer, token: str, connection: Line | None = None) -> Repeat:
    """An app that asks who it is."""
    request = peer.get(peer.paths.userinfo, f"Authorization: Bearer {token}")
    return Repeat(connection or peer.line(), request, b'"sub"')


def document(peer: Peer, path: str, expected: bytes, connection: Line) -> Repeat:
    """Somebody who reads what the server says about itself."""
    return Repeat(connection, peer.get(path), expected)


def resource_call(peer: Peer, token: str) -> Repeat:
    """An app that reads its user's notes at the resource server."""
    assert peer.api is not None
    request = peer.api.request("GET", "/v2/notes", "", f"Authorization: Bearer {token}")
    return Repeat(Line(peer.api.host, peer.api.port), request, b'"items":[')


@dataclass
class Mixed(Worker):
    """The day of a server: out of a hundred, 80 tokens asked about, 15 renewed, 5 apps opened."""

    asking: Worker
    renewing: Worker
    opening: Worker
    done: int = 0

    async def step(self) -> None:
        """The next of the hundred, spread evenly."""
        turn = self.done % 20
        self.done += 1
        if turn == 0:
            await self.opening.step()
        elif turn in (5, 10, 15):
            await self.renewing.step()
        else:
            await self.asking.step()


@dataclass
class InTurn(Worker):
    """An API that is called with many tokens, while one is issued for every ten requests."""

    asking: Sequence[Worker]
    issuing: Worker
    done: int = 0

    @staticmethod
    async def introspections(peer: Peer) -> "InTurn":
        """Return one caller with its share of the tokens of machines."""
        issuing, connection = machine(peer, peer.issues), peer.line(peer.admin)
        tokens: list[str] = []
        for _ in range(peer.tokens // CALLERS):
            reply = await issuing.connection.ask(issuing.request)
            tokens.append(json.loads(reply.check().body)["access_token"])
        return InTurn([introspection(peer, token, connection) for token in tokens], issuing)

    @staticmethod
    async def userinfos(peer: Peer) -> "InTurn":
        """Return one caller with its share of the tokens of users, each of a flow of its own."""
        issuing, flow = machine(peer, peer.issues), Flow(peer, peer.line(), peer.scope)
        tokens: list[str] = []
        for _ in range(peer.tokens // CALLERS):
            await flow.step()
            tokens.append(flow.tokens["access_token"])
        return InTurn([userinfo(peer, token, flow.connection) for token in tokens], issuing)

    async def step(self) -> None:
        """The next token, or a new one."""
        self.done += 1
        count = self.done - self.done // 10
        turn = self.asking[count % len(self.asking)] if self.done % 10 else self.issuing
        await turn.step()


@dataclass
class Once(Worker):
    """An API that is called with tokens that it never saw, until it has no more of them."""

    asking: Iterator[Worker]

    async def step(self) -> None:
        """Ask about the next token."""
        if (turn := next(self.asking, None)) is None:
            # What remains of the visit costs no time of a processor.
            raise Finished
        await turn.step()


async def plan(
    peer: Peer, only: Sequence[str] = WORKLOADS, at: Sequence[Line] = ()
) -> Mapping[str, Sequence[Worker]]:
    """What this server can be measured at of `only`, each with its callers.

    A caller has the same connection in all workloads, that of `at` or a new one: servers limit
    connections of an address.
    """
    lines, workloads = at or [peer.line() for _ in range(CALLERS)], frozenset(only)

    def many(make: Callable[[Line], Worker]) -> Sequence[Worker]:
        return [make(line) for line in lines]

    planned: dict[str, Sequence[Worker]] = {
        KEYS: many(lambda line: document(peer, peer.paths.keys, b'"keys"', line))
    }
    if "jwt" in peer.machine:
        planned[JWT] = many(lambda line: machine(peer, "jwt", line))
        once = machine(peer, "jwt", lines[0])
        reply = await once.connection.ask(once.request)
        await _check(peer, json.loads(reply.check().body)["access_token"], lines[0])
    if not peer.paths.introspection:
        # A ceiling: one of its two stands beside every workload, measured in the same minutes.
        beside = {
            workload: planned[KEYS if workload in (KEYS, DISCOVERY) else JWT]
            for workload in WORKLOADS
        }
        return {
            workload: beside[workload]
            for workload in peer.only or WORKLOADS
            if workload in workloads
        }
    if "reference" in peer.machine:
        planned[REFERENCE] = many(lambda line: machine(peer, "reference", line))
    planned[BARE_FLOW] = many(lambda line: Flow(peer, line, WITHOUT_ID_TOKEN))
    planned[DISCOVERY] = many(lambda line: document(peer, peer.paths.discovery, b'"issuer"', line))
    for needs, more in ((_OF_USERS, _of_users), (_WITH_TOKENS, _with_tokens)):
        if workloads.intersection(needs):
            planned |= await more(peer, lines)
    planned |= await _with_many_tokens(peer, workloads)
    if peer.api is not None and workloads.intersection(_PAGES):
        planned |= {name: many(make) for name, make in (await _pages(peer)).items()}
    return {name: workers for name, workers in planned.items() if name in workloads}


async def _with_many_tokens(
    peer: Peer, workloads: Collection[str]
) -> Mapping[str, Sequence[Worker]]:
    """The workloads of many tokens; issuing them takes a while."""
    planned: dict[str, Sequence[Worker]] = {}
    for name, once, start in (
        (IN_TURN, INTROSPECTION_ONCE, InTurn.introspections),
        (USERINFO_IN_TURN, USERINFO_ONCE, InTurn.userinfos),
    ):
        if name in workloads:
            planned[name] = await _started(start, peer)
        if once in workloads:
            planned[once] = [Once(iter(worker.asking)) for worker in await _started(start, peer)]
    return planned


async def _of_users(peer: Peer, lines: Sequence[Line]) -> Mapping[str, Sequence[Worker]]:
    """The workloads of apps that users allowed."""
    flows = [Flow(peer, line, peer.scope) for line in lines]
    for flow in flows:
        await flow.step()
    refreshing = [Rotation(peer, flow.connection, flow.tokens["refresh_token"]) for flow in flows]
    for flow in flows:
        await flow.step()
    await _check(peer, flows[0].tokens["id_token"], lines[0], peer.signs)
    planned: dict[str, Sequence[Worker]] = {REFRESH: refreshing}
    planned[RS256_FLOW if peer.signs == "RS256" else FLOW] = flows
    if (other := peer.by_rs256) is not None:
        ways = lines if other.place == peer.place else [other.line() for _ in lines]
        planned[RS256_FLOW] = by_rs256 = [Flow(other, line, other.scope) for line in ways]
        await by_rs256[0].step()
        await _check(other, by_rs256[0].tokens["id_token"], ways[0], other.signs)
    issued = await _issued(peer)
    planned[MIX] = [
        Mixed(
            introspection(peer, issued, way),
            Rotation(peer, flow.connection, flow.tokens["refresh_token"]),
            Flow(peer, flow.connection, peer.scope),
        )
        for flow, way in zip(flows, _asking(peer, lines), strict=True)
    ]
    return planned


async def _with_tokens(peer: Peer, lines: Sequence[Line]) -> Mapping[str, Sequence[Worker]]:
    """The workloads that use one token all the time."""
    # Of a flow that nobody goes on with: some servers end a token when its refresh token is used.
    apart = Flow(peer, peer.line(), peer.scope)
    await apart.step()
    token, issued = apart.tokens["access_token"], await _issued(peer)
    planned: dict[str, Sequence[Worker]] = {
        INTROSPECTION: [introspection(peer, issued, line) for line in _asking(peer, lines)],
        USERINFO: [userinfo(peer, token, line) for line in lines],
    }
    if peer.api is not None:
        planned[RESOURCE] = [resource_call(peer, token) for _ in lines]
    return planned


async def _issued(peer: Peer) -> str:
    asks = machine(peer, peer.issues)
    reply = await asks.connection.ask(asks.request)
    return str(json.loads(reply.check().body)["access_token"])


def _asking(peer: Peer, lines: Sequence[Line]) -> Sequence[Line]:
    return lines if peer.admin is None else [peer.line(peer.admin) for _ in lines]


async def _started(start: Callable[[Peer], Awaitable[InTurn]], peer: Peer) -> Sequence[InTurn]:
    return await asyncio.gather(*(start(peer) for _ in range(CALLERS)))


async def _pages(peer: Peer) -> Mapping[str, Callable[[Line], Worker]]:
    """The pages of Valetkey: sign-in without a session; consent with Ada's; an ordinary account.

    Each of Ada's flows is a grant, so her account has thousands of them.
    """
    shown: dict[str, Callable[[Line], Worker]] = {}
    authorize_path = authorize(peer, peer.scope)
    for name, path, cookies, expected in (
        (PAGE, authorize_path, {}, b'type="password"'),
        (CONSENT, f"{authorize_path}&prompt=consent", peer.cookies, b'id="allow"'),
        (ACCOUNT, "/account", peer.ordinary, b"grace@example.com"),
        (FULL_ACCOUNT, "/account", peer.cookies, b"ada@example.com"),
    ):
        if name != ACCOUNT or cookies:
            request, _ = await Browser(peer.place, dict(cookies)).open(path)
            shown[name] = partial(Repeat, request=request, expected=expected)
    return shown


async def _check(peer: Peer, token: str, line: Line, algorithm: str = "") -> None:
    """A JWT of this server is signed by a key that it publishes, by `algorithm` if that is told."""
    published = await line.ask(peer.get(peer.paths.keys))
    header, claims, signature = token.split(".")
    members = json.loads(from_base64url(header) or b"")
    assert members["alg"] == (algorithm or members["alg"]), (peer.name, members)
    keys = KeySet.parse(published.body, ignore_unknown=True)
    named = (candidate for candidate in keys if candidate.algorithm == members["alg"])
    key = keys.find(members["kid"]) if "kid" in members else next(named, None)
    assert key is not None, (peer.name, members)
    proof = from_base64url(signature) or b""
    assert key.verifies(Algorithm(members["alg"]), proof, f"{header}.{claims}".encode()), peer.name
