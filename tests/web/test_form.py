"""Strict forms: the cases of Python's sharp edges and of the attacks on the token endpoint."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import Form, read_form, read_query


def refused(body: bytes, **kinds: tuple[str, ...]) -> str:
    """The description with which `body` is refused."""
    with pytest.raises(Refused) as caught:
        read_form(body, **kinds)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST
    return caught.value.refusal.description


def fields(form: Form) -> dict[str, str | None]:
    return {name: form.get(name) for name in form.names}


def test_a_form_gives_its_fields_decoded() -> None:
    form = read_form(b"grant_type=password&username=ada+l&password=%C3%BC%26%3D&scope=a%20b")
    assert fields(form) == {
        "grant_type": "password",
        "username": "ada l",
        "password": "ü&=",
        "scope": "a b",
    }


def test_an_empty_body_has_no_fields() -> None:
    assert len(read_form(b"")) == 0
    assert read_form(b"").get("code") is None
    assert read_form(b"").all("code") == ()


@pytest.mark.parametrize("body", [b"client_secret", b"client_secret=", b"&client_secret=&"])
def test_a_field_without_a_value_is_present_and_empty(body: bytes) -> None:
    form = read_form(body)
    assert form.get("client_secret") == ""
    assert "client_secret" in form


def test_a_semicolon_is_data_and_the_first_equals_sign_divides() -> None:
    assert fields(read_form(b"a=1;b=2&c==d")) == {"a": "1;b=2", "c": "=d"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"a=%", id="percent alone"),
        pytest.param(b"a=%zz", id="percent with no digits"),
        pytest.param(b"a=%4", id="half a percent"),
        pytest.param(b"a=%C3%A", id="half at the end"),
        pytest.param(b"%zz=a", id="in a name"),
        pytest.param(b"a=%ff", id="not UTF-8"),
        pytest.param(b"a=%c0%80", id="overlong"),
        pytest.param(b"a=%ed%a0%80", id="surrogate"),
        pytest.param(b"a=\x80", id="raw byte"),
        pytest.param("a=ü".encode(), id="raw UTF-8"),
        pytest.param(b"a=%00", id="NUL"),
        pytest.param(b"a=x%0d%0ay", id="line break"),
        pytest.param(b"a=%7f", id="delete"),
        pytest.param(b"a=%c2%85", id="C1 control"),
        pytest.param(b"a=1\r\n", id="raw line break"),
        pytest.param(b"a%0a=1", id="control in a name"),
        pytest.param(b"=1", id="no name"),
        pytest.param(b"%=1", id="broken name"),
    ],
)
def test_malformed_encodings_are_refused(body: bytes) -> None:
    refused(body)


def test_a_name_sent_twice_is_refused_and_named() -> None:
    assert refused(b"code=1&code=1") == "the parameter code was sent more than once"


def test_a_name_that_may_be_a_secret_is_not_repeated() -> None:
    secret = b"vk_cs_8Zq4T"
    assert "8Zq4T" not in refused(secret + b"&" + secret)


def test_names_sent_twice_are_compared_decoded() -> None:
    refused(b"code=1&c%6fde=2")


def test_a_name_that_may_repeat_gives_all_its_values() -> None:
    form = read_form(b"scope=a&x=1&scope=b&scope=c", multiple=("scope",))
    assert form.all("scope") == ("a", "b", "c")
    assert form.get("scope") == "a"
    assert form.all("x") == ("1",)
    assert form.names == ("scope", "x")


def test_an_opaque_field_may_hold_controls_but_not_broken_text() -> None:
    assert read_form(b"password=a%0a%00", opaque=("password",)).get("password") == "a\n\x00"
    refused(b"password=%ff", opaque=("password",))
    refused(b"username=%0a", opaque=("password",))


def test_hundred_fields_are_accepted_and_one_more_is_refused() -> None:
    assert len(read_form("&".join(f"a{n}=1" for n in range(100)).encode())) == 100
    refused("&".join(f"a{n}=1" for n in range(101)).encode())


def test_sixty_four_kibibytes_are_accepted_and_one_byte_more_is_refused() -> None:
    assert len(read_form(b"a=" + b"x" * 65_534).get("a") or "") == 65_534
    refused(b"a=" + b"x" * 65_535)


def test_a_query_is_read_by_the_same_rules() -> None:
    assert fields(read_query("a=1&b=%20")) == {"a": "1", "b": " "}
    assert len(read_query("")) == 0
    for text in ("a=1&a=2", "a=%ff", "a=ü", "a=%00", "a=" + "x" * 65_536):
        with pytest.raises(Refused):
            read_query(text)


def test_a_form_does_not_show_its_values() -> None:
    assert "canary" not in repr(read_form(b"password=canary"))


def test_a_refusal_does_not_carry_what_could_not_be_read() -> None:
    with pytest.raises(Refused) as caught:
        read_form(b"password=canary%ff")
    assert caught.value.__suppress_context__


@given(st.binary(max_size=200))
def test_any_input_is_parsed_or_refused(body: bytes) -> None:
    try:
        form = read_form(body)
    except Refused:
        return
    assert all(isinstance(form.get(name), str) for name in form.names)


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=20))
def test_form_encoded_by_the_standard_library_is_read_back(sent: dict[str, str]) -> None:
    assert fields(read_form(urlencode(sent).encode())) == sent
