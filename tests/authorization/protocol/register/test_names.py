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
def test_names_in_every_script_are_accepted(name: str) -> None:
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
def test_reserved_and_deceptive_names_are_refused(name: str) -> None:
    assert name_fault(name, _OURS)


def test_empty_server_name_reserves_no_name() -> None:
    assert name_fault("Printer", ("", "!")) == ""
