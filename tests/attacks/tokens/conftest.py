"""The places that take a JWT."""

from collections.abc import Iterator

import pytest

from tests.attacks.tokens.jose import AccessTokens, Assertions, Target, key_of
from tests.support.live import LiveServers
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import minutes


@pytest.fixture(scope="module")
def issuer_key(world: LiveServers) -> SigningKey:
    """The key with which this world signs access tokens."""
    return key_of(world)


@pytest.fixture(scope="module", params=["access tokens", "assertions"])
def places(request: pytest.FixtureRequest, world: LiveServers, issuer_key: SigningKey) -> Target:
    """Each of the two places that take a JWT."""
    if request.param == "access tokens":
        return AccessTokens(world, issuer_key)
    return Assertions(world, world.key)


@pytest.fixture
def target(places: Target) -> Iterator[Target]:
    """A place that takes a JWT; what counted there as guessing is forgotten afterwards."""
    yield places
    places.world.servers.clock.forward(minutes(2))
