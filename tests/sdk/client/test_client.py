"""A client that always has a live token."""

import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.sdk.client.endpoint import Strict, strict
from tests.sdk.issuer import Clock
from tests.support.wait import CEILING
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.moment import Instant, hours, seconds
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret
from valetkey.sdk.client import Client, DeviceCodes, Rejected, SignInNeeded, Tokens
from valetkey.sdk.client.token_file import TokenFile
from valetkey.sdk.fetch import Unreachable
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

# Asks for a live token until it was given three different ones, with four threads.
WORKER = """
import sys, time
from pathlib import Path
from threading import Thread
from valetkey.sdk import Issuer
from valetkey.sdk.client import Client

url, file = sys.argv[1:]
client = Client(Issuer(url, "", token=f"{url}/token"), "tool", file=Path(file))
seen, wrong = set(), []

def ask():
    while len(seen) < 3:
        try:
            seen.add(client.access_token().reveal())
        except Exception as error:
            wrong.append(error)
            return
        time.sleep(0.01)

threads = [Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(repr(wrong) if wrong else 0)
"""


def _tokens(refresh: str | None, *, at: int = 0) -> Tokens:
    secret = None if refresh is None else Secret(refresh)
    return Tokens(Secret("old"), "read", Instant(at), Instant(at), secret)


def _client(
    endpoint: Strict, clock: Clock, file: Path | None = None, secret: Secret | None = None
) -> Client:
    runtime = Runtime(clock.now, SYSTEM.random)
    return Client(endpoint.issuer, "tool", scope="read", file=file, secret=secret, runtime=runtime)


def test_user_signs_in_at_a_real_server_and_the_token_is_renewed(tmp_path: Path) -> None:
    with Servers(tmp_path / "servers") as servers:
        servers.register_user("ada", "correct horse battery staple", uid=1001)
        metadata = ClientMetadata(
            name="Tool",
            redirect_uris=("http://127.0.0.1/callback",),
            scopes=("notes:read",),
            type="public",
            application_type="native",
        )
        servers.register_client(metadata, "tool", None)
        file = tmp_path / "tokens" / "tool.json"
        client = Client(
            servers.auth_url,
            "tool",
            scope="notes:read",
            file=file,
            runtime=Runtime(servers.clock.now, SYSTEM.random),
        )
        walks: list[Thread] = []

        def walk(url: str) -> None:
            person = UserAgent(servers.auth_url)
            page = person.sign_in(person.open(url), "ada", "correct horse battery staple")
            page = person.allow(page)
            assert UserAgent(page.location).open(page.location).status == 200

        def show(url: str) -> None:
            walks.append(Thread(target=walk, args=(url,)))
            walks[0].start()

        with pytest.raises(SignInNeeded):
            client.access_token()
        tokens = client.sign_in(show=show, wait=30)
        walks[0].join()
        assert tokens.scope == "notes:read"
        first = client.access_token().reveal()
        assert first == tokens.access_token.reveal()
        servers.clock.forward(hours(2))
        again = Client(
            servers.auth_url,
            "tool",
            file=file,
            runtime=Runtime(servers.clock.now, SYSTEM.random),
        )
        assert again.access_token().reveal() != first
        assert client.access_token().reveal() == again.access_token().reveal()


def test_client_with_a_secret_uses_the_client_credentials_grant() -> None:
    clock = Clock()
    with strict() as endpoint:
        client = _client(endpoint, clock, secret=Secret("s:1"))
        assert client.headers() == {"Authorization": "Bearer access-1"}
        clock.at += 3600 - 31
        assert client.access_token().reveal() == "access-1"
        clock.at += 1
        assert client.access_token().reveal() == "access-2"
    assert endpoint.forms[0] == {"grant_type": "client_credentials", "scope": "read"}
    pair = base64.b64decode(endpoint.authorizations[0].removeprefix("Basic ")).decode()
    assert pair == "tool:s%3A1"


def test_concurrent_threads_renew_the_token_once(tmp_path: Path) -> None:
    with strict() as endpoint:
        file = tmp_path / "tokens.json"
        TokenFile(file, endpoint.url, "tool").write(_tokens(endpoint.seed()))
        client = _client(endpoint, Clock(), file)
        got: list[str] = []
        threads = [
            Thread(target=lambda: got.append(client.access_token().reveal())) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == ["access-1"] * 12
        assert endpoint.renewals == 1


def test_many_processes_never_use_a_refresh_token_twice(tmp_path: Path) -> None:
    with strict(life=1) as endpoint:
        file = tmp_path / "tokens.json"
        TokenFile(file, endpoint.url, "tool").write(_tokens(endpoint.seed()))
        command = [sys.executable, "-c", WORKER, endpoint.url, str(file)]
        workers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
        errors = [worker.communicate(timeout=CEILING)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * 4, errors
        assert endpoint.renewals >= 2
        assert endpoint.reuses == 0
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_rejected_refresh_token_raises_sign_in_needed_and_is_not_retried(tmp_path: Path) -> None:
    with strict() as endpoint:
        file = tmp_path / "tokens.json"
        TokenFile(file, endpoint.url, "tool").write(_tokens("unknown"))
        client = _client(endpoint, Clock(), file)
        for _ in range(2):
            with pytest.raises(SignInNeeded):
                client.access_token()
        assert endpoint.reuses == 1
        assert not file.exists()


def test_live_token_is_used_while_the_issuer_is_unreachable() -> None:
    clock = Clock()
    with strict() as endpoint:
        client = _client(endpoint, clock, secret=Secret("s"))
        client.access_token()
        endpoint.say = 503, b""
        clock.at += 3590
        assert client.access_token().reveal() == "access-1"
        clock.at += 10
        with pytest.raises(Unreachable):
            client.access_token()
        endpoint.say = 400, b'{"error":"invalid_scope","error_description":"no"}'
        with pytest.raises(Rejected, match="invalid_scope: no") as rejected:
            client.access_token()
        assert rejected.value.code == "invalid_scope"


def test_forget_removes_tokens_from_memory_and_file(tmp_path: Path) -> None:
    with strict() as endpoint:
        file = tmp_path / "tokens.json"
        TokenFile(file, endpoint.url, "tool").write(_tokens(endpoint.seed()))
        client = _client(endpoint, Clock(), file)
        client.access_token()
        client.forget()
        assert not file.exists()
        with pytest.raises(SignInNeeded):
            client.access_token()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"access_token":"a"}',
        b'{"access_token":"a","token_type":"mac"}',
        b'{"access_token":"","token_type":"Bearer"}',
        b'{"access_token":"a","token_type":"Bearer","expires_in":"1"}',
    ],
)
def test_malformed_token_response_is_refused(body: bytes) -> None:
    with strict() as endpoint:
        endpoint.say = 200, body
        with pytest.raises(Rejected) as rejected:
            _client(endpoint, Clock(), secret=Secret("s")).access_token()
        assert rejected.value.code == "invalid_response"


@pytest.mark.parametrize("show", [repr, str])
def test_repr_and_str_of_tokens_hide_the_secrets(show: Callable[[object], str]) -> None:
    tokens = Tokens(Secret("hidden"), "read", Instant(1), Instant(1), Secret("hidden"))
    assert "hidden" not in show(tokens)


def test_user_signs_in_on_another_device_and_a_service_exchanges_the_token(tmp_path: Path) -> None:
    kinds = {"device": "urn:ietf:params:oauth:grant-type:device_code"}
    kinds["exchange"] = "urn:ietf:params:oauth:grant-type:token-exchange"
    with Servers(tmp_path, with_resource=False) as servers:
        servers.register_user("ada", "correct horse battery staple", uid=1001)
        tv = ClientMetadata(
            "TV",
            type="public",
            grant_types=(kinds["device"], "refresh_token"),
            scopes=("notes:read", "notes:write"),
        )
        servers.register_client(tv, "tv")
        service = ClientMetadata(
            "Service",
            grant_types=(kinds["exchange"],),
            scopes=("notes:read", "notes:write"),
            exchanges_tokens_of=("tv",),
        )
        servers.register_client(service, "service", "s" * 40)
        runtime = Runtime(servers.clock.now, SYSTEM.random)
        client = Client(servers.auth_url, "tv", scope="notes:read notes:write", runtime=runtime)
        person, shown, slept = UserAgent(servers.auth_url), list[DeviceCodes](), list[float]()

        def sleep(time: float) -> None:
            slept.append(time)
            servers.clock.forward(seconds(int(time)))
            if len(slept) == 2:
                page = person.open(shown[0].verification_uri_complete)
                page = person.sign_in(page, "ada", "correct horse battery staple")
                if any(button.id == "continue" for button in page.buttons):
                    page = person.submit(page, "continue")
                person.allow(page, only=("yes", "notes:read", "notes:write"))

        tokens = client.sign_in_on_device(shown.append, sleep=sleep)
        assert (len(slept), tokens.scope) == (2, "notes:read notes:write")
        assert client.access_token().reveal() == tokens.access_token.reveal()
        assert shown[0].device_code not in repr(shown[0])
        other = Client(servers.auth_url, "service", secret=Secret("s" * 40), runtime=runtime)
        less = other.exchange(tokens.access_token, scope="notes:read")
        assert (less.scope, less.refresh_token) == ("notes:read", None)
        with pytest.raises(Rejected, match="invalid_scope"):
            other.exchange(less.access_token, scope="notes:write")
        with pytest.raises(Rejected, match="unauthorized_client"):
            client.exchange(tokens.access_token)
