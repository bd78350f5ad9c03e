"""The public conformance suite scim2-tester, against a real server on each engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import CheckResult, Status, check_server

from tests.support.operations import run_operation
from valetkey.authorization.scim.operations import (
    CREATE_SCIM_CREDENTIAL,
    ScimCredentialMade,
    ScimCredentialWanted,
)
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.testing.server import Servers

_FINE = {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE}


def test_scim_conformance_suite_passes(tmp_path: Path, database_url: str) -> None:
    own = AuthorizationSettings(database=database_url)
    settings = Settings(authorization=own, features=(ScimSettings(enabled=True),))
    with Servers(tmp_path, settings=settings, with_resource=False) as servers:
        results = _check(servers)
    wrong = [f"{result.title}: {result.reason}" for result in results if result.status not in _FINE]
    # Searching users and groups at once is optional, and answered with 501.
    assert all(text.startswith("search_with_attributes: POST /.search") for text in wrong), wrong
    assert len(results) > 70


def _check(servers: Servers) -> Sequence[CheckResult]:
    made = run_operation(servers.settings, CREATE_SCIM_CREDENTIAL, ScimCredentialWanted("Suite"))
    assert isinstance(made, ScimCredentialMade)
    headers = {"authorization": f"Bearer {made.token}"}
    with Client(base_url=f"{servers.auth_url}/scim/v2", headers=headers) as http:
        client = SyncSCIMClient(http)
        client.discover()
        _suggest(client.get_resource_model("User"))
        return check_server(client)


def _suggest(user: Any) -> None:
    """Say which values fit where the suite would send any text, or a value that is not primary."""
    examples = {
        (user, "timezone"): "Europe/London",
        (user, "locale"): "en-GB",
        (user.get_field_root_type("phone_numbers"), "value"): "+442079460000",
        **{
            (user.get_field_root_type(name), "primary"): True
            for name in ("emails", "phone_numbers", "addresses")
        },
    }
    for (model, name), value in examples.items():
        model.model_fields[name].examples = [value]
