"""Passwords that everybody tries first are known, and hardly any other is taken for one."""

import pytest

from valetkey.authorization.authentication.password import (
    FILE,
    LARGEST,
    forms,
    is_well_known,
    prints,
)


@pytest.mark.parametrize(
    "text",
    [
        "password",
        "12345678",
        "PassWord",
        "password1",
        "Password2026!",
        "qwertyuiop",
        "iloveyou",
        "liverpool99!",
        "ｐａｓｓｗｏｒｄ",
        "aaaaaaaaaaaa",
        "xyxyxyxyxy",
        "zq9zq9zq9zq9",
    ],
)
def test_common_passwords_are_well_known(text: str) -> None:
    assert is_well_known(text)


@pytest.mark.parametrize(
    "text",
    [
        "correct horse battery staple",
        "a good long password",
        "tiny green lamp",
        "xkq-29vv-plo1",
        "Grüße aus Übersee",
        "\ud800 lone surrogate",
        "",
        "x" * 7,
    ],
)
def test_random_password_is_not_well_known(text: str) -> None:
    assert not is_well_known(text)


def test_false_positives_of_the_common_password_filter_are_rare() -> None:
    made_up = [f"{number * 7919:x} kettle {number}" for number in range(20_000)]
    assert sum(map(is_well_known, made_up)) < 8


def test_common_password_filter_is_sorted_and_small() -> None:
    data = FILE.read_bytes()
    assert len(data) <= 4 * LARGEST < 400_000
    fingerprints = [data[at : at + 4] for at in range(0, len(data), 4)]
    assert fingerprints == sorted(set(fingerprints))
    assert prints(forms("password"))[0].to_bytes(4, "big") in set(fingerprints)
