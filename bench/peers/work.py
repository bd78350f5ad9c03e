"""The work that all servers are given alike; each answer is checked."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from bench.load import Line, Worker
from bench.peers.peer import Peer
from bench.workloads import CALLBACK, CHALLENGE, SECRET, VERIFIER, Repeat, location
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.secret import from_base64url

PUBLIC = "phone"
CALLERS = 32
WITHOUT_ID_TOKEN = "notes:read"
JWT = "client credentials, JWT"
REFERENCE = "client credentials, by reference"
INTROSPECTION = "introspection, by reference"
IN_TURN = "introspection, 3,200 in turn, a write in ten"
FLOW = "code + PKCE, with ID token"
BARE_FLOW = "code + PKCE, without ID token"
REFRESH = "refresh with rotation"
USERINFO = "userinfo"
USERINFO_IN_TURN = "userinfo, 3,200 in turn, a write in ten"
RESOURCE = "resource call, JWT verified before"
PAGE = "sign-in page"
CONSENT = "consent page"
ACCOUNT = "account page"
KEYS = "JWKS"
DISCOVERY = "discovery"
MIX = "80 introspections, 15 refreshes, 5 flows"
WORKLOADS = (
    JWT,
    REFERENCE,
    INTROSPECTION,
    IN_TURN,
    FLOW,
    BARE_FLOW,
    REFRESH,
    USERINFO,
    USERINFO_IN_TURN,
    RESOURCE,
    PAGE,
    CONSENT,
    ACCOUNT,
    KEYS,
    DISCOVERY,
    MIX,
)
"""In the order of the tables."""


@dataclass
class Flow(Worker):
    """Someone signed in, who allowed it before, opens the app: a code, then tokens."""

    peer: Peer
    connection: Line
    scope: str
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def step(self) -> None:
        """The authorization request, the redirect, the exchange."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.peer.cookies.items())
        path = authorize(self.peer, self.scope)
        reply = await self.connection.ask(self.peer.get(path, f"Cookie: {cookie}"))
        answer = parse_qs(urlsplit(location(reply)).query)
        form = {
            "grant_type": "authorization_code",
            "client_id": PUBLIC,
            "code": answer["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        assert reply.status == 200, reply.body
        self.tokens = json.loads(reply.body)
        assert ("openid" in self.scope.split()) == ("id_token" in self.tokens)


def authorize(peer: Peer, scope: str) -> str:
    """The authorization request of the app on the phone."""
    asked = {
        "response_type": "code",
        "client_id": PUBLIC,
        "redirect_uri": CALLBACK,
        "scope": scope,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    query = urlencode(asked | dict(peer.asked), quote_via=quote)
    return f"{peer.paths.authorize}?{query}"


@dataclass
class Rotation(Worker):
    """A public client uses its refresh token, gets the successor, and goes on."""

    peer: Peer
    connection: Line
    token: str

    async def step(self) -> None:
        """Rotate once."""
        form = {"grant_type": "refresh_token", "client_id": PUBLIC, "refresh_token": self.token}
        reply = await self.connection.ask(self.peer.post(self.peer.paths.token, form))
        assert reply.status == 200, reply.body
        successor = json.loads(reply.body)["refresh_token"]
        assert successor != self.token
        self.token = successor


def machine(peer: Peer, kind: str) -> Repeat:
    """A client that fetches tokens for itself: `kind` is "jwt" or "reference"."""
    secret = {"grant_type": "client_credentials", "client_secret": SECRET}
    request = peer.post(peer.paths.machine_token, secret | dict(peer.machine[kind]))
    expected = b'"access_token":"eyJ' if kind == "jwt" else b'"access_token":"'
    return Repeat(peer.line(), request, peer.said(expected))


def introspection(peer: Peer, token: str, connection: Line | None = None) -> Repeat:
    """An API that asks what a token is worth."""
    credentials = b64encode(f"{peer.introspects_as}:{SECRET}".encode()).decode()
    form = {"token": token}
    if peer.posts_secret:
        form |= {"client_id": peer.introspects_as, "client_secret": SECRET}
        request = peer.post(peer.paths.introspection, form)
    else:
        header = f"Authorization: Basic {credentials}"
        request = peer.post(peer.paths.introspection, form, header)
    return Repeat(connection or peer.line(), request, peer.said(b'"active":true'))


def userinfo(peer: Peer, token: str, connection: Line | None = None) -> Repeat:
    """An app that asks who it is."""
    request = peer.get(peer.paths.userinfo, f"Authorization: Bearer {token}")
    return Repeat(connection or peer.line(), request, b'"sub"')


def document(peer: Peer, path: str, expected: bytes) -> Repeat:
    """Somebody who reads what the server says about itself."""
    return Repeat(peer.line(), peer.get(path), expected)


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
        issuing, connection = machine(peer, peer.issues), peer.line()
        tokens: list[str] = []
        for _ in range(peer.tokens // CALLERS):
            reply = await issuing.connection.ask(issuing.request)
            tokens.append(json.loads(reply.body)["access_token"])
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
        asked = self.done - self.done // 10
        turn = self.asking[asked % len(self.asking)] if self.done % 10 else self.issuing
        await turn.step()


async def plan(peer: Peer, only: Sequence[str] = WORKLOADS) -> Mapping[str, Sequence[Worker]]:
    """What this server can be measured at of `only`, each with its callers."""

    def many(make: Callable[[], Worker]) -> Sequence[Worker]:
        return [make() for _ in range(CALLERS)]

    planned: dict[str, Sequence[Worker]] = {
        KEYS: many(lambda: document(peer, peer.paths.keys, b'"keys"'))
    }
    if "jwt" in peer.machine:
        planned[JWT] = many(lambda: machine(peer, "jwt"))
        once = machine(peer, "jwt")
        given = await once.connection.ask(once.request)
        await _check(peer, json.loads(given.body)["access_token"])
    if not peer.paths.introspection:
        # A ceiling: one of its two stands beside every workload, measured in the same minutes.
        beside = {each: planned[KEYS if each in (KEYS, DISCOVERY) else JWT] for each in WORKLOADS}
        return {each: beside[each] for each in peer.only or WORKLOADS}
    flows = [Flow(peer, peer.line(), peer.scope) for _ in range(CALLERS)]
    for flow in flows:
        await flow.step()
    # Of a flow that nobody goes on with: some servers end a token when its refresh token is used.
    apart = Flow(peer, peer.line(), peer.scope)
    await apart.step()
    token = apart.tokens["access_token"]
    await _check(peer, apart.tokens["id_token"])
    asks = machine(peer, peer.issues)
    issued = json.loads((await asks.connection.ask(asks.request)).body)["access_token"]
    refreshing = [Rotation(peer, flow.connection, flow.tokens["refresh_token"]) for flow in flows]
    for flow in flows:
        await flow.step()
    if "reference" in peer.machine:
        planned[REFERENCE] = many(lambda: machine(peer, "reference"))
    planned[INTROSPECTION] = many(lambda: introspection(peer, issued))
    planned[FLOW] = flows
    planned[BARE_FLOW] = many(lambda: Flow(peer, peer.line(), WITHOUT_ID_TOKEN))
    planned[REFRESH] = refreshing
    planned[USERINFO] = many(lambda: userinfo(peer, token))
    planned[DISCOVERY] = many(lambda: document(peer, peer.paths.discovery, b'"issuer"'))
    planned[MIX] = [
        Mixed(
            introspection(peer, issued),
            Rotation(peer, flow.connection, flow.tokens["refresh_token"]),
            Flow(peer, peer.line(), peer.scope),
        )
        for flow in flows
    ]
    for name, start in ((IN_TURN, InTurn.introspections), (USERINFO_IN_TURN, InTurn.userinfos)):
        # Issuing the tokens takes a while.
        planned |= {name: await _started(start, peer)} if name in only else {}
    if peer.api is not None:
        planned[RESOURCE] = many(lambda: resource_call(peer, token))
        planned |= {name: many(make) for name, make in (await _pages(peer)).items()}
    return planned


async def _started(start: Callable[[Peer], Awaitable[InTurn]], peer: Peer) -> Sequence[Worker]:
    return await asyncio.gather(*(start(peer) for _ in range(CALLERS)))


async def _pages(peer: Peer) -> Mapping[str, Callable[[], Worker]]:
    """The pages of Valetkey: sign-in without a session; consent and account with Ada's."""
    shown: dict[str, Callable[[], Worker]] = {}
    asked = authorize(peer, peer.scope)
    for name, path, cookies, expected in (
        (PAGE, asked, {}, b'type="password"'),
        (CONSENT, f"{asked}&prompt=consent", peer.cookies, b'id="allow"'),
        (ACCOUNT, "/account", peer.cookies, b"ada@example.com"),
    ):
        request = await _followed(peer, path, cookies)
        shown[name] = partial(_page, peer, request, expected)
    return shown


def _page(peer: Peer, request: bytes, expected: bytes) -> Worker:
    return Repeat(peer.line(), request, expected)


async def _followed(peer: Peer, path: str, cookies: Mapping[str, str]) -> bytes:
    """The request that is answered with a page, after redirects and with the cookies they set."""
    kept = dict(cookies)
    while True:
        sent = "; ".join(f"{name}={value}" for name, value in kept.items())
        request = peer.get(path, f"Cookie: {sent}")
        reply = await peer.line().ask(request)
        for line in reply.head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "set-cookie":
                cookie, _, content = value.partition(";")[0].partition("=")
                kept[cookie] = content
        if reply.status == 200:
            return request
        path = location(reply)


async def _check(peer: Peer, token: str) -> None:
    """A JWT of this server is signed by a key that it publishes."""
    published = await peer.line().ask(peer.get(peer.paths.keys))
    header, claims, signature = token.split(".")
    said = json.loads(from_base64url(header) or b"")
    key = KeySet.parse(published.body, ignore_unknown=True).find(said.get("kid"))
    assert key is not None, (peer.name, said)
    proof = from_base64url(signature) or b""
    assert key.verifies(Algorithm(said["alg"]), proof, f"{header}.{claims}".encode()), peer.name
