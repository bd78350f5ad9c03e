"""The page on the authorization request knows every type, mode and parameter, and no others."""

import re

from tests.architecture.tree import ROOT
from valetkey.authorization.protocol.authorization_request import PARAMETERS
from valetkey.authorization.protocol.authorization_response import (
    ResponseMode,
    ResponseType,
    default_mode,
)

PAGE = (ROOT / "docs/reference/authorization-request.md").read_text()


def _rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0].split("|---|\n")[1]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _codes(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_every_response_type_is_listed_with_its_modes_and_grant_types() -> None:
    response_types = {
        row[0].strip("`"): (_codes(row[2]), _codes(row[3]), _codes(row[4]))
        for row in _rows("Response types")
    }
    assert response_types == {
        response_type.value: (
            {grant_type.value for grant_type in response_type.needs},
            {default_mode(response_type).value},
            {mode.value for mode in ResponseMode if mode.fits(response_type)}
            - {default_mode(response_type).value},
        )
        for response_type in ResponseType
    }


def test_every_parameter_with_an_effect_is_listed() -> None:
    parameters = set().union(*(_codes(row[0]) for row in _rows("Parameters")))
    only_accepted = {"acr_values", "claims_locales", "display"}
    assert parameters - only_accepted - {"request", "request_uri"} == set(PARAMETERS)
