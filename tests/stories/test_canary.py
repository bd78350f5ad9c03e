"""No secret is written anywhere: all that go in, rightly or wrongly, then a search (security 35).

QS-05 and LK-01 of the attacks: logs at debug level, both databases and a backup, metrics, traces,
the answers that are errors, what the operating system shows of the processes.
`test_canary_teeth.py` tests the search itself.
"""

import json
import sqlite3
import subprocess
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest
import requests

from tests.attacks.raw import Reply, request, say
from tests.cli.running import valetkey
from tests.stories.canary import BACKUP, REGISTER, Canaries, back_up, files, processes, tables
from tests.stories.processes.serving import CALLBACK, Serving, free_addresses, serving
from tests.support.otlp import otlp_receiver, without_random
from tests.support.wait import CEILING
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url
from valetkey.testing.browser import Page, UserAgent

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_KEPT_SECRET = ("register.toml", "valetkey.keyring", "resource-server.credential")
_PATHS = (
    "/oauth/token", "/token", "/oauth/introspect", "/oauth/revoke", "/oauth/authorize",
    "/oauth/sign-in", "/oauth/consent", "/oauth/sign-out", "/oauth/identity", "/oauth/revocations",
    "/oauth/jwks", "/.well-known/oauth-authorization-server", "/health/ready", "/errors/", "/",
    "/oauth/token/", "/OAUTH/TOKEN", "//oauth/token", "/oauth/%74oken", "/nothing",
)  # fmt: skip
_API_PATHS = ("/v2/notes", "/v2/notes/1", "/v2/account", "/v2/client", "/v1/notes", "/v2/none")


@dataclass
class Story:
    """Both servers, every secret that was told to or by them, and the answers that were errors."""

    canaries: Canaries = field(default_factory=Canaries)
    answers: dict[str, bytes] = field(default_factory=dict[str, bytes])
    key: SigningKey = field(default_factory=lambda: SigningKey.generate(Algorithm.ES256))
    servers: Serving = field(init=False)
    misplaced: dict[str, str] = field(default_factory=dict[str, str])
    asked: int = 0
    statuses: set[int] = field(default_factory=set[int])
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.password = self.fresh("password")
        self.secret = self.fresh("client secret")
        self.other = self.fresh("client secret")
        self.verifier = self.fresh("code verifier").rstrip("+/")

    def fresh(self, kind: str) -> str:
        """A secret that nobody has used, which must not be found either."""
        dice = to_base64url(SYSTEM.random(33)).replace("-", "0").replace("_", "1")
        return self.canaries.add(kind, f"canary{next(self._numbers)}{dice}+/")

    def heard(self, replies: list[Reply], *, at: str) -> list[Reply]:
        """Keep what was answered, if it is an error."""
        self.asked += 1
        for reply in replies:
            self.statuses.add(reply.status)
            if reply.status >= 400:
                content = json.dumps(dict(reply.headers)).encode() + reply.body
                self.answers[f"answer {len(self.answers)}, {reply.status} at {at}"] = content
        return replies

    def post(self, path: str, parameters: dict[str, str], **where: object) -> requests.Response:
        """A request of a client, in the body or in the query string."""
        url = f"{self.servers.auth}{path}"
        if where.get("in_query"):
            answer = requests.post(url, params=parameters, timeout=CEILING)
        else:
            answer = requests.post(url, data=parameters, timeout=CEILING)
        reply = Reply(answer.status_code, dict(answer.headers), answer.content)
        self.heard([reply], at=f"{path}, {'query' if where.get('in_query') else 'body'}")
        document = answer.json() if answer.content else {}
        for name in ("access_token", "refresh_token"):
            if name in document:
                self.canaries.add(name, document[name])
        return answer

    def assertion(self) -> str:
        """A fresh proof of `signer`."""
        now = SYSTEM.now()
        claims = {"iss": "signer", "sub": "signer", "aud": self.servers.auth, "exp": now + 60}
        claims |= {"jti": str(next(self._numbers)), "iat": now}
        return self.canaries.add("assertion", jwt.sign(claims, self.key, typ="JWT"))


def _challenge(verifier: str) -> str:
    return to_base64url(sha256(verifier.encode()).digest())


@contextmanager
def _story(
    here: Path, database: str, *, planted: str = "", collector: str = ""
) -> Generator[Story]:
    story = Story()
    auth, api = free_addresses()
    (here / "valetkey.toml").write_text(
        f'[authorization]\nurl = "http://{auth}"\nlisten = "{auth}"\ndatabase = "{database}"\n'
        f'workers = 2\n[resource]\nurl = "http://{api}"\nlisten = "{api}"\n'
        '[metrics]\nlisten = "127.0.0.1:0"\n[log]\nlevel = "debug"\n'
        f'[traces]\nendpoint = "{collector}"\nsampling = 1.0\n[limits]\n'
        "client_failures = 10000\nsign_in_failures = 1000\n"
        "sign_in_failures_per_address = 1000\n"
    )
    (here / "register.toml").write_text(
        REGISTER.format(
            password=story.password,
            secret=story.secret,
            other=story.other,
            planted=planted,
            callback=CALLBACK,
            keys=KeySet.of(story.key.public).document().decode(),
        )
    )
    done = valetkey("apply", "register.toml", "--config", "valetkey.toml", "--yes", here=here)
    assert done.code == 0, done.out + done.err
    story.answers["what apply told"] = (done.out + done.err).encode()
    with serving(here, database, start=subprocess.Popen) as story.servers:
        credential = next(here.rglob("resource-server.credential")).read_text().strip()
        story.canaries.add("resource server's credential", credential)
        yield story


def _right_ways(story: Story) -> None:
    """Every grant, with parameters in the body and in the query string, and its tokens in use."""
    proof = {"client_id": "printer", "client_secret": story.secret}
    for in_query in (False, True):
        code = _code(story, "printer")
        redeem = {**proof, "grant_type": "authorization_code", "redirect_uri": CALLBACK}
        response = story.post(
            "/oauth/token",
            {**redeem, "code": code, "code_verifier": story.verifier},
            in_query=in_query,
        )
        assert response.status_code == 200, response.text
        token, refresh = response.json()["access_token"], response.json()["refresh_token"]
        _use(story, token)
        refreshing = {**proof, "grant_type": "refresh_token", "refresh_token": refresh}
        assert story.post("/oauth/token", refreshing, in_query=in_query).status_code == 200
        for path in ("/oauth/introspect", "/oauth/revoke"):
            for issued_token in (token, refresh):
                response = story.post(path, {**proof, "token": issued_token}, in_query=in_query)
                assert response.status_code == 200
        replayed = {**redeem, "code": code, "code_verifier": story.verifier}
        assert story.post("/oauth/token", replayed, in_query=in_query).status_code == 400
        assert story.post("/oauth/token", refreshing, in_query=in_query).status_code == 400
        _use(story, token)
        password = {"grant_type": "password", "username": "ada", "password": story.password}
        # A user's password is refused in a URL, and still must not be written anywhere.
        answer = story.post("/oauth/token", {**proof, **password}, in_query=in_query)
        assert answer.ok is not in_query
        own = {**proof, "grant_type": "client_credentials"}
        for path in ("/oauth/token", "/token"):
            assert story.post(path, own, in_query=in_query).ok
        signed = {"client_assertion": story.assertion(), "client_assertion_type": _ASSERTION}
        signed["grant_type"] = "client_credentials"
        assert story.post("/token", signed, in_query=in_query).ok
        assert story.post("/token", signed, in_query=in_query).status_code == 401
        other = {"client_id": "archive", "client_secret": story.other}
        code = _code(story, "archive")
        redeem |= {**other, "code": code, "code_verifier": story.verifier}
        response = story.post("/oauth/token", redeem, in_query=in_query)
        assert response.status_code == 200
        _use(story, response.json()["access_token"])
    _use(story, story.canaries.add("implicit token", _authorize(story, "printer", "token")))


def _code(story: Story, client_id: str) -> str:
    return story.canaries.add("code", _authorize(story, client_id, "code"))


def _authorize(story: Story, client_id: str, response_type: str) -> str:
    parameters = {"response_type": response_type, "client_id": client_id, "redirect_uri": CALLBACK}
    parameters |= {"scope": "notes:read", "state": story.fresh("state")}
    if response_type == "code":
        parameters |= {
            "code_challenge": _challenge(story.verifier),
            "code_challenge_method": "S256",
        }
    person = UserAgent(story.servers.auth)
    page = person.open(f"{story.servers.auth}/oauth/authorize?{urlencode(parameters)}")
    _keep(story, person, page)
    page = person.sign_in(page, "ada", story.fresh("wrong password"))
    _keep(story, person, page)
    page = person.sign_in(page, "ada", story.password)
    _keep(story, person, page)
    page = page if page.location else person.allow(page)
    return page.redirect_parameters["code" if response_type == "code" else "access_token"]


def _keep(story: Story, person: UserAgent, page: Page) -> None:
    story.asked += 1
    for name, value in person.cookies.items():
        story.canaries.add(f"cookie {name}", value)
    if page.status >= 400:
        content = json.dumps(dict(page.headers.items())).encode() + page.body.encode()
        # A page that asks again gives the form back, with what belongs to it.
        story.answers[f"page {len(story.answers)}, {page.status}"] = content


def _use(story: Story, token: str) -> None:
    for path in (*_API_PATHS, f"/v2/notes?access_token={token}"):
        for method in ("GET", "POST", "DELETE"):
            headers = {"Authorization": f"Bearer {token}"}
            answer = requests.request(
                method, f"{story.servers.api}{path}", headers=headers, timeout=CEILING
            )
            reply = Reply(answer.status_code, dict(answer.headers), answer.content)
            story.heard([reply], at=f"the API's {path.partition('?')[0]}")


def _wrong_ways(story: Story) -> None:
    """Secrets where they do not belong, in every form, at every address."""
    for url, paths in ((story.servers.auth, _PATHS), (story.servers.api, _API_PATHS)):
        for path in paths:
            for name, sent in _misplaced(story, url, path):
                story.heard(say(url, sent, ends=name != "length"), at=name)


def _misplaced(story: Story, url: str, path: str) -> Iterator[tuple[str, bytes]]:
    def one(label: str) -> str:
        # One secret for each place, wherever it is tried: what is searched for stays few.
        if label not in story.misplaced:
            story.misplaced[label] = story.fresh(label)
        return quote(story.misplaced[label], safe="")

    def form(label: str) -> str:
        secret = one(label)
        return (
            f"grant_type=password&client_id=printer&client_secret={secret}&password={secret}"
            f"&username=ada&code={secret}&refresh_token={secret}&token={secret}"
            f"&access_token={secret}"
        )

    for method in ("POST", "GET", "HEAD", "PUT", "DELETE", "TRACE"):
        query = form(f"query of {method}")
        yield f"query of {method}", request(url, method, f"{path}?{query}")
    yield "broken query", request(url, "POST", f"{path}?{form('broken query')}&x=%zz&x=%ff")
    yield "long query", request(url, "POST", f"{path}?{form('long query')}{'a' * 9_000}")
    yield "two places", request(url, "POST", f"{path}?{form('two')}", body=form("two").encode())
    yield "body", request(url, "POST", path, body=form("body").encode())
    yield (
        "broken body",
        request(url, "POST", path, body=form("broken body").encode() + b"&%00=\xff"),
    )
    text = json.dumps({"client_secret": one("JSON"), "access_token": one("JSON"), "x": "y"})
    for kind in ("application/json", "text/plain", "multipart/form-data"):
        headers = [f"Content-Type: {kind}"]
        yield f"{kind} body", request(url, "POST", path, headers=headers, body=text.encode())
    for extra in ("/{}", ";client_secret={}", "%3Fclient_secret={}", "//{}/x", "/..;/{}"):
        label = f"path with {extra}"
        yield label, request(url, "POST", path + extra.format(one(label)))
    for line in (
        "Basic {}", "Bearer {}", "Bearer {0} {0}", "Digest {}", "{}",
    ):  # fmt: skip
        label = f"Authorization: {line}"
        headers = [f"Authorization: {line.format(one(label))}"]
        yield label, request(url, "POST", path, headers=headers, body=b"token=x")
    pair = b64encode(f"printer:{one('Basic')}".encode()).decode()
    headers = [f"Authorization: Basic {pair}"]
    yield "Basic", request(url, "POST", path, headers=headers, body=b"grant_type=x")
    for name in (
        "Cookie: valetkey-session={}; valetkey-browser={}", "Referer: https://app.example/cb?code={}",
        "X-Forwarded-For: {}", "X-Request-Id: {}", "Content-Type: {}",
        "Accept: {}", "If-Match: {}", "Content-Encoding: {}", "X-{}: a\0b", "Expect: {}",
    ):  # fmt: skip
        secret = one(name)
        yield (
            name,
            request(url, "POST", path, headers=[name.format(secret, secret)], body=b"token=x"),
        )
    yield "host", request(url, "POST", path, host=one("host"))
    yield "method", request(url, one("method"), path)
    yield "target", request(url, "GET", f"{path}#{one('target')}")
    yield "version", request(url, "GET", f"{path} HTTP/{one('version')}")
    yield "length", request(url, "POST", path, headers=[f"Content-Length: {one('length')}"])


def _faults(story: Story, change: Callable[[str], None]) -> None:
    """Failures in the middle of everything: a table or a column goes away, and comes back."""
    failed, proof = 0, {"client_id": "printer", "client_secret": story.secret}
    tables = ("users", "vouchers", "grants", "access_tokens", "revocations", "query_sightings")
    moves = [(f"{table} RENAME TO away", f"away RENAME TO {table}") for table in tables]
    for before, after in (*moves, ("users RENAME uid TO away", "users RENAME away TO uid")):
        code, token = _code(story, "printer"), story.fresh("token")
        redeem = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code": code}
        change(f"ALTER TABLE {before}")
        try:
            for parameters in (
                {**redeem, "code_verifier": story.verifier},
                {"grant_type": "password", "username": "ada", "password": story.password},
                {"grant_type": "refresh_token", "refresh_token": token},
                {"grant_type": "client_credentials"},
            ):
                for in_query in (False, True):
                    answer = story.post("/oauth/token", {**proof, **parameters}, in_query=in_query)
                    failed += answer.status_code >= 500
            for path in ("/oauth/introspect", "/oauth/revoke"):
                failed += story.post(path, {**proof, "token": token}).status_code >= 500
        finally:
            change(f"ALTER TABLE {after}")
    assert failed >= 10, "nothing failed"


def _left(here: Path, database: str) -> dict[str, bytes]:
    left = files(here, but=_KEPT_SECRET)
    places = {f"{name}, at the end": data for name, data in left.items()}
    if database.startswith("postgresql"):
        places |= tables(database)
        log = Path(database.partition("host=")[2]) / "data" / "log"
        places["the database server's log"] = log.read_bytes()
    return places


def _places_of(text: bytes, places: dict[str, bytes]) -> list[str]:
    return [name for name, data in places.items() if text in data]


def test_no_secret_is_written_anywhere(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def change(statement: str) -> None:
        if database_url.startswith("postgresql"):
            with psycopg.connect(database_url) as connection:
                connection.execute(statement.encode())
        else:
            with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as file:
                file.execute(statement)

    with (
        otlp_receiver() as traces,
        _story(tmp_path, database_url, planted="a planted canary", collector=traces.url) as story,
    ):
        _right_ways(story)
        _wrong_ways(story)
        _faults(story, change)
        _right_ways(story)
        back_up(tmp_path, database_url)
        places = files(tmp_path, but=_KEPT_SECRET) | processes(story.servers.process.pid)
        scraped = requests.get(story.servers.metrics, timeout=CEILING)
        places["metrics"] = scraped.content
        story.servers.process.terminate()
        story.servers.process.wait(60)
        assert story.servers.process.stdout is not None
        places["standard output"] = story.servers.process.stdout.read().encode()
        # A server that stops has written down everything it was about to.
        places |= _left(tmp_path, database_url) | story.answers
        places["traces"] = b"\n".join(traces.bodies)
    output = capfd.readouterr()
    places["standard error"] = output.err.encode()

    # It is not silence that hides nothing: the log tells requests and failures, the tables live.
    assert story.asked > 700
    assert {200, 400, 401, 404, 405, 414, 421, 500} <= story.statuses
    assert len(story.canaries) > 80
    assert output.err.count('"event":"request"') > 700
    assert '"event":"request.failed"' in output.err
    assert _places_of(b"a planted canary", places)
    assert _places_of(b"http.path", places), "refusals left no record"
    saved = {name: data for name, data in places.items() if f"/{BACKUP}/" in name}
    assert _places_of(b"a planted canary", saved), "the backup is not of this database"
    assert _places_of(b"http.path", saved)

    # Every refusal, route and sign-in of the story is counted, and nothing of what they held.
    for counted in (b"refusals_total", b"sign_ins_total", b"tokens_issued_total", b"/v2/notes"):
        assert counted in places["metrics"]
    assert b"ada" not in places["metrics"]
    assert b"printer" not in places["metrics"]

    # So are the spans of every request, transaction, password hash and outgoing call.
    assert len(traces.spans) > 2_000
    assert {span.name for span in traces.spans} >= {
        "POST /oauth/token", "transaction write", "statements", "offload passwords", "POST",
    }  # fmt: skip
    exported = b"\n".join(map(without_random, traces.bodies))
    for personal in (b"ada", b"printer", b"example", b"127.0.0.1:"):
        assert personal not in exported, exported[max(exported.find(personal) - 60, 0) :][:120]

    assert story.canaries.in_places(places) == {}
