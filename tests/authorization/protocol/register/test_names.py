"""Names that apps give themselves."""

import pytest

from valetkey.authorization.protocol.register.self_registration import RESERVED, name_fault

_OURS = (*RESERVED, "Acme Accounts")


@pytest.mark.parametrize(
    "name",
    [
        "Printer",
        "Notes Printer 2",
        "Drucker für Ärzte",
        "Принтер",
        "印刷屋",
        "طابعة",
        "A&B <C>",
        "Εκτύπωση",
    ],
)
def test_names_of_every_script_are_fine(name: str) -> None:
    assert name_fault(name, _OURS) == ""


@pytest.mark.parametrize(
    "name",
    [
        "Valetkey",
        "val et-key",
        "ＶＡＬＥＴＫＥＹ",
        "The Valetkey Security Team",
        "Acme accounts",
        "acme  Accounts!",
        "System",
        "Gооgle",
        "Аpple",
        "Printеr",
        "a\u200db",
        "a\ufeffb",
        "a\u20ddb",
        "\ue000",
    ],
    ids=ascii,
)
def test_names_that_people_would_take_for_another_are_not(name: str) -> None:
    assert name_fault(name, _OURS)


def test_a_server_without_a_name_reserves_none_by_it() -> None:
    assert name_fault("Printer", ("", "!")) == ""
