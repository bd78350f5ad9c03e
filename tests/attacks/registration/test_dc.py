"""DC: what an application that registers itself tries to be, and is not."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

from tests.attacks.registration.applicant import CALLBACK, GOOD, Applicant
from tests.cli.running import valetkey
from tests.cli.site import CONFIGURATION, serving
from valetkey.testing.browser import UserAgent

_INVALID = "invalid_client_metadata"


def test_dc_01_registration_is_closed(strangers: Applicant) -> None:
    with strangers.nothing_changes():
        for token in ("", "x", "vk_in_" + "a" * 49):
            body = json.dumps(GOOD).encode()
            strangers.post(body, token=token).refused(401, "invalid_token")
    discovered = requests.get(
        f"{strangers.servers.auth_url}/.well-known/openid-configuration", timeout=60
    )
    assert "registration_endpoint" not in discovered.json()


@pytest.mark.parametrize(
    "said",
    [
        {"token_endpoint_auth_method": "none", "client_secret": "s" * 40},
        {"token_endpoint_auth_method": "client_secret_basic", "type": "public"},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": ""},
        {"token_endpoint_auth_method": 5},
        {"token_endpoint_auth_method": "none", "grant_types": ["client_credentials"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
    ],
    ids=repr,
)
def test_dc_03_contradicting_authentication_method_is_refused_or_replaced(
    anybody: Applicant, said: dict[str, object]
) -> None:
    if said["token_endpoint_auth_method"] in {"", "tls_client_auth"}:
        # Nothing was said, or nothing that is known: the usual method, stored as it is told.
        assert anybody.registered(**said)["token_endpoint_auth_method"] == "client_secret_basic"
        return
    with anybody.nothing_changes():
        anybody.register(**said).refused(400, _INVALID)


def test_dc_03_registration_response_equals_the_stored_record(anybody: Applicant) -> None:
    for method in ("none", "client_secret_post", "client_secret_jwt", "client_secret_basic"):
        record = anybody.registered(token_endpoint_auth_method=method)
        assert record["token_endpoint_auth_method"] == method
        assert ("client_secret" in record) is (method != "none")
        read = anybody.manage(record, "GET").json
        assert read == {name: record[name] for name in record if name != "client_secret"}


def test_dc_05_registration_cannot_grant_privileges(anybody: Applicant) -> None:
    privileges = dict.fromkeys(("skip_consent", "trusted", "admin", "first_party"), True)
    more = {"profile": "classic", "required_scopes": [], "disabled_at": None, "own_scopes": ["x"]}
    record = anybody.registered(**privileges, **more)
    assert not {*privileges, *more} & record.keys()
    person = UserAgent(anybody.servers.auth_url)
    anybody.servers.register_user("alice", "correct horse battery staple")
    parameters = {
        "response_type": "code",
        "client_id": record["client_id"],
        "redirect_uri": CALLBACK,
        "scope": "openid notes:read",
        "state": "xyz",
    }
    page = person.open(f"{anybody.servers.auth_url}/oauth/authorize?{urlencode(parameters)}")
    page = person.sign_in(page, "alice", "correct horse battery staple")
    # Consent is asked for, and says who vouches for the app: nobody.
    assert page.status == 200
    assert "has not been reviewed" in re.sub(r"\s+", " ", page.text)
    assert _used(anybody, record["client_id"]) == 0
    assert person.allow(page).redirect_parameters["code"]
    assert _used(anybody, record["client_id"]) == 1
    with anybody.nothing_changes():
        for grant_type in ("password", "urn:ietf:params:oauth:grant-type:token-exchange"):
            anybody.register(grant_types=[grant_type]).refused(400, _INVALID)
    for scope in ("openid write", "openid client:write", "openid *", "openid openid\nwrite"):
        assert anybody.registered(scope=scope)["scope"] == "openid"
    kept = anybody.registered(grant_types=["authorization_code", "password"])["grant_types"]
    assert kept == ["authorization_code"]


def _used(anybody: Applicant, client_id: str) -> int:
    """Whether anything was ever issued for the client."""
    row = anybody.servers.write(
        lambda tx: tx.db.row("SELECT used FROM registrations WHERE client_id = :id", id=client_id)
    )
    assert row is not None
    return int(row[0])


def test_dc_07_registration_token_manages_only_its_own_enabled_client(anybody: Applicant) -> None:
    mine, other = anybody.registered(), anybody.registered()
    off = anybody.registered(client_name="Off")
    asks = {**GOOD, "client_id": mine["client_id"]}
    with anybody.nothing_changes():
        for token in (other["registration_access_token"], mine["client_secret"], "x"):
            for method, body in (("GET", None), ("PUT", asks), ("DELETE", None)):
                anybody.manage(mine, method, body, token).refused(401, "invalid_token")
        stolen = {**GOOD, "client_id": other["client_id"]}
        anybody.manage(mine, "PUT", stolen).refused(400, _INVALID)
    assert anybody.manage(off, "DELETE").status == 204
    with anybody.nothing_changes():
        revived = {**GOOD, "client_id": off["client_id"]}
        for method, body in (("GET", None), ("PUT", revived), ("DELETE", None)):
            anybody.manage(off, method, body).refused(401, "invalid_token")


def test_dc_09_software_statements_are_not_trusted(anybody: Applicant) -> None:
    unsigned = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2V2aWwudGVzdCJ9."
    with anybody.nothing_changes():
        anybody.register(software_statement=unsigned).refused(400, "unapproved_software_statement")
        wrongs: tuple[object, ...] = ("", "x", 5, {}, ["a.b.c"])
        for wrong in wrongs:
            answer = anybody.register(software_statement=wrong)
            answer.refused(400, "invalid_software_statement")


_FIELDS = ("redirect_uris", "response_types", "grant_types", "contacts", "request_uris",
           "post_logout_redirect_uris", "default_acr_values")  # fmt: skip


@pytest.mark.parametrize("field", _FIELDS)
def test_dc_13_malformed_and_overlong_arrays_are_refused(anybody: Applicant, field: str) -> None:
    code = "invalid_redirect_uri" if field == "redirect_uris" else _INVALID
    many = [f"https://app.example/{number}" for number in range(10_000)]
    with anybody.nothing_changes():
        wrongs: tuple[object, ...] = (
            [None],
            [CALLBACK, None],
            [5],
            [[CALLBACK]],
            [{}],
            [True],
            {"0": CALLBACK},
            "text",
            5,
            many,
        )
        for wrong in wrongs:
            anybody.register(**{field: wrong}).refused(400, code)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"null", b'{"client_name":"\\ud800"}', b"\xff", b"[" * 5_000],
    ids=repr,
)
def test_dc_malformed_bodies_are_refused(anybody: Applicant, body: bytes) -> None:
    with anybody.nothing_changes():
        anybody.post(body).refused(400, _INVALID)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_dc_single_use_token_registers_one_client_across_processes(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = ""
    if engine == "postgres":
        database = f'database = "{request.getfixturevalue("postgres_url")}"\n'
    text = CONFIGURATION.format(workers=2).replace("[resource]", f"{database}[resource]")
    text += '\n[registration]\nmode = "token"\n'
    (tmp_path / "valetkey.toml").write_text(text, encoding="utf-8")
    with serving(tmp_path) as site, ThreadPoolExecutor(16) as crowd:
        token = valetkey("registration", "invite", here=tmp_path).out.strip()

        def attempt(_: int) -> int:
            answer = requests.post(
                f"{site.authorization}/oauth/register",
                json=GOOD,
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
            )
            return answer.status_code

        statuses = sorted(crowd.map(attempt, range(64)))
    assert statuses == [201] + [401] * 63
    shown = valetkey("client", "list", "--json", here=tmp_path).json
    assert len([client for client in shown if client["self_registered"]]) == 1
