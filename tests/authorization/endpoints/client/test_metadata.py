"""The discovery document: the whole of it, as it is served, and where it comes from."""

import asyncio
import json
from pathlib import Path

from tests.support.harness import SCOPES, Harness, run
from valetkey.authorization.app import build as composition
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.features import SCOPES as OF_FEATURES
from valetkey.authorization.protocol.authorization_response import ResponseMode, ResponseType
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.client_authentication import METHODS
from valetkey.authorization.tokens.read import SharedRefresh
from valetkey.config.sections.people import BrandSettings
from valetkey.kernel.jose import mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime

FLAGS = (
    "authorization_response_iss",
    "backchannel_logout",
    "claims_parameter",
    "frontchannel_logout",
    "request_parameter",
    "request_uri_parameter",
    "require_request_uri",
)
GOLDEN = Path(__file__).with_name("metadata.json")


async def _served(it: Harness) -> dict[str, object]:
    answer = await it.call("GET", "/.well-known/oauth-authorization-server")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.json


def test_metadata_document_equals_the_reviewed_copy(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert await _served(it) == json.loads(GOLDEN.read_text()), f"change {GOLDEN.name} too"

    run(tmp_path, story)


def test_both_well_known_paths_return_the_same_document(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert (await it.call("GET", "/.well-known/openid-configuration")).json == await _served(it)

    run(tmp_path, story)


def test_every_member_has_the_type_of_its_specification(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for name, value in (await _served(it)).items():
            if name.startswith(FLAGS):
                assert isinstance(value, bool), name
            elif name.endswith("_supported"):
                assert isinstance(value, list), name
                assert value, name
                assert all(isinstance(entry, str) for entry in value), name
                assert len(set(value)) == len(value), name
            else:
                assert str(value).startswith(it.foundation.issuer), name

    run(tmp_path, story)


def test_metadata_contains_policy_and_terms_links_of_the_operator(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert not {"op_policy_uri", "op_tos_uri"} & set(await _served(it))
        brand = BrandSettings(privacy_url="https://x.example/p", terms_url="https://x.example/t")
        runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
        other = replace(it.settings, brand=brand)
        branded = replace(it, app=await composition.build(other, runtime, SCOPES))
        async with branded.app.running():
            metadata = await _served(branded)
        assert metadata["op_policy_uri"] == "https://x.example/p"
        assert metadata["op_tos_uri"] == "https://x.example/t"

    run(tmp_path, story)


def test_metadata_lists_every_supported_grant_method_algorithm_and_scope(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("old", grant_types=("password",))
        metadata = await _served(it)
        assert metadata["grant_types_supported"] == [
            name for name in GRANT_RULES if name != "implicit"
        ]
        names = [name for method in METHODS for name in method.metadata_names]
        assert metadata["token_endpoint_auth_methods_supported"] == names
        algorithms = [*(algorithm.value for algorithm in Algorithm), mac.ALGORITHM]
        assert metadata["token_endpoint_auth_signing_alg_values_supported"] == algorithms
        assert metadata["scopes_supported"] == [*IDENTITY_SCOPES, *OF_FEATURES, *SCOPES]

    run(tmp_path, story)


def test_every_endpoint_in_the_metadata_exists(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        metadata = await _served(it)
        for name, address in metadata.items():
            if name.endswith(("_endpoint", "_uri", "_documentation")):
                path = str(address).removeprefix(it.foundation.issuer)
                assert (await it.call("GET", path)).status != 404, name

    run(tmp_path, story)


def test_implicit_is_announced_while_a_client_may_use_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def announced(metadata: dict[str, object]) -> list[object]:
            return [
                "implicit" in str(metadata["grant_types_supported"]),
                metadata["response_types_supported"],
            ]

        assert announced(await _served(it)) == [False, ["code"]]
        # Through another engine, as the command line has one: it counts at once.
        client = await it.client("old", grant_types=("authorization_code", "implicit"))
        assert announced(await _served(it)) == [True, list(ResponseType)]
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        assert announced(await _served(it)) == [False, ["code"]]
        assert (await _served(it))["response_modes_supported"] == list(ResponseMode)

    run(tmp_path, story)


def test_the_key_set_holds_public_keys_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
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

    async def story(it: Harness) -> None:
        GOLDEN.write_text(json.dumps(await _served(it), indent=2) + "\n")

    run(directory, story)


def test_waiting_callers_share_one_refresh_that_began_after_their_call() -> None:
    began: list[int] = []
    ended: list[int] = []

    async def story() -> None:
        together = SharedRefresh()
        gate = asyncio.Event()

        async def look() -> None:
            began.append(len(began))
            await gate.wait()
            ended.append(len(ended))

        first = [asyncio.create_task(together.run(look)) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert began == [0]
        late = [asyncio.create_task(together.run(look)) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert began == [0]
        late[0].cancel()
        gate.set()
        await asyncio.gather(*first, *late[1:])
        assert late[0].cancelled()

    asyncio.run(story())
    assert (began, ended) == ([0, 1], [0, 1])


def test_failed_refresh_fails_for_all_waiting_callers_and_no_later_one() -> None:
    async def story() -> list[object]:
        together = SharedRefresh()

        async def fails() -> None:
            raise LookupError

        async def succeeds() -> None:
            return

        waiting = [together.run(fails) for _ in range(3)]
        failed: list[object] = list(await asyncio.gather(*waiting, return_exceptions=True))
        await together.run(succeeds)
        return failed

    assert [type(failure) for failure in asyncio.run(story())] == [LookupError] * 3
