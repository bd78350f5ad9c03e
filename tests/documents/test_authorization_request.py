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


def test_every_response_type_is_there_with_its_modes_and_grant_types() -> None:
    said = {
        row[0].strip("`"): (_codes(row[2]), _codes(row[3]), _codes(row[4]))
        for row in _rows("Response types")
    }
    assert said == {
        each.value: (
            {grant_type.value for grant_type in each.needs},
            {default_mode(each).value},
            {mode.value for mode in ResponseMode if mode.fits(each)} - {default_mode(each).value},
        )
        for each in ResponseType
    }


def test_every_parameter_that_changes_the_answer_is_there() -> None:
    said = set().union(*(_codes(row[0]) for row in _rows("Parameters")))
    only_accepted = {"acr_values", "claims_locales", "display"}
    assert said - only_accepted - {"request", "request_uri"} == set(PARAMETERS)
