"""Who is calling."""

import pytest

from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.sdk.caller import Caller


def _caller(subject: str, client: str = "printer") -> Caller:
    scope = Scope.parse("read notes:write")
    return Caller(subject, client, scope, "at", "gr", Instant(1), Instant(100))


def test_a_client_that_acts_for_itself_is_no_user() -> None:
    assert _caller("1001").user == "1001"
    assert _caller("printer").user is None


def test_caller_whose_subject_is_its_client_id_has_no_user() -> None:
    assert _caller("1001", client="1001").user is None


def test_any_one_of_several_scopes_is_sufficient() -> None:
    caller = _caller("1001")
    assert caller.allows("notes:read", "read")
    assert not caller.allows("notes:read", "write")
    assert not caller.allows()


def test_caller_is_not_live_at_the_second_of_expiry() -> None:
    caller = _caller("1001")
    assert caller.is_live(Instant(99))
    assert not caller.is_live(Instant(100))


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({}, ()),
        ({"roles": ["editor", "reader"]}, ("editor", "reader")),
        ({"roles": "editor"}, ()),
        ({"roles": ["editor", 1]}, ()),
        ({"roles": None}, ()),
    ],
)
def test_roles_claim_must_be_a_list_of_strings(
    claims: dict[str, object], roles: tuple[str, ...]
) -> None:
    assert replace(_caller("1001"), claims=claims).roles == roles
