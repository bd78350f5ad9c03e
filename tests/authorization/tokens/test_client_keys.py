"""The public keys of clients."""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

import pytest

from tests.fetch.canary import Canary, answer, listening
from valetkey.authorization.model.client import Client, OpenIdRegistration, client_without_rights
from valetkey.authorization.tokens import client_keys
from valetkey.authorization.tokens.client_keys import ClientKeys
from valetkey.fetch.outbound import Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant, later, minutes, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

NOW = Instant(1_800_000_000)
OLD, NEW = SigningKey.generate(), SigningKey.generate()


def _jwks(*keys: SigningKey) -> bytes:
    return KeySet.of(*(key.public for key in keys)).document()


class _There(OutboundHttp):
    """A door behind which one document lies, or nothing; counts who asks."""

    def __init__(self, document: bytes | None) -> None:
        super().__init__((), SYSTEM.now)
        self.document = document
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def get(self, url: str, *, accept: tuple[str, ...] = ()) -> Fetched:
        self.asked += 1
        await self.open.wait()
        if self.document is None:
            raise Unfetchable("status")
        return Fetched(200, "application/json", self.document)


def _client(client_id: str = "c", uri: str = "https://app.example/jwks") -> Client:
    openid = replace(OpenIdRegistration.NOTHING, jwks_uri=uri)
    return replace(client_without_rights(client_id, NOW), openid=openid)


def _kids(keys: KeySet) -> list[str]:
    return [key.kid for key in keys]


def test_registered_keys_are_used_without_a_request() -> None:
    client = replace(client_without_rights("c", NOW), key_set=KeySet.of(OLD.public))

    async def story() -> None:
        there = _There(None)
        keys = ClientKeys(there)
        assert _kids(await keys.signing(client, NOW, kid="other")) == [OLD.kid]
        assert _kids(await keys.signing_again(client, NOW)) == [OLD.kid]
        assert len(await keys.encryption(client, NOW)) == 0
        assert there.asked == 0

    asyncio.run(story())


def test_key_set_in_use_is_refreshed_early_without_delay() -> None:
    async def story() -> None:
        there = _There(_jwks(OLD))
        keys, client = ClientKeys(there), _client()
        await keys.signing(client, NOW)
        there.open.clear()
        there.document = _jwks(NEW)
        soon = later(NOW, minutes(4))
        for _ in range(3):
            assert _kids(await keys.signing(client, soon)) == [OLD.kid]
        await asyncio.sleep(0)
        assert there.asked == 2
        there.open.set()
        for _ in range(10):  # the look goes on in steps of the event loop
            await asyncio.sleep(0)
        assert _kids(await keys.signing(client, later(soon, minutes(2)))) == [NEW.kid]
        assert there.asked == 2

    asyncio.run(story())


def test_fetch_that_found_a_new_key_does_not_delay_the_next_fetch() -> None:
    async def story() -> None:
        there = _There(_jwks(OLD))
        keys, client = ClientKeys(there), _client()
        await keys.signing(client, NOW)
        for key in (NEW, OLD, NEW):
            there.document = _jwks(key)
            assert _kids(await keys.signing(client, NOW, kid=key.kid)) == [key.kid]
        request_count = there.asked
        for _ in range(5):
            assert _kids(await keys.signing(client, NOW, kid="nobody's")) == [NEW.kid]
            assert _kids(await keys.signing_again(client, NOW)) == [NEW.kid]
        assert there.asked == request_count + 1
        await keys.signing(client, later(NOW, seconds(30)), kid="nobody's")
        assert there.asked == request_count + 2

    asyncio.run(story())


def test_key_refresh_limit_of_a_client_is_not_used_up_by_another_client() -> None:
    async def story() -> None:
        there = _There(_jwks(OLD))
        keys, ours, theirs = ClientKeys(there), _client("ours"), _client("theirs")
        for client in (ours, theirs):
            await keys.signing(client, NOW)
        await keys.signing(theirs, NOW, kid="nobody's")
        there.document = _jwks(NEW)
        assert _kids(await keys.signing(theirs, NOW, kid=NEW.kid)) == [OLD.kid]
        assert _kids(await keys.signing(ours, NOW, kid=NEW.kid)) == [NEW.kid]

    asyncio.run(story())


def test_invalid_document_is_not_fetched_again_at_once() -> None:
    async def story() -> None:
        there = _There(b"[]")
        keys, client = ClientKeys(there), _client()
        for _ in range(5):
            assert _kids(await keys.signing(client, NOW, kid=OLD.kid)) == []
        assert there.asked == 1
        there.document = _jwks(OLD)
        assert _kids(await keys.signing(client, later(NOW, seconds(30)), kid=OLD.kid)) == [OLD.kid]

    asyncio.run(story())


def test_reason_why_keys_cannot_be_read_is_available() -> None:
    async def story() -> None:
        there = _There(None)
        keys, client = ClientKeys(there), _client()
        assert keys.problem_of(client) == ""
        for document, check in ((None, "fetch.status"), (b"[]", "jwks.json"), (_jwks(OLD), "")):
            there.document = document
            await keys.signing(client, later(NOW, minutes(there.asked)), kid=OLD.kid)
            assert keys.problem_of(client) == check
        assert keys.problem_of(client_without_rights("c", NOW)) == ""

    asyncio.run(story())


def test_number_of_cached_key_sets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_keys, "_MOST", 3)

    async def story() -> None:
        there = _There(_jwks(OLD))
        keys = ClientKeys(there)
        clients = [_client(f"c{number}") for number in range(5)]
        for client in clients:
            await keys.signing(client, NOW)
        assert there.asked == 5
        # The last three are known, the first is not.
        for client in reversed(clients[2:]):
            await keys.signing(client, NOW)
        assert there.asked == 5
        await keys.signing(clients[0], NOW)
        assert there.asked == 6

    asyncio.run(story())


def test_signing_and_encryption_keys_are_read_from_one_document() -> None:
    encrypting = (
        OLD.public.text()
        .replace('"use":"sig"', '"use":"enc"')
        .replace('"alg":"ES256"', '"alg":"ECDH-ES"')
    )
    document = b'{"keys":[%s,%s]}' % (NEW.public.text().encode(), encrypting.encode())

    async def story() -> None:
        there = _There(document)
        keys, client = ClientKeys(there), _client()
        assert _kids(await keys.signing(client, NOW)) == [NEW.kid]
        (key,) = await keys.encryption(client, NOW)
        assert (key.alg, key.kid) == ("ECDH-ES", OLD.kid)
        assert there.asked == 1
        there.document = None
        nobody = _client("nobody")
        assert len(await keys.encryption(nobody, NOW)) == 0

    asyncio.run(story())


def _over_the_network(story: Callable[[Canary], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with listening(answer(_jwks(OLD), "application/jwk-set+json")) as canary:
            await story(canary)

    asyncio.run(whole())


def test_parallel_uses_fetch_keys_over_the_network_once() -> None:
    async def story(canary: Canary) -> None:
        keys = ClientKeys(OutboundHttp((ip_network("127.0.0.0/8"),), SYSTEM.now))
        key_lists = await asyncio.gather(
            *(keys.signing(_client(uri=canary.url), NOW) for _ in range(10))
        )
        assert {tuple(_kids(key_list)) for key_list in key_lists} == {(OLD.kid,)}
        assert canary.connections == 1

    _over_the_network(story)
