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
        document = self._answers.get(url)
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return Answer(404 if document is None else 200, body)


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
def test_oauth_and_openid_metadata_urls_are_tried(issuer: str, url: str) -> None:
    document = {"issuer": issuer, "jwks_uri": "https://as.example/keys", "more": [1]}
    found_issuer = _discover(issuer, {url: document}).as_issuer()
    assert (found_issuer.url, found_issuer.keys, found_issuer.checksummed) == (
        issuer,
        document["jwks_uri"],
        False,
    )


def test_issuer_mismatch_is_refused() -> None:
    with pytest.raises(OperatorError, match="another issuer"):
        _discover("https://as.example", {OAUTH: {"issuer": "https://as.example/"}})


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"issuer":1}', b"{}", None])
def test_invalid_or_missing_metadata_document_is_unreachable(body: bytes | None) -> None:
    with pytest.raises(Unreachable):
        _discover("https://as.example", {OAUTH: body})
