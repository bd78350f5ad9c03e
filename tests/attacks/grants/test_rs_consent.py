"""RS: an app gets tokens for an API only if its user was asked about that API, by name."""

from collections.abc import Iterator
from importlib import resources
from urllib.parse import urlencode, urljoin

import pytest
import requests

from tests.attacks.grants.several_apis import (
    CALENDAR,
    DEVICE_CODE,
    FILES,
    SIGNS_RSA,
    TOOL,
    Apis,
    claims,
)
from tests.support.live import CALLBACK, CODE_GRANT, PASSWORD, Answer, live_servers, secret_of
from tests.support.wait import CEILING
from valetkey.authorization.model.api import ApiMetadata
from valetkey.authorization.storage import schema
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import split
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.testing.browser import Page, UserAgent

ASKS = "use this API on your behalf"


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    with live_servers(tmp_path_factory.mktemp("consent"), algorithms=tuple(Algorithm)[:2]) as world:
        yield Apis(world)


def _client(
    apis: Apis, client_id: str, *scopes: str, grant_types: tuple[str, ...] = CODE_GRANT
) -> UserAgent:
    """Alice, signed in, who let a new client know who she is and nothing else."""
    apis.world.client(client_id, scopes=scopes, grant_types=grant_types)
    person = UserAgent(apis.world.auth)
    person.sign_in(apis.world.ask(person), "alice", PASSWORD)
    if scopes:
        page = apis.world.ask(person, client_id, scope="openid")
        assert "code" in person.allow(page).redirect_parameters
    return person


def _decide_only(person: UserAgent, page: Page, *boxes: str) -> str:
    """Allow these boxes, and return the redirect without following it."""
    pressed = next(button for button in page.buttons if button.id == "allow")
    form = page.forms[pressed.form]
    chosen = [(name, value) for name, value, _ in form.boxes if value in boxes]
    answer = requests.post(
        urljoin(page.url, form.action),
        data=[*form.fields, *chosen, ("decision", "allow")],
        cookies=person.cookies,
        headers={"origin": page.url.partition("/oauth")[0]},
        allow_redirects=False,
        timeout=CEILING,
    )
    assert answer.status_code == 303, answer.text
    return urljoin(page.url, answer.headers["location"])


@pytest.mark.parametrize("api", [TOOL, CALENDAR], ids=["without scopes", "none requested"])
def test_consent_to_identity_covers_no_api(apis: Apis, api: ApiMetadata) -> None:
    identifier, name = api.identifier, api.name
    client_id = f"who-{name}"
    person = _client(apis, client_id, "openid", grant_types=("authorization_code", "implicit"))
    parameters = {"scope": "openid", "resource": identifier}
    silent = {**parameters, "prompt": "none"}
    world = apis.world
    assert world.ask(person, client_id, **silent).redirect_parameters["error"] == "consent_required"
    front = {"response_type": "id_token token", "nonce": name}
    assert (
        world.ask(person, client_id, **silent, **front).redirect_parameters["error"]
        == "consent_required"
    )

    page = world.ask(person, client_id, **parameters)
    assert f"At {name} : {ASKS}" in page.text
    for _ in range(2):
        refused = world.exchange(person.allow(page, only=()).redirect_parameters["code"], client_id)
        refused.ok()
        assert (claims(refused.json["access_token"])["aud"]) == world.api
        # What was refused is asked again, and never taken for allowed.
        assert (
            world.ask(person, client_id, **silent).redirect_parameters["error"]
            == "consent_required"
        )
        page = world.ask(person, client_id, **parameters)
    code = person.allow(page, only=()).redirect_parameters["code"]
    assert world.exchange(code, client_id, resource=identifier).json["error"] == "invalid_target"

    response = person.allow(world.ask(person, client_id, **parameters)).redirect_parameters
    token = world.exchange(response["code"], client_id).json["access_token"]
    assert (claims(token)["aud"], claims(token)["scope"]) == (identifier, "openid")
    assert apis.inspect(token, identifier)["active"]
    again = world.ask(person, client_id, **silent).redirect_parameters["code"]
    assert claims(world.exchange(again, client_id).json["access_token"])["aud"] == identifier
    other = FILES.identifier if client_id == "who-Tool" else TOOL.identifier
    unseen = world.ask(person, client_id, **{**silent, "resource": other}).redirect_parameters[
        "error"
    ]
    assert unseen in {"consent_required", "invalid_target"}


def test_api_without_scopes_gives_token_without_scope(apis: Apis) -> None:
    person = _client(apis, "bare1", grant_types=("authorization_code", "refresh_token"))
    page = apis.world.ask(person, "bare1", scope="", resource=TOOL.identifier)
    assert ASKS in page.text
    answer = apis.world.exchange(person.allow(page).redirect_parameters["code"], "bare1")
    answer.ok()
    for _ in range(2):
        assert "scope" not in answer.json
        token = answer.json["access_token"]
        assert (claims(token)["aud"], claims(token)["scope"]) == (TOOL.identifier, "")
        assert apis.inspect(token, TOOL.identifier)["active"]
        answer = apis.world.refresh(answer.json["refresh_token"], "bare1")
        answer.ok()
    assert f"At Tool : {ASKS}" in person.open(f"{apis.world.auth}/account/apps").text


def test_code_and_refresh_token_give_tokens_only_for_allowed_apis(apis: Apis) -> None:
    person = UserAgent(apis.world.auth)
    query = urlencode(
        [
            ("response_type", "code"),
            ("client_id", "web1"),
            ("redirect_uri", CALLBACK),
            ("scope", "calendar:read"),
            *(("resource", api.identifier) for api in (CALENDAR, TOOL, FILES)),
        ]
    )
    page = person.open(f"{apis.world.auth}/oauth/authorize?{query}")
    page = person.sign_in(page, "alice", PASSWORD)
    assert f"At Tool : {ASKS}" in page.text
    assert f"At Files : {ASKS}" in page.text
    calendar, tool = apis.ids[CALENDAR.identifier], apis.ids[TOOL.identifier]
    response = person.allow(
        page, only=(f"{calendar}#calendar:read", f"{tool}#")
    ).redirect_parameters
    answer = apis.world.exchange(response["code"], resource=TOOL.identifier)
    answer.ok()
    assert claims(answer.json["access_token"])["aud"] == TOOL.identifier
    refresh = answer.json["refresh_token"]
    apis.world.refresh(refresh, resource=CALENDAR.identifier).ok()
    for resource in (FILES.identifier, apis.world.api):
        assert apis.world.refresh(refresh, resource=resource).json["error"] == "invalid_target"


def test_consent_to_a_scope_covers_its_api_until_the_api_is_refused(apis: Apis) -> None:
    person = _client(apis, "cov1", "openid")
    parameters = {"scope": "openid calendar:read", "resource": CALENDAR.identifier}
    assert "code" in person.allow(apis.world.ask(person, "cov1", **parameters)).redirect_parameters
    silent = {"scope": "openid", "resource": CALENDAR.identifier, "prompt": "none"}
    code = apis.world.ask(person, "cov1", **silent).redirect_parameters["code"]
    token = apis.world.exchange(code, "cov1").json["access_token"]
    assert (claims(token)["aud"], claims(token)["scope"]) == (CALENDAR.identifier, "openid")
    page = apis.world.ask(person, "cov1", **{**silent, "prompt": "consent"})
    assert "code" in person.allow(page, only=()).redirect_parameters
    for request in (silent, {**parameters, "prompt": "none"}):
        assert (
            apis.world.ask(person, "cov1", **request).redirect_parameters["error"]
            == "consent_required"
        )


def test_scope_declared_after_consent_does_not_replace_a_refused_scope(apis: Apis) -> None:
    person = _client(apis, "shift1", "openid")
    apis.change(FILES.identifier, scopes={"files:read": "see your files"}, clients=None)
    query = urlencode(
        [
            ("response_type", "code"),
            ("client_id", "shift1"),
            ("redirect_uri", CALLBACK),
            ("scope", "openid shared calendar:read files:read"),
            *(("resource", api.identifier) for api in (CALENDAR, FILES)),
        ]
    )
    page = person.open(f"{apis.world.auth}/oauth/authorize?{query}")
    calendar, files = apis.ids[CALENDAR.identifier], apis.ids[FILES.identifier]
    chosen = (f"{calendar}#calendar:read", f"{files}#files:read")
    location = _decide_only(person, page, *chosen)
    # Files declares the name that the user refused at Calendar: it stands before what was allowed.
    apis.change(FILES.identifier, scopes=FILES.scopes)
    try:
        page = person.open(location)
        assert not page.location, page.location
        assert "see your files" in page.text
        response = person.allow(page, only=chosen).redirect_parameters
        answer = apis.world.exchange(response["code"], "shift1", resource=FILES.identifier)
        assert answer.json["scope"] == "openid files:read"
    finally:
        apis.change(FILES.identifier, clients=FILES.clients)


def test_scope_required_after_the_page_was_shown_is_shown_first(apis: Apis) -> None:
    person = _client(apis, "req1", "openid", "notes:read", "notes:write")
    page = apis.world.ask(person, "req1", scope="openid notes:read notes:write")
    apis.require("req1", "notes:write")
    page = person.allow(page, only=("notes:read",))
    assert not page.location
    assert "always required" in page.text
    assert apis.world.exchange(person.allow(page).redirect_parameters["code"], "req1").json["scope"]

    grants = (DEVICE_CODE, "authorization_code")
    apis.world.client("req-tv", grant_types=grants, scopes=("notes:read", "notes:write"))
    at = {"path": "/oauth/device-authorization"}
    begun = apis.world.token("req-tv", **at).json
    page = person.open(begun["verification_uri_complete"])
    apis.require("req-tv", "notes:write")
    page = person.submit(page, "allow", boxes=("yes", "notes:read"))
    assert "Device connected" not in page.text
    assert "always required" in page.text


def test_stored_grants_keep_the_apis_that_they_had(apis: Apis) -> None:
    person = _client(apis, "old2", "openid", "email")
    query = urlencode({"client_id": "old2", "scope": "openid calendar:read"})
    both = urlencode([("resource", api.identifier) for api in (CALENDAR, TOOL)])
    at = f"{apis.world.auth}/oauth/authorize?response_type=code&redirect_uri={CALLBACK}&{query}"
    response = person.allow(person.open(f"{at}&{both}")).redirect_parameters
    refresh = apis.world.exchange(response["code"], "old2").json["refresh_token"]
    grant_id = refresh.partition(".")[2]
    calendar = apis.ids[CALENDAR.identifier]
    tool = {"resource": TOOL.identifier}

    def scope(text: str) -> None:
        sql = "UPDATE grants SET scope = :scope WHERE id = :id"
        apis.world.servers.write(lambda tx: tx.db.send(sql, scope=text, id=grant_id))

    def migrated(tx: Transaction) -> None:
        file = resources.files(schema) / "0039_before_access_to_apis.sql"
        for statement in split(file.read_text()):
            tx.db.send(statement)

    scope(f"{calendar}#calendar:read")
    apis.world.servers.write(migrated)
    assert apis.world.refresh(refresh, "old2", **tool).json["error"] == "invalid_target"
    scope("openid email")
    apis.world.servers.write(migrated)
    answer = apis.world.refresh(refresh, "old2", **tool)
    assert claims(answer.json["access_token"])["scope"] == "openid email"
    files = apis.world.refresh(refresh, "old2", resource=FILES.identifier)
    assert files.json["error"] == "invalid_target"


def _begin(apis: Apis, *named: ApiMetadata, client_id: str, scope: str = "") -> dict[str, str]:
    """A device authorization for these APIs."""
    form = [
        ("client_id", client_id),
        ("client_secret", secret_of(client_id)),
        *([("scope", scope)] if scope else []),
        *(("resource", api.identifier) for api in named),
    ]
    headers = {"content-type": "application/x-www-form-urlencoded"}
    at = "/oauth/device-authorization"
    return apis.world.post(at, urlencode(form), headers=headers).json


def _poll(apis: Apis, begun: dict[str, str], client_id: str, *resources: str) -> Answer:
    parameters = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"]}
    form = [("client_id", client_id), ("client_secret", secret_of(client_id)), *parameters.items()]
    form += [("resource", resource) for resource in resources]
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return apis.world.post("/oauth/token", urlencode(form), headers=headers)


def test_device_gets_tokens_for_the_apis_that_its_user_allowed(apis: Apis) -> None:
    grants = (DEVICE_CODE, "refresh_token", "authorization_code")
    person = _client(apis, "dev1", "openid", grant_types=grants)
    apis.world.client("dev2", scopes=("openid",), grant_types=grants)
    scope = "openid calendar:read"
    begun = _begin(apis, CALENDAR, TOOL, SIGNS_RSA, client_id="dev1", scope=scope)
    page = person.open(begun["verification_uri_complete"])
    for shown in (f"At Tool : {ASKS}", f"At Rsa : {ASKS}", "At Calendar : see your calendar"):
        assert shown in page.text
    unknown = (FILES.identifier, apis.world.api, "https://x.example", "x")
    for resource in unknown:
        assert _poll(apis, begun, "dev1", resource).json["error"] == "invalid_target"
    twice = (CALENDAR.identifier, TOOL.identifier)
    assert _poll(apis, begun, "dev1", *twice).json["error"] == "invalid_target"
    calendar, tool = apis.ids[CALENDAR.identifier], apis.ids[TOOL.identifier]
    chosen = ("yes", f"{calendar}#calendar:read", f"{tool}#")
    assert "Device connected" in person.submit(page, "allow", boxes=chosen).text
    assert _poll(apis, begun, "dev2", TOOL.identifier).json["error"] == "invalid_grant"
    token_answer = _poll(apis, begun, "dev1", TOOL.identifier)
    assert claims(token_answer.json["access_token"])["aud"] == TOOL.identifier
    refresh = token_answer.json["refresh_token"]
    again = apis.world.refresh(refresh, "dev1", resource=CALENDAR.identifier)
    assert again.json["scope"] == "openid calendar:read"
    for resource in (SIGNS_RSA.identifier, *unknown):
        answer = apis.world.refresh(refresh, "dev1", resource=resource)
        assert answer.json["error"] == "invalid_target"
    # What the device was allowed, the same app has in a browser.
    silent = {"scope": scope, "resource": CALENDAR.identifier, "prompt": "none"}
    assert "code" in apis.world.ask(person, "dev1", **silent).redirect_parameters


def test_device_gets_no_token_for_an_api_that_was_disabled(apis: Apis) -> None:
    grants = (DEVICE_CODE, "authorization_code")
    person = _client(apis, "dev3", "openid", grant_types=grants)
    assert _begin(apis, FILES, client_id="dev3")["error"] == "invalid_target"
    wider = _begin(apis, CALENDAR, client_id="dev3", scope="files:read")
    assert wider["error"] == "invalid_scope"
    before, allowed = (_begin(apis, CALENDAR, client_id="dev3") for _ in range(2))
    page = person.open(allowed["verification_uri_complete"])
    page = person.submit(page, "allow", boxes=("yes", f"{apis.ids[CALENDAR.identifier]}#shared"))
    assert "Device connected" in page.text
    for on in (False, True):
        apis.switch(CALENDAR.identifier, on=on)
        for begun in (before, allowed):
            assert _poll(apis, begun, "dev3").json["error"] == "invalid_target"
        page = person.open(before["verification_uri_complete"])
        assert "is invalid" in page.text
