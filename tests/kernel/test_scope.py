"""Scopes: the characters of RFC 6749 section 3.3, one space between names, sets in order."""

import pytest

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.scope import LONGEST, MOST, Scope


def test_scope_names_keep_their_order_without_duplicates() -> None:
    scope = Scope.parse("write read write notes:read")
    assert scope.names == ("write", "read", "notes:read")
    assert str(scope) == "write read notes:read"
    assert len(scope) == 3
    assert list(scope) == ["write", "read", "notes:read"]


def test_the_empty_scope_is_false() -> None:
    assert not Scope.parse("")
    assert str(Scope()) == ""
    assert Scope.of("read")


# str.split() would split at most of these, and so see other names than the one that was sent.
@pytest.mark.parametrize(
    "text",
    [
        " ",
        "read ",
        " read",
        "read  write",
        "read\twrite",
        "read\nwrite",
        "read\n",
        "a\u00a0b",
        "a\x1cb",
        "a\u2003b",
        'a"b',
        "a\\b",
        "a\x00b",
        "a\x7f",
        "é",
        "\ud800",
        "read,\u200bwrite",
    ],
)
def test_malformed_scope_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        Scope.parse(text)
    assert refused.value.refusal.code is ErrorCode.INVALID_SCOPE
    assert refused.value.refusal.check == "scope.malformed"


def test_scope_with_too_many_or_too_long_names_is_refused() -> None:
    assert len(Scope.parse(" ".join(f"n{i}" for i in range(MOST)))) == MOST
    for text, check in (
        (" ".join(f"n{i}" for i in range(MOST + 1)), "scope.many"),
        ("a" * (LONGEST + 1), "scope.long"),
    ):
        with pytest.raises(Refused) as refused:
            Scope.parse(text)
        assert refused.value.refusal.check == check
    assert len(str(Scope.parse("a" * LONGEST))) == LONGEST


@pytest.mark.parametrize("names", [("",), ("a b",), ("a", ""), ("a\n",)])
def test_malformed_names_in_a_list_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        Scope.of(*names)
    assert refused.value.refusal.check == "scope.malformed"


def test_scopes_compare_as_sets_and_combine_in_order() -> None:
    requested, granted = Scope.of("c", "a", "b"), Scope.of("a", "c")
    assert requested & granted == Scope.of("a", "c")
    assert (requested & granted).names == ("c", "a")
    assert (granted | requested).names == ("a", "c", "b")
    assert (requested - granted).names == ("b",)
    assert granted <= requested
    assert not requested <= granted
    assert Scope.of("a", "b") == Scope.of("b", "a")
    assert hash(Scope.of("a", "b")) == hash(Scope.of("b", "a"))
    assert Scope.of("a") != Scope.of("b")
    assert Scope.of("a") != "a"
    assert "a" in granted
    assert "b" not in granted
