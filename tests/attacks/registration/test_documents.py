"""Clients whose id is the URL of their metadata: bad documents, and changing ones (DC)."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import requests

from tests.attacks.outgoing.apps import TYPE, fresh_key, jwks
from tests.attacks.registration.documents import CALLBACK, Documents, documents
from tests.support.pages import Page, pages
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.registrations import SelfRegistrar, adopt
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.storage.clients import DocumentRead
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import RegistrationSettings, Settings
from valetkey.kernel.jose.jwt import sign
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    """A server that knows clients by their URL."""
    with documents(tmp_path_factory.mktemp("documents"), registrations_per_hour=100_000) as server:
        yield server


def test_app_with_a_metadata_url_as_id_signs_in_and_can_be_disabled(world: Documents) -> None:
    url = world.put("/app")
    person, page = world.consent(url)
    assert f"comes from {world.host.url.removeprefix('https://')} and has not been" in page.text
    parameters = person.allow(page).redirect_parameters
    assert parameters["state"] == "s"
    tokens = world.connect(url)
    assert _claims(tokens["id_token"])["aud"] == url
    assert _claims(tokens["access_token"])["client_id"] == url
    more = world.token(url, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert more.status_code == 200
    apps = person.open(f"{world.servers.auth_url}/account/apps")
    assert "Assistant" in apps.text
    # One request for all of it.
    assert world.host.asked.count("/app") == 1
    assert _disable(world.servers, url)
    again = world.token(url, grant_type="refresh_token", refresh_token=more.json()["refresh_token"])
    assert again.json()["error"] in {"invalid_client", "invalid_grant"}
    world.servers.clock.forward(days(2))
    assert world.ask(url).status_code == 400
    assert world.host.asked.count("/app") == 1


@pytest.mark.parametrize(
    "path",
    [
        "", "/app#x", "/app?x", "/app?", "/a/../app", "/./app", "/%2e%2e/app", "/a/%2E", "/a\\b",
        "/a b", "/" + "x" * 200, "/*",
    ],
)  # fmt: skip
def test_url_that_parsers_read_differently_is_not_fetched(world: Documents, path: str) -> None:
    before = world.host.connections
    refused = world.ask(world.host.url + path)
    assert refused.status_code == 400
    assert "location" not in refused.headers
    assert world.host.connections == before


@pytest.mark.parametrize("form", ["http://{}/app", "https://x@{}/app", "HTTPS://{}/app"])
def test_other_scheme_or_user_name_is_not_fetched(world: Documents, form: str) -> None:
    before = world.host.connections
    assert world.ask(form.format(world.host.url.removeprefix("https://"))).status_code == 400
    assert world.host.connections == before


@pytest.mark.parametrize(
    "said",
    [
        {"client_id": "https://localhost/bad"},
        {"client_id": None},
        {"client_secret": "x" * 40},
        {"client_secret_expires_at": 0},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": ["none"]},
        {"redirect_uris": []},
        {"redirect_uris": ["http://app.example/cb"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"grant_types": ["password"]},
        {"grant_types": ["client_credentials"]},
        {"client_name": "Valetkey"},
        {"software_statement": "a.b.c"},
        {"padding": "x" * 40_000},
    ],
)
def test_invalid_metadata_document_registers_nothing(
    world: Documents, said: dict[str, object]
) -> None:
    before = world.rows()
    refused = world.ask(world.put("/bad", said))
    assert (refused.status_code, world.rows()) == (400, before)
    # Asked again at once, the host is left alone.
    request_count = len(world.host.asked)
    assert world.ask(world.host.url + "/bad").status_code == 400
    assert len(world.host.asked) == request_count
    world.servers.clock.forward(minutes(1))


@pytest.mark.parametrize(
    "page",
    [
        Page(status=404),
        Page(b"{}", status=201),
        Page(b"{}", "text/html"),
        Page(b"[]"),
        Page(b'{"client_id": 1, "client_id": 2}'),
        Page(b"x" * 300_000),
        Page(b"{}", status=302, headers=(("location", "/app"),)),
    ],
    ids=["404", "201", "html", "array", "twice", "huge", "redirect"],
)
def test_response_without_metadata_document_registers_nothing(world: Documents, page: Page) -> None:
    before = world.rows()
    world.host.at["/none"] = page
    refused = world.ask(f"{world.host.url}/none")
    assert (refused.status_code, world.rows()) == (400, before)
    assert "/app" not in world.host.asked[-1:]
    world.servers.clock.forward(minutes(1))


def test_64_parallel_first_uses_cause_one_request_and_one_client(world: Documents) -> None:
    url = world.put("/crowd")
    with ThreadPoolExecutor(64) as crowd:
        answers = [response.status_code for response in crowd.map(world.ask, [url] * 64)]
    assert answers == [303] * 64
    assert world.host.asked.count("/crowd") == 1
    assert world.rows().count(url) == 1


def test_changed_document_takes_effect_when_the_cached_one_is_stale(world: Documents) -> None:
    url = world.put("/change", cache="max-age=600")
    tokens = world.connect(url)
    changed = {"client_name": "Other", "redirect_uris": [CALLBACK, "http://localhost/elsewhere"]}
    world.put("/change", changed)
    assert world.ask(url, redirect_uri="http://localhost:1/elsewhere").status_code == 400
    world.servers.clock.forward(minutes(11))
    person, page = world.consent(url)
    # Whoever allowed the app as it was is asked again, and told what changed.
    assert "its name, which was Assistant" in page.text
    assert person.allow(page).redirect_parameters["state"] == "s"
    world.put("/change", {"redirect_uris": ["https://app.example/cb"]})
    world.servers.clock.forward(hours(2))
    assert world.ask(url).status_code == 400
    more = world.token(url, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert more.status_code == 200


def test_removed_document_stops_new_sign_ins_but_keeps_grants(world: Documents) -> None:
    url = world.put("/gone")
    tokens = world.connect(url)
    world.host.at["/gone"] = Page(status=404)
    world.servers.clock.forward(hours(2))
    more = world.token(url, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert more.status_code == 200
    assert world.ask(url).status_code == 400
    world.put("/gone")
    world.servers.clock.forward(minutes(1))
    assert world.ask(url).status_code == 303


def test_withdrawn_key_of_a_document_no_longer_signs(world: Documents) -> None:
    first, second = fresh_key(), fresh_key()
    keys = {"token_endpoint_auth_method": "private_key_jwt", "application_type": "native"}
    url = world.put("/keys", {**keys, "jwks": json.loads(jwks(first))})

    def proof(key: object, jti: str) -> dict[str, str]:
        now = world.servers.clock.now()
        claims = {"iss": url, "sub": url, "aud": world.servers.auth_url, "exp": now + 60}
        signed = sign({**claims, "iat": now, "jti": jti}, key, typ="JWT")  # type: ignore[arg-type]
        return {"client_assertion_type": TYPE, "client_assertion": signed}

    tokens = world.connect(url, **proof(first, "1"))
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert world.token(url, **refresh).json()["error"] == "invalid_client"
    world.put("/keys", {**keys, "jwks": json.loads(jwks(second))})
    world.servers.clock.forward(hours(2))
    assert world.token(url, **refresh, **proof(first, "2")).json()["error"] == "invalid_client"
    assert world.token(url, **refresh, **proof(second, "3")).status_code == 200


def test_new_key_of_a_document_is_accepted_before_the_document_is_stale(world: Documents) -> None:
    first, second = fresh_key(), fresh_key()
    keys = {"token_endpoint_auth_method": "private_key_jwt", "application_type": "native"}
    url = world.put("/rotates", {**keys, "jwks": json.loads(jwks(first))}, cache="max-age=3600")

    def proof(key: object, jti: str) -> dict[str, str]:
        now = world.servers.clock.now()
        claims = {"iss": url, "sub": url, "aud": world.servers.auth_url, "exp": now + 60}
        signed = sign({**claims, "iat": now, "jti": jti}, key, typ="JWT")  # type: ignore[arg-type]
        return {"client_assertion_type": TYPE, "client_assertion": signed}

    def refresh(key: object, jti: str) -> int:
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return world.token(url, **form, **proof(key, jti)).status_code

    tokens = world.connect(url, **proof(first, "1"))
    world.put("/rotates", {**keys, "jwks": json.loads(jwks(second))}, cache="max-age=3600")
    request_count = len(world.host.asked)
    assert refresh(second, "2") == 200
    # Guesses do not make this server ask and ask.
    for number in range(5):
        assert refresh(fresh_key(), f"guess {number}") == 401
    assert len(world.host.asked) == request_count + 1
    assert refresh(first, "3") == 401


def test_new_key_of_a_document_signs_request_objects(world: Documents) -> None:
    first, second = fresh_key(), fresh_key()
    keys = {"token_endpoint_auth_method": "private_key_jwt"}
    for key in (first, second):
        listed = {**keys, "jwks": json.loads(jwks(key))}
        url = world.put("/signs", listed, cache="max-age=3600")
        claims = {
            "iss": url,
            "aud": world.servers.auth_url,
            "exp": world.servers.clock.now() + 60,
            "client_id": url,
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": "openid",
        }
        answer = world.ask(url, request=sign(claims, key, typ=""), prompt="none")
        assert "error=login_required" in answer.headers["location"], answer.headers


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/introspect", "/oauth/revoke"])
def test_withdrawn_key_that_names_no_client_id_is_refused(world: Documents, path: str) -> None:
    first, second = fresh_key(), fresh_key()
    keys = {"token_endpoint_auth_method": "private_key_jwt", "application_type": "native"}
    url = world.put("/unnamed", {**keys, "jwks": json.loads(jwks(first))})
    assert world.ask(url).status_code == 303
    world.put("/unnamed", {**keys, "jwks": json.loads(jwks(second))})
    world.servers.clock.forward(hours(2))
    now = world.servers.clock.now()
    claims = {"iss": url, "sub": url, "aud": world.servers.auth_url, "exp": now + 60, "iat": now}
    proof = sign({**claims, "jti": path}, first, typ="JWT")
    form = {"token": "x", "grant_type": "refresh_token", "refresh_token": "x"}
    credentials = {"client_assertion_type": TYPE, "client_assertion": proof}
    refused = requests.post(f"{world.servers.auth_url}{path}", data=form | credentials, timeout=60)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("adopted", [True, False])
def test_document_fetched_before_an_operators_change_is_discarded(
    world: Documents, *, adopted: bool
) -> None:
    url = world.put(f"/late-{adopted}")
    assert world.ask(url).status_code == 303
    servers = world.servers
    before = servers.write(lambda tx: tx.clients.find(url))
    assert before is not None

    metadata = replace(metadata_of(before), name="Evil name")
    read = DocumentRead(Fingerprint("new"), Instant(servers.clock.now() + 60))
    now = servers.clock.now()
    assert servers.write(lambda tx: adopt(tx, url, now)) if adopted else _disable(servers, url)
    keep = partial(
        _self_registrar(servers).keep_document,
        url=url, metadata=metadata, read=read, host="localhost", most=9, now=now,
    )  # fmt: skip
    servers.write(keep)
    after = servers.write(lambda tx: tx.clients.find(url))
    assert after is not None
    assert after.name == before.name


def test_unused_client_is_removed_and_its_old_tokens_stay_invalid(world: Documents) -> None:
    url = world.put("/idle")
    tokens = world.connect(url)
    servers = world.servers
    servers.clock.forward(days(31))
    _sweep(servers)
    servers.clock.forward(minutes(2))
    while url in world.rows():
        # Other rows go first, a batch at a time; a sweep that does nothing ends this.
        assert _sweep(servers)
    assert world.ask(url).status_code == 303
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert world.token(url, **refresh).json()["error"] == "invalid_grant"


def test_app_of_an_unreachable_document_works_for_a_day(tmp_path: Path) -> None:
    with documents(tmp_path) as world:
        # The host of another test may have the port of this one later: nothing listens there now.
        with pages() as other:
            port = other.url.rpartition(":")[2]
        url = world.put("/away")
        assert world.ask(url).status_code == 303
        away = f"https://localhost:{port}/away"
        world.servers.write(lambda tx: _move(tx, url, away))
        world.servers.clock.forward(hours(2))
        assert world.ask(away).status_code == 303
        world.servers.clock.forward(days(1))
        assert world.ask(away).status_code == 400


def test_number_of_document_clients_and_first_uses_is_limited(tmp_path: Path) -> None:
    limits = {"most_metadata_documents": 10, "registrations_per_hour": 12}
    with documents(tmp_path, **limits) as world:
        urls = [world.put(f"/{number}") for number in range(14)]
        answers = [world.ask(url).status_code for url in urls[:13]]
        # Ten are kept, two find no room, and one more is too many from this address.
        assert answers == [303] * 10 + [503, 503, 429]
        world.servers.clock.forward(hours(2))
        assert world.ask(urls[13]).status_code == 303
        has = world.servers.write(lambda tx: [tx.registrations.has_documents(n) for n in (10, 11)])
        assert has == [True, False]


def test_document_of_a_host_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    with documents(tmp_path, metadata_document_hosts=("claude.ai",)) as world:
        refused = world.ask(world.put("/app"))
        assert refused.status_code == 400
        assert "cannot be used here" in refused.text
        assert world.host.connections == 0


def test_documents_are_off_by_default_and_never_fetched_from_private_addresses(
    tmp_path: Path,
) -> None:
    with pages() as canary:
        port = canary.url.rpartition(":")[2]
        inside = [f"https://{host}:{port}/a" for host in ("127.0.0.1", "localhost", "[::1]")]
        inside += ["https://10.0.0.1/a", "https://169.254.169.254/a", "https://127.0.0.1/a"]
        for on in (False, True):
            registration = RegistrationSettings(metadata_documents=on)
            folder = tmp_path / str(on)
            folder.mkdir()
            settings = Settings(registration=registration)
            with Servers(folder, settings=settings, with_resource=False) as servers:
                world = Documents(servers, canary)
                for url in inside:
                    assert world.ask(url).status_code == 400
                metadata = UserAgent(servers.auth_url).open(
                    f"{servers.auth_url}/.well-known/oauth-authorization-server"
                )
                document = json.loads(metadata.body)
                assert document.get("client_id_metadata_document_supported", False) is on
        assert canary.connections == 0


def _claims(token: str) -> dict[str, object]:
    payload = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(payload + "==")))


def _disable(servers: Servers, url: str) -> bool:
    registrar, now = _self_registrar(servers).registrar, servers.clock.now()

    def work(tx: Transaction) -> bool:
        client = tx.clients.find_to_change(url)
        return client is not None and registrar.disable(tx, client, now)

    return servers.write(work)


def _self_registrar(servers: Servers) -> SelfRegistrar:
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    asyncio.run(foundation.store.engine.close())
    return foundation.self_registrar()


def _sweep(servers: Servers) -> int:
    registrar, now = _self_registrar(servers), servers.clock.now()
    return sum(servers.write(partial(_at, sweep, now)) for sweep in registrar.sweeps)


def _at(sweep: Callable[[Transaction, Instant], int], now: Instant, tx: Transaction) -> int:
    return sweep(tx, now)


def _move(tx: Transaction, url: str, to: str) -> None:
    client = tx.clients.find(url)
    assert client is not None
    read = tx.registrations.document_of(url)
    assert read is not None
    tx.clients.register(replace(client, id=to))
    tx.registrations.add(to, client.id, client.id, client.created_at, read)  # type: ignore[arg-type]
