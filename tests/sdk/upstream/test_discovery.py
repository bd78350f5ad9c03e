"""What an authorization server says about itself, and who may say it."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from valetkey.kernel.refusal import OperatorError
from valetkey.sdk.fetch import Answer, Credential, Fetcher, Unreachable
from valetkey.sdk.upstream.discovery import ServerMetadata, discover

OAUTH = "https://as.example/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class _Server(Fetcher):
    """Answers what it was told to answer, and 404 elsewhere."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        super().__init__()
        self._answers = answers

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        found = self._answers.get(url)
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        return Answer(404 if found is None else 200, body)


def _discover(issuer: str, answers: Mapping[str, object]) -> ServerMetadata:
    async def story() -> ServerMetadata:
        async with _Server(answers) as door:
            return await discover(issuer, door)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://as.example", OAUTH),
        ("https://as.example", f"https://as.example{OPENID}"),
        ("https://as.example/", OAUTH),
        ("https://as.example/one", f"{OAUTH}/one"),
        ("https://as.example/one", f"https://as.example/one{OPENID}"),
    ],
)
def test_both_places_of_the_document_are_known(issuer: str, url: str) -> None:
    said = {"issuer": issuer, "jwks_uri": "https://as.example/keys", "more": [1]}
    found = _discover(issuer, {url: said}).as_issuer()
    assert (found.url, found.keys, found.checksummed) == (issuer, said["jwks_uri"], False)


def test_issuer_mismatch_is_refused() -> None:
    with pytest.raises(OperatorError, match="another issuer"):
        _discover("https://as.example", {OAUTH: {"issuer": "https://as.example/"}})


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"issuer":1}', b"{}", None])
def test_what_is_no_document_is_no_answer(body: bytes | None) -> None:
    with pytest.raises(Unreachable):
        _discover("https://as.example", {OAUTH: body})
