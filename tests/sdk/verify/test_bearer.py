"""Where an access token may stand."""

import pytest

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.sdk.caller import LONGEST, NO_TOKEN, read_bearer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
@pytest.mark.parametrize("token", ["a", "a.b-c_d~e+f/g==", "x" * LONGEST])
def test_one_token_after_one_space_is_read(scheme: str, token: str) -> None:
    assert read_bearer([f"{scheme} {token}"]).reveal() == token


@pytest.mark.parametrize(
    "fields", [[], [""], ["Basic YTpi"], ["Bearer2 x"], ["x"], ["DPoP x"], [" Bearer x"]]
)
def test_other_schemes_count_as_no_token(fields: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        read_bearer(fields)
    assert refused.value.refusal == NO_TOKEN


@pytest.mark.parametrize(
    "field",
    [
        "Bearer",
        "Bearer ",
        "Bearer  x",
        "Bearer x ",
        "Bearer x y",
        "Bearer x,y",
        "Bearer x, Bearer y",
        "Bearer\tx",
        "Bearer x\n",
        'Bearer "x"',
        "Bearer ===",
        "Bearer x=y",
        "Bearer \u0430",
        "Bearer,x",
        "Bearer " + "x" * (LONGEST + 1),
    ],
)
def test_anything_else_after_bearer_is_malformed(field: str) -> None:
    with pytest.raises(Refused) as refused:
        read_bearer([field])
    assert refused.value.refusal.check == "authorization.malformed"


def test_two_authorization_headers_are_refused() -> None:
    with pytest.raises(Refused) as refused:
        read_bearer(["Bearer x", "Bearer x"])
    assert refused.value.refusal.code is ErrorCode.INVALID_REQUEST


def test_repr_of_a_bearer_token_hides_it() -> None:
    assert "hidden" not in repr(read_bearer(["Bearer hidden"]))
