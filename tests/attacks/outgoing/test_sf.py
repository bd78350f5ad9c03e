"""Server-side requests: where this server lets itself be sent, counted at the sockets (SF)."""

import asyncio
import os
import ssl
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.attacks.outgoing.apps import CALLBACK, Apps, apps, jwks
from tests.fetch.canary import Canary, Clock, answer, certificate, door, listening
from tests.support.pages import Page, pages
from valetkey.fetch.outbound import Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.moment import seconds

_INSIDE = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "0.0.0.0", "192.0.0.1", "198.18.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "ff02::1",
    "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::",
]  # fmt: skip


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apps]:
    """A server whose operator lists no network."""
    with apps(tmp_path_factory.mktemp("closed")) as server:
        yield server


def _story(response: bytes, story: Callable[[Canary], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with listening(response) as canary:
            await story(canary)

    asyncio.run(whole())


async def _check(asking: Awaitable[Fetched]) -> str:
    with pytest.raises(Unfetchable) as caught:
        await asking
    return caught.value.check


@pytest.mark.parametrize("address", _INSIDE)
def test_sf_01_internal_addresses_are_never_connected_to(address: str) -> None:
    async def story(canary: Canary) -> None:
        fetch, _ = door([address], inside=False)
        literal = f"[{address}]" if ":" in address else address
        for host in ("inside.example", literal):
            for url in (
                f"https://{host}/",
                f"https://{host}:{canary.port}/",
                f"http://{host}:{canary.port}/",
                f"http://{host}/",
            ):
                # An address that only some spell so is no address here.
                assert await _check(fetch.get(url)) in {"fetch.address", "fetch.url"}
                assert await _check(fetch.post_form(url, {})) in {"fetch.address", "fetch.url"}
        assert canary.connections == 0

    _story(answer(), story)


@pytest.mark.parametrize("address", _INSIDE)
@pytest.mark.parametrize(
    "field", ["jwks_uri", "request_uris", "backchannel_logout_uri", "sector_identifier_uri"]
)
def test_sf_01_internal_address_is_not_registered(closed: Apps, field: str, address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    for uri in (f"https://{literal}/x", f"https://{literal}:8443/x", f"http://{literal}/x"):
        with pytest.raises(ValueError, match=field):
            closed.app("inside", **{field: (uri,) if field == "request_uris" else uri})


@pytest.mark.parametrize("uri", ["https://localhost/x", "https://app.example:8443/x"])
def test_sf_01_internal_jwks_uri_cannot_be_registered(closed: Apps, uri: str) -> None:
    with pytest.raises(ValueError, match="jwks_uri"):
        closed.app("never", jwks_uri=uri)


@pytest.mark.parametrize(
    "host", ["127.1", "0177.0.0.1", "2130706433", "0x7f.1", "0x7f000001", "0", "localhost"]
)
def test_sf_01_alternative_spellings_of_loopback_are_never_connected_to(host: str) -> None:
    async def story(canary: Canary) -> None:
        fetch = OutboundHttp((), Clock())
        url = f"http://{host}:{canary.port}/"
        assert await _check(fetch.get(url)) in {"fetch.address", "fetch.url", "fetch.name"}
        assert canary.connections == 0

    _story(answer(), story)


def test_sf_01_http_and_other_ports_are_for_listed_networks_only() -> None:
    async def story(canary: Canary) -> None:
        fetch, _ = door(["8.8.8.8"])
        for url in (
            f"https://app.example:{canary.port}/",
            "http://app.example/",
            "http://app.example:443/",
        ):
            assert await _check(fetch.get(url)) == "fetch.port"

    _story(answer(), story)


def test_sf_01_listed_network_allows_its_own_addresses_only() -> None:
    async def story(canary: Canary) -> None:
        fetch = OutboundHttp((ip_network("127.0.0.1/32"),), Clock())
        assert (await fetch.get(canary.url)).status == 200
        other = canary.url.replace("127.0.0.1", "127.0.0.2")
        assert await _check(fetch.get(other)) == "fetch.address"
        assert canary.connections == 1

    _story(answer(), story)


def test_sf_11_keys_and_request_objects_are_not_fetched_from_private_addresses(
    closed: Apps,
) -> None:
    with pages() as canary:
        canary.at = {"/jwks": Page(jwks(closed.key)), "/r": Page(b"a.b.c", "application/jwt")}
        closed.app("fetching")
        closed.plant("fetching", jwks_uri=f"{canary.url}/jwks", request_uris=(f"{canary.url}/r",))
        response = closed.prove("fetching", closed.assertion("fetching"))
        assert response.json()["error"] == "invalid_client"
        there = {"request_uri": f"{canary.url}/r", "redirect_uri": CALLBACK, "scope": "read"}
        assert closed.ask("fetching", **there)["error"] == "invalid_request_uri"
        assert canary.connections == 0


def test_sf_03_only_registered_request_uris_are_fetched(tmp_path: Path) -> None:
    with apps(tmp_path, ip_network("127.0.0.0/8")) as it, pages() as canary:
        it.app("one", request_uris=(f"{canary.url}/r",))
        it.app("none")
        outside = {"redirect_uri": CALLBACK, "scope": "read"}
        for path in ("", "/", "/r/", "/r?", "/r?x", "/R", "/r/../r", "/%72", "//r", "/other"):
            refusal = it.ask("one", request_uri=f"{canary.url}{path}", **outside)
            assert refusal["error"] == "invalid_request_uri", path
        for uri in ("urn:ietf:params:oauth:request_uri:x", "file:///etc/passwd", "x", "https://"):
            assert it.ask("one", request_uri=uri, **outside)["error"] == "invalid_request_uri"
        refusal = it.ask("none", request_uri=f"{canary.url}/r", **outside)
        assert refusal["error"] == "request_uri_not_supported"
        assert canary.connections == 0
        assert it.ask("one", request_uri=f"{canary.url}/r", **outside)
        assert canary.asked == ["/r"]


def test_sf_05_forms_are_not_posted_to_private_addresses() -> None:
    async def story(canary: Canary) -> None:
        fetch, _ = door(["127.0.0.1"], inside=False)
        assert await _check(fetch.post_form(canary.url, {"logout_token": "x"})) == "fetch.address"
        assert canary.connections == 0

    _story(answer(), story)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1", "8.8.8.8"],
        ["8.8.8.8", "127.0.0.1"],
        ["8.8.8.8", "2606:4700:4700::1111", "::ffff:10.0.0.1"],
        ["8.8.8.8"] * 50 + ["169.254.169.254"],
    ],
)
def test_sf_07_host_with_any_internal_address_is_refused(addresses: Sequence[str]) -> None:
    async def story(canary: Canary) -> None:
        fetch, resolver = door(addresses, inside=False)
        assert await _check(fetch.get(f"https://app.example:{canary.port}/")) == "fetch.address"
        assert len(resolver.asked) == 1
        assert canary.connections == 0

    _story(answer(), story)


def test_sf_07_connection_uses_the_resolved_address_that_was_checked() -> None:
    async def story(canary: Canary) -> None:
        # A second look would lead elsewhere: nobody takes it.
        fetch, resolver = door(["127.0.0.1"], ["10.0.0.1"])
        assert (await fetch.get(f"http://app.example:{canary.port}/")).status == 200
        assert len(resolver.asked) == 1
        assert canary.connections == 1
        assert await _check(fetch.get(f"http://app.example:{canary.port}/")) == "fetch.address"
        assert canary.connections == 1

    _story(answer(), story)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_sf_09_redirects_are_not_followed(status: int) -> None:
    async def story(canary: Canary) -> None:
        for target in (canary.url, "http://10.0.0.1/", "file:///etc/passwd", "//evil.example/"):
            moved = answer(b"", status=f"{status} Moved", more=f"location: {target}\r\n")
            async with listening(moved) as first:
                fetch, resolver = door()
                assert await _check(fetch.get(first.url)) == "fetch.status"
                assert (await fetch.post_form(first.url, {})).status == status
                assert first.connections == 2
                assert resolver.asked == []
        assert canary.connections == 0

    _story(answer(), story)


@pytest.mark.parametrize("wrong", ["expired", "another name", "nobody's", "old"])
def test_sf_13_invalid_certificate_and_old_tls_are_refused(tmp_path: Path, wrong: str) -> None:
    name = "other.example" if wrong == "another name" else "app.example"
    shown = certificate(tmp_path, name, expired=wrong == "expired")
    if wrong == "old":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            shown.context.minimum_version = ssl.TLSVersion.TLSv1
            shown.context.maximum_version = ssl.TLSVersion.TLSv1_1
        shown.context.set_ciphers("DEFAULT@SECLEVEL=0")

    async def story() -> None:
        async with listening(answer(), tls=shown.context) as canary:
            fetch, _ = door(ca_file=None if wrong == "nobody's" else shown.ca_file)
            url = f"https://app.example:{canary.port}/"
            assert await _check(fetch.get(url)) == "fetch.connect"
            assert canary.heard == []

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["text/html", "application/xml", "image/png", "application/jsonp"])
def test_sf_15_unexpected_media_type_is_refused(kind: str) -> None:
    async def story(canary: Canary) -> None:
        fetch, _ = door()
        assert await _check(fetch.get(canary.url)) == "fetch.type"

    _story(answer(b'{"keys":[]}', kind), story)


def test_sf_17_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(canary: Canary) -> None:
        async with listening(answer()) as proxy:
            there = f"http://127.0.0.1:{proxy.port}"
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setitem(os.environ, name, there)
                monkeypatch.setitem(os.environ, name.lower(), there)
            monkeypatch.setitem(os.environ, "NO_PROXY", "")
            fetch, _ = door()
            assert (await fetch.get(f"http://app.example:{canary.port}/")).status == 200
            assert (proxy.connections, canary.connections) == (0, 1)

    _story(answer(), story)


def test_sf_18_errors_do_not_reveal_the_network(closed: Apps) -> None:
    """Closed, filtered, unknown or refused: the same answer to the client."""
    answers: set[str] = set()
    with pages() as canary:
        for number, uri in enumerate(
            (
                f"{canary.url}/jwks",
                "https://10.255.255.1/jwks",
                "https://no.such.name.invalid/jwks",
                "https://[::1]/jwks",
                "http://127.0.0.1:1/jwks",
            )
        ):
            client_id = f"probe{number}"
            closed.app(client_id)
            closed.plant(client_id, jwks_uri=uri)
            answer_ = closed.prove(client_id, closed.assertion(client_id))
            members = {
                k: v for k, v in answer_.json().items() if k not in {"reference", "error_uri"}
            }
            answers.add(f"{answer_.status_code} {sorted(members.items())}")
            closed.servers.clock.forward(seconds(1))
        assert canary.connections == 0
    assert len(answers) == 1
