"""The discovery document: the whole of it, as it is served, and where it comes from."""

import json
from pathlib import Path

from tests.authorization.endpoints.world import SCOPES, Service, run
from valetkey.authorization.client_authentication.registry import METHODS
from valetkey.authorization.grant_types import grant_types
from valetkey.authorization.model.account.user import User
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.kernel.jose.key import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal

GOLDEN = Path(__file__).with_name("metadata.json")


async def _nobody(username: str, password: str, address: str, now: Instant) -> User | Refusal:
    raise AssertionError


async def _served(it: Service) -> dict[str, object]:
    answer = await it.call("GET", "/.well-known/oauth-authorization-server")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.json


def test_the_document_is_as_reviewed(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        assert await _served(it) == json.loads(GOLDEN.read_text())

    run(tmp_path, story)


def test_what_it_announces_comes_from_the_registries(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        await it.client("old", grant_types=("password",))
        said = await _served(it)
        assert said["grant_types_supported"] == [each.name for each in grant_types(_nobody)]
        names = [name for method in METHODS for name in method.metadata_names]
        assert said["token_endpoint_auth_methods_supported"] == names
        algorithms = [algorithm.value for algorithm in Algorithm]
        assert said["token_endpoint_auth_signing_alg_values_supported"] == algorithms
        assert said["scopes_supported"] == [*IDENTITY_SCOPES, *SCOPES]

    run(tmp_path, story)


def test_every_endpoint_it_names_is_there(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        said = await _served(it)
        for name, address in said.items():
            if name.endswith(("_endpoint", "_uri", "_documentation")):
                path = str(address).removeprefix(it.foundation.issuer)
                assert (await it.call("GET", path)).status != 404, name

    run(tmp_path, story)


def test_implicit_is_announced_while_a_client_may_use_it(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        def announced(said: dict[str, object]) -> list[object]:
            return [
                "implicit" in str(said["grant_types_supported"]),
                said["response_types_supported"],
                said["response_modes_supported"],
            ]

        assert announced(await _served(it)) == [False, ["code"], ["query"]]
        # Through another engine, as the command line has one: it counts at once.
        client = await it.client("old", grant_types=("authorization_code", "implicit"))
        now = [True, ["code", "token"], ["query", "fragment"]]
        assert announced(await _served(it)) == now
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        assert announced(await _served(it)) == [False, ["code"], ["query"]]

    run(tmp_path, story)


def test_the_key_set_holds_public_keys_only(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        answer = await it.call("GET", "/oauth/jwks")
        assert answer.headers["cache-control"] == "public, max-age=300"
        keys = answer.json["keys"]
        assert isinstance(keys, list)
        assert len(keys) == 2
        for key in keys:
            assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}

    run(tmp_path, story)


def regenerate(directory: Path) -> None:
    """Write the golden file anew; look at what changed before you commit it."""

    async def story(it: Service) -> None:
        GOLDEN.write_text(json.dumps(await _served(it), indent=2) + "\n")

    run(directory, story)
