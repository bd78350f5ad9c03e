"""How a gate says no, and what it says about its API."""

import json

from tests.sdk.adapters.stories import AUDIENCE, gate
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.sdk import NO_TOKEN, Gate, Issuer


def test_challenge_names_the_first_of_several_scopes() -> None:
    headers = dict(gate().deny(NO_TOKEN, ("notes:read", "read")).headers)
    assert 'scope="notes:read"' in headers["www-authenticate"]
    assert headers["cache-control"] == "no-store"


def test_unreachable_issuer_is_reported_as_503_without_a_challenge() -> None:
    away = Refusal(ErrorCode.TEMPORARILY_UNAVAILABLE, "away", retry_after=2)
    denial = gate().deny(away)
    assert denial.status == 503
    assert dict(denial.headers)["retry-after"] == "2"
    assert "www-authenticate" not in dict(denial.headers)


def test_problem_details_for_another_issuer_have_no_type_url() -> None:
    at = Gate(Issuer("https://as.example", "https://as.example/keys"), audience="notes")
    assert "type" not in json.loads(at.deny(NO_TOKEN).body)
    assert at.metadata_path == ""
    assert "resource_metadata" not in dict(at.deny(NO_TOKEN).headers)["www-authenticate"]


def test_metadata_lists_the_scopes_that_routes_require() -> None:
    at = gate()
    at.needs(["notes:read", "write"])
    document = json.loads(at.metadata())
    assert (document["resource"], document["resource_name"]) == (AUDIENCE, "Notes")
    assert document["scopes_supported"] == ["write", "notes:read"]
