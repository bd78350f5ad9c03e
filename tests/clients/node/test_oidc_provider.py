"""The SDK with an issuer that nobody here wrote: oidc-provider, by value and by reference."""

import asyncio
import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from tests.support.wait import CEILING
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret
from valetkey.sdk import Caller, Credential, Issuer, Protection, find_issuer
from valetkey.sdk.client import Client

FOLDER = Path(__file__).parent
API = "https://api.example/?alg=RS256"
OTHER = "https://other.example/?alg=RS256"
OPAQUE = "https://opaque.example"
CREDENTIAL = Credential("api", Secret("api-secret"))


@pytest.fixture(scope="module")
def issuer(node: str) -> Iterator[Issuer]:
    """The issuer, as its own metadata describe it."""
    command: list[str | Path] = [node, FOLDER / "oidc_provider.mjs"]
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["issuer"]
        yield find_issuer(url)
        process.communicate(timeout=CEILING)


def _robot(issuer: Issuer, resource: str, scope: str = "notes:read") -> Client:
    return Client(issuer, "robot", secret=Secret("robot-secret"), scope=scope, resource=resource)


def _admit(issuer: Issuer, token: Secret, audience: str, *needs: str) -> Caller:
    async def story() -> Caller:
        async with Protection(issuer, audience=audience, credential=CREDENTIAL) as protection:
            fields = [f"Bearer {token.reveal()}"]
            return await protection.admit(fields, SYSTEM.now(), *needs)

    return asyncio.run(story())


def _code(issuer: Issuer, token: Secret, audience: str, *needs: str) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        _admit(issuer, token, audience, *needs)
    return refused.value.refusal.code


@contextmanager
def _browser() -> Generator[Callable[[str], None]]:
    """A browser that follows wherever it is led, cookies and all."""
    threads: list[Thread] = []

    def follow(url: str) -> None:
        with build_opener(HTTPCookieProcessor(CookieJar())).open(url, timeout=CEILING) as page:
            assert page.status == 200

    def show(url: str) -> None:
        threads.append(Thread(target=follow, args=(url,)))
        threads[-1].start()

    yield show
    for thread in threads:
        thread.join()


def test_endpoints_come_from_the_issuers_metadata(issuer: Issuer) -> None:
    assert issuer.keys == f"{issuer.url}/jwks"
    assert issuer.introspection
    assert issuer.names_itself
    assert not issuer.checksummed


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_jwts_of_the_provider_are_verified_with_known_keys(issuer: Issuer, algorithm: str) -> None:
    audience = f"https://api.example/?alg={algorithm}"
    token = _robot(issuer, audience).access_token()
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token.reveal())
    caller = _admit(issuer, token, audience, "notes:read")
    assert (caller.client_id, caller.user) == ("robot", None)
    assert _code(issuer, token, audience, "notes:write") is ErrorCode.INSUFFICIENT_SCOPE
    assert _code(issuer, token, OTHER) is ErrorCode.INVALID_TOKEN


def test_opaque_tokens_are_introspected_and_end_when_they_are_revoked(issuer: Issuer) -> None:
    token = _robot(issuer, OPAQUE).access_token()
    assert token.reveal().count(".") == 0
    caller = _admit(issuer, token, OPAQUE, "notes:read")
    assert (caller.client_id, caller.user) == ("robot", None)
    assert _code(issuer, token, API) is ErrorCode.INVALID_TOKEN
    assert _code(issuer, Secret("noise"), OPAQUE) is ErrorCode.INVALID_TOKEN
    form = urlencode({"token": token.reveal()}).encode()
    credential = Credential("robot", Secret("robot-secret"))
    request = Request(f"{issuer.url}/token/revocation", form)
    request.add_header("authorization", credential.basic())
    with urlopen(request, timeout=CEILING) as answer:
        assert answer.status == 200
    assert _code(issuer, token, OPAQUE) is ErrorCode.INVALID_TOKEN


@pytest.mark.parametrize("resource", [API, OPAQUE])
def test_user_signs_in_at_the_provider_and_their_tokens_are_accepted(
    issuer: Issuer, resource: str, tmp_path: Path
) -> None:
    ahead = 0
    runtime = Runtime(lambda: Instant(SYSTEM.now() + ahead), SYSTEM.random)
    file = tmp_path / "tokens.json"
    client = Client(
        issuer, "tool", scope="notes:read", resource=resource, file=file, runtime=runtime
    )
    with _browser() as show:
        tokens = client.sign_in(show=show, wait=30)
    caller = _admit(issuer, tokens.access_token, resource, "notes:read")
    assert (caller.user, caller.client_id) == ("1001", "tool")
    ahead = 590
    renewed = client.access_token()
    assert renewed.reveal() != tokens.access_token.reveal()
    assert _admit(issuer, renewed, resource).user == "1001"


def test_token_of_another_issuer_with_the_same_keys_is_refused(issuer: Issuer) -> None:
    token = _robot(issuer, API).access_token()
    impostor = replace(issuer, url="https://elsewhere.example")
    assert _code(impostor, token, API) is ErrorCode.INVALID_TOKEN
