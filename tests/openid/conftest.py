"""One provider for all apps of a process: each test registers its own."""

from collections.abc import Iterator

import pytest

from tests.openid.provider import RESPONSE_TYPES, Provider, provider
from tests.openid.relying_party import RelyingParty

FLOWS = [
    *((response_type, "") for response_type in RESPONSE_TYPES),
    *((response_type, "form_post") for response_type in RESPONSE_TYPES),
]


@pytest.fixture(scope="session")
def op(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """The provider."""
    with provider(tmp_path_factory.mktemp("openid")) as started:
        yield started


@pytest.fixture(params=FLOWS, ids=lambda flow: " ".join(filter(None, flow)))
def rp(op: Provider, request: pytest.FixtureRequest) -> RelyingParty:
    """A fresh app for each response type, with its usual response mode and with form_post."""
    response_type, response_mode = request.param
    return op.register(response_type, response_mode)
