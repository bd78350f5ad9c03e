"""The rules for what a person's record says: each claim has a form, and nothing reorders text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.authorization.actions.users import claim_faults
from valetkey.authorization.model.user import TEXT_CLAIMS, Address, StandardClaims
from valetkey.kernel.replace import replace

NOTHING = StandardClaims.NOTHING
GOOD = [
    ("given_name", "Адa"),
    ("family_name", "O'Neill-Śmith"),
    ("nickname", "😀"),
    ("profile", "https://ada.example/"),
    ("picture", "https://ada.example/a.png?size=9"),
    ("website", "https://ada.example"),
    ("gender", "female"),
    ("birthdate", "1815-12-10"),
    ("birthdate", "1815"),
    ("birthdate", "0000-02-29"),
    ("birthdate", "2000-02-29"),
    ("zoneinfo", "Europe/London"),
    ("zoneinfo", "America/Argentina/Ushuaia"),
    ("zoneinfo", "UTC"),
    ("locale", "en"),
    ("locale", "zh-Hant-TW"),
    ("phone_number", "+442079460000"),
    ("phone_number", "+123456789012345"),
]
BAD = [
    ("given_name", " Ada"),
    ("given_name", "A\x00da"),
    ("family_name", "a\nb"),
    ("middle_name", "x" * 201),
    ("nickname", "a\u202eb"),
    ("nickname", "\u2066a"),
    ("nickname", "\ud800"),
    ("gender", "a\tb"),
    ("profile", "http://ada.example/"),
    ("profile", "https://"),
    ("picture", "javascript:alert(1)"),
    ("picture", "data:text/html,x"),
    ("website", 'https://ada.example/"onload='),
    ("website", "https://ada.example\\@evil.example"),
    ("website", "https://ada.example/" + "x" * 2_000),
    ("birthdate", "10.12.1815"),
    ("birthdate", "1815-12"),
    ("birthdate", "1815-13-01"),
    ("birthdate", "2001-02-29"),
    ("birthdate", "0000"),
    ("birthdate", "0000-00-00"),
    ("birthdate", "1815-12-10\n"),
    ("birthdate", "१८१५"),
    ("zoneinfo", "Europe/Atlantis"),
    ("zoneinfo", "../../etc/passwd"),
    ("zoneinfo", "/etc/localtime"),
    ("zoneinfo", "Europe"),
    ("zoneinfo", "Europe/"),
    ("zoneinfo", "zone.tab"),
    ("zoneinfo", "tzdata"),
    ("zoneinfo", "Europe/London\n"),
    ("locale", "e"),
    ("locale", "en_US"),
    ("locale", "en-"),
    ("locale", "en-" + "x" * 9),
    ("phone_number", "442079460000"),
    ("phone_number", "+0442079460000"),
    ("phone_number", "+44 20 7946 0000"),
    ("phone_number", "+1234567890123456"),
    ("phone_number", "+44１23456"),
]


def _wrong(claims: StandardClaims) -> list[str]:
    return [fault.field for fault in claim_faults(claims)]


def _with(name: str, text: str) -> StandardClaims:
    return replace(NOTHING, **{name: text})  # type: ignore[arg-type]


def test_empty_claims_are_valid() -> None:
    assert _wrong(NOTHING) == []


@pytest.mark.parametrize(("name", "text"), GOOD)
def test_valid_claim_values_are_accepted(name: str, text: str) -> None:
    assert _wrong(_with(name, text)) == []


@pytest.mark.parametrize(("name", "text"), BAD)
def test_invalid_claim_values_are_refused_under_the_claims_name(name: str, text: str) -> None:
    assert _wrong(_with(name, text)) == [name]


def test_every_claim_has_a_rule() -> None:
    others = {"phone_number_verified", "address"}
    assert set(StandardClaims.__struct_fields__) == {*TEXT_CLAIMS, *others}


def test_missing_phone_number_cannot_be_verified() -> None:
    assert _wrong(replace(NOTHING, phone_number_verified=True)) == ["phone_number_verified"]


def test_only_two_parts_of_an_address_may_have_several_lines() -> None:
    for part in Address.__struct_fields__:
        address = Address(**{part: "12 St James's Square\nLondon"})
        lines = part in {"formatted", "street_address"}
        wrong = [] if lines else [f"address/{part}"]
        assert _wrong(replace(NOTHING, address=address)) == wrong
    for text in ("a\r\nb", "a\n\u202eb", "x\n" * 501):
        assert _wrong(replace(NOTHING, address=Address(formatted=text))) == ["address/formatted"]


@given(st.sampled_from(TEXT_CLAIMS), st.text(max_size=40))
def test_accepted_claim_values_are_printable_and_stored_unchanged(name: str, text: str) -> None:
    claims = _with(name, text)
    if not _wrong(claims):
        assert text.isprintable()
        assert StandardClaims.decode(claims.encode()) == claims
