"""QS: parameters of token requests in the query string, as the specification shows them."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.attacks.raw import only, request, say
from tests.support.live import CALLBACK, PASSWORD, Answer, LiveServers, basic, secret_of
from tests.support.wait import CEILING, wait_until
from valetkey.config.load import OperatorErrors, load
from valetkey.database.decisions import Decision
from valetkey.kernel.jose import jwt
from valetkey.kernel.refusal import OperatorError

_ENDPOINTS = ("/oauth/token", "/token", "/oauth/introspect", "/oauth/revoke")


def _query(client_id: str = "web1", **changes: str) -> str:
    parameters = {"client_id": client_id, "client_secret": secret_of(client_id), **changes}
    return urlencode({name: value for name, value in parameters.items() if value})


def _sightings(world: LiveServers, client_id: str) -> int:
    credential_use = world.servers.write(lambda tx: tx.clients.query_credential_use(client_id))
    return 0 if credential_use is None else credential_use.requests


def _noticed(answer: Answer) -> None:
    """What a client is told whose credentials travel in the URL."""
    answer.ok()
    assert answer.response.headers["deprecation"].startswith("@")
    link = answer.response.headers["link"]
    assert 'rel="deprecation"' in link
    assert requests.get(link[1:].partition(">")[0], timeout=CEILING).status_code == 200
    assert answer.response.headers["cache-control"] == "no-store"


def test_qs_01_grants_work_with_parameters_in_the_query(world: LiveServers) -> None:
    before = _sightings(world, "web1")
    code = {"code": world.code(), "redirect_uri": CALLBACK}
    first = world.post("/oauth/token", query=_query(grant_type="authorization_code", **code))
    _noticed(first)
    token = first.json["refresh_token"]
    again = _query(grant_type="refresh_token", refresh_token=token)
    _noticed(world.post("/oauth/token", query=again))
    assert _sightings(world, "web1") == before + 2
    _noticed(world.post("/token", query=_query("svc1", grant_type="client_credentials")))


def test_qs_02_password_of_a_user_in_the_query_is_refused_for_every_profile(
    world: LiveServers,
) -> None:
    person = {"grant_type": "password", "username": "alice", "password": PASSWORD}
    for client_id in ("old1", "strict1"):
        query = _query(client_id, **person)
        answer = world.post("/oauth/token", query=query)
        answer.refused(400, "invalid_request")
        assert PASSWORD not in answer.response.text
    # Where it has no meaning, it is as exposed.
    query = _query("svc1", grant_type="client_credentials", password=PASSWORD)
    world.post("/token", query=query).refused(400, "invalid_request")
    for path in ("/oauth/introspect", "/oauth/revoke"):
        query = _query(token="x", password=PASSWORD)
        world.post(path, query=query).refused(400, "invalid_request")
    world.token("old1", **person).ok()


def test_qs_01_query_of_a_strict_client_is_refused_and_its_code_kept(world: LiveServers) -> None:
    code, before = world.code("strict1"), _sightings(world, "strict1")
    redeem = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    with world.nothing_changes():
        answer = world.post("/oauth/token", query=_query("strict1", **redeem))
        answer.refused(400, "invalid_request")
        for path in ("/oauth/introspect", "/oauth/revoke"):
            answer = world.post(path, query=_query("strict1", token="x"))
            answer.refused(400, "invalid_request")
    # Refused or not, its secret was in a URL three times.
    assert _sightings(world, "strict1") == before + 3
    world.exchange(code, "strict1").ok()


def test_qs_01_profile_is_not_revealed_without_authentication(world: LiveServers) -> None:
    for client_id in ("strict1", "web1", "nobody"):
        query = _query(client_id, grant_type="refresh_token", client_secret="x" * 40)
        world.post("/oauth/token", query=query).refused(401, "invalid_client")


def test_qs_02_request_with_a_body_gets_no_deprecation_header(world: LiveServers) -> None:
    before = _sightings(world, "svc1")
    answer = world.token("svc1", grant_type="client_credentials")
    answer.ok()
    assert not {"deprecation", "link"} & {name.lower() for name in answer.response.headers}
    assert _sightings(world, "svc1") == before


@pytest.mark.parametrize("path", _ENDPOINTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_qs_03_methods_other_than_post_are_refused(
    world: LiveServers, path: str, method: str
) -> None:
    query = _query("svc1", grant_type="client_credentials", token="x")
    with world.nothing_changes():
        response = requests.request(method, f"{world.auth}{path}?{query}", timeout=CEILING)
        assert Answer(response).status == 405
        assert response.headers["allow"] == "POST"
        assert secret_of("svc1") not in response.text


def test_qs_04_parameters_in_both_query_and_body_are_refused(world: LiveServers) -> None:
    query = _query("svc1", grant_type="client_credentials")
    credentials, grant = _query("svc1"), "grant_type=client_credentials"
    with world.nothing_changes():
        for in_query, in_body in (
            (query, query),
            (credentials, grant),
            (grant, credentials),
            (query, "x=y"),
            ("x=y", query),
        ):
            answer = world.post(
                "/token",
                in_body,
                query=in_query,
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
            answer.refused(400, "invalid_request")


def test_qs_04_credentials_in_both_query_and_header_are_refused(world: LiveServers) -> None:
    header = basic("svc1", secret_of("svc1"))
    with world.nothing_changes():
        query = _query("svc1", grant_type="client_credentials")
        world.post("/token", query=query, headers=header).refused(400, "invalid_request")
    before = _sightings(world, "svc1")
    # The header proves, the query only asks: S15 takes parameters there, too.
    for query in ("grant_type=client_credentials", "grant_type=client_credentials&client_id=svc1"):
        _noticed(world.post("/token", query=query, headers=header))
    assert _sightings(world, "svc1") == before + 2
    wrong = basic("svc1", "x" * 40)
    answer = world.post("/token", query="grant_type=client_credentials", headers=wrong)
    answer.refused(401, "invalid_client")
    other = "grant_type=client_credentials&client_id=web1"
    world.post("/token", query=other, headers=header).refused(400, "invalid_request")


@pytest.mark.parametrize("target", ["/oauth/token/{}", "/{}", "/oauth/token;client_secret={}"])
def test_qs_05_secret_in_an_unknown_path_is_not_logged(world: LiveServers, target: str) -> None:
    secret = secret_of("web1")
    sent = request(world.auth, "POST", f"{target.format(secret)}?{_query()}")
    reply = only(say(world.auth, sent))
    assert (reply.status, reply.json["error"]) == (404, "not_found")
    assert secret.encode() not in reply.body
    assert secret not in repr(_decision(world, reply.json["reference"]))


def _decision(world: LiveServers, reference: str) -> Decision:
    decision = wait_until(
        lambda: world.servers.write(lambda tx: tx.decisions.find(reference)),
        "the decision was not written",
    )
    assert decision is not None
    return decision


def test_qs_06_secrets_in_urls_are_recorded_for_authenticated_clients_only(
    world: LiveServers,
) -> None:
    before = _sightings(world, "web2")
    for changes in (
        {"client_secret": "x" * 40, "grant_type": "refresh_token"},
        {"grant_type": "magic"},
        {"client_secret": ""},
    ):
        assert world.post("/oauth/token", query=_query("web2", **changes)).status in {400, 401}
    assert _sightings(world, "web2") == before
    for path in ("/oauth/introspect", "/oauth/revoke"):
        world.post(path, query=_query("web2", token="x")).ok()
    assert _sightings(world, "web2") == before + 2


@pytest.mark.parametrize("section", ["authorization", "resource"])
def test_qs_07_plain_http_is_allowed_on_loopback_only(tmp_path: Path, section: str) -> None:
    def written(url: str, listen: str, more: str = "") -> Path:
        file = tmp_path / "valetkey.toml"
        file.write_text(f'[{section}]\nurl = "{url}"\nlisten = "{listen}"\n{more}')
        return file

    load(written("http://127.0.0.1:8499", "127.0.0.1:8499"), {})
    for url, listen in (
        ("http://as.example:8499", "0.0.0.0:8499"),
        ("http://as.example", "127.0.0.1:8499"),
        ("https://as.example", "0.0.0.0:8499"),
        ("http://192.0.2.1:8499", "192.0.2.1:8499"),
        ("http://[::]:8499", "[::]:8499"),
    ):
        with pytest.raises((OperatorError, OperatorErrors)):
            load(written(url, listen), {})
    load(written("https://as.example", "0.0.0.0:8499", "tls_proxy = true"), {})


def test_qs_07_http_token_requests_are_not_redirected_to_https(world: LiveServers) -> None:
    query = _query("svc1", grant_type="client_credentials")
    for headers in ({"x-forwarded-proto": "http"}, {"upgrade-insecure-requests": "1"}):
        answer = world.post("/token", query=query, headers=headers)
        assert "location" not in answer.response.headers
        assert answer.status < 300


@pytest.mark.parametrize(
    "query",
    [
        "grant_type=client_credentials&grant_type=client_credentials",
        "client_id=svc1",
        "client_secret=x",
        "x=%zz",
        "x=%00",
        "x=%ff",
        "=x",
        "&".join(f"x{n}=1" for n in range(100)),
    ],
)
def test_qs_08_repeated_or_malformed_parameters_are_refused(world: LiveServers, query: str) -> None:
    good_query = _query("svc1", grant_type="client_credentials")
    with world.nothing_changes():
        for whole in (f"{good_query}&{query}", f"{query}&{good_query}"):
            # As bytes: libraries correct what they are given.
            reply = only(say(world.auth, request(world.auth, "POST", f"/token?{whole}")))
            assert (reply.status, reply.json["error"]) == (400, "invalid_request")


def test_qs_08_raw_octets_and_fragments_in_the_target_are_refused(world: LiveServers) -> None:
    good_query = _query("svc1", grant_type="client_credentials")
    for target in (
        f"/token?{good_query}\xe9",
        f"/token?{good_query}#x",
        f"/token#?{good_query}",
        f"/token?{good_query} x",
    ):
        reply = only(say(world.auth, request(world.auth, "POST", target), ends=False))
        assert reply.status == 400
    # A second question mark is data, an encoded one is part of a path that is not ours.
    for target, status in ((f"/token??{good_query}", 401), (f"/token%3F{good_query}", 404)):
        assert only(say(world.auth, request(world.auth, "POST", target))).status == status


@pytest.mark.parametrize("path", [*_ENDPOINTS, "/oauth/authorize", "/nothing"])
def test_qs_09_a_target_has_at_most_8_kib(world: LiveServers, path: str) -> None:
    query = _query("svc1", grant_type="client_credentials")
    with world.nothing_changes():
        for size in (9 * 1024, 30_000, 200_000):
            target = f"{path}?{query}&x=".ljust(size, "a")
            reply = only(say(world.auth, request(world.auth, "POST", target), ends=False))
            assert reply.status == 414
            assert secret_of("svc1").encode() not in reply.body
    target = f"/token?{query}&x="
    world.post("/token", query=f"{query}&x=".ljust(8_000, "a")).ok()
    longest = request(world.auth, "POST", target.ljust(8 * 1024, "a"))
    assert only(say(world.auth, longest)).status == 200
    longer = request(world.auth, "POST", target.ljust(8 * 1024 + 1, "a"))
    assert only(say(world.auth, longer)).status == 414


def test_qs_10_client_assertion_in_the_query_is_accepted_once(world: LiveServers) -> None:
    now = world.servers.clock.now()
    claims = {"iss": "pk1", "sub": "pk1", "aud": world.auth, "jti": "qs", "exp": now + 60}
    parameters = {
        "grant_type": "client_credentials",
        "client_assertion": jwt.sign(claims, world.key, typ="JWT"),
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    _noticed(world.post("/token", query=urlencode(parameters)))
    world.post("/token", query=urlencode(parameters)).refused(401, "invalid_client")
    world.post("/token", parameters).refused(401, "invalid_client")


def test_qs_12_other_endpoints_accept_no_credentials_in_the_query(world: LiveServers) -> None:
    token = world.tokens()["access_token"]
    world.call(token).ok()
    for parameters in (
        {"access_token": token},
        {"Authorization": f"Bearer {token}"},
        {"token": token},
    ):
        response = requests.get(f"{world.api}/v2/notes?{urlencode(parameters)}", timeout=CEILING)
        answer = Answer(response)
        assert answer.status == 401
        assert token not in response.text
    feed = f"{world.auth}/oauth/revocations?{_query('resource-server')}"
    assert Answer(requests.get(feed, timeout=CEILING)).status == 401
