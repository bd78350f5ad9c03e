"""Limits of what a user reads of themselves stand where a developer looks for them."""

from pathlib import Path

from tests.architecture.tree import ROOT
from valetkey.authorization.actions.account.removal import MOST_EVENTS, MOST_GRANTS
from valetkey.authorization.actions.records import MOST_LISTED
from valetkey.resource.objects.identity import AUTHORIZATIONS

_GUIDE = Path(ROOT, "docs/how-to/people/leave-and-take-data-along.md")
_ENDPOINTS = Path(ROOT, "docs/reference/endpoints.md")


def test_limits_of_lists_and_of_the_export_are_documented() -> None:
    # The OpenAPI document derives its sentence from this number.
    assert AUTHORIZATIONS.newest == MOST_LISTED
    assert f"newest {MOST_LISTED:,} authorizations" in _ENDPOINTS.read_text()
    guide = _GUIDE.read_text()
    assert f"the newest {MOST_GRANTS:,} of each" in guide
    assert f"the newest {MOST_EVENTS:,} audit log entries" in guide
