"""Saying no: every code has a status, and what prints is the description alone."""

from http import HTTPStatus

from valetkey.kernel.refusal import STATUS, ErrorCode, Mistake, Refusal, Refused


def test_every_code_has_exactly_one_status() -> None:
    assert set(STATUS) == set(ErrorCode)
    assert all(HTTPStatus(status) and 400 <= status < 600 for status in STATUS.values())


def test_the_statuses_of_rfc_6749_and_6750_are_as_printed() -> None:
    assert STATUS[ErrorCode.INVALID_CLIENT] == 401
    assert STATUS[ErrorCode.INVALID_GRANT] == 400
    assert STATUS[ErrorCode.INVALID_TOKEN] == 401
    assert STATUS[ErrorCode.INSUFFICIENT_SCOPE] == 403


def test_a_refusal_prints_what_the_client_may_know_and_no_more() -> None:
    refusal = Refusal(ErrorCode.INVALID_GRANT, "the code is unknown", "code.replayed", "a", "b")
    assert str(Refused(refusal)) == "invalid_grant: the code is unknown"
    assert Refused(refusal).refusal is refusal


def test_a_mistake_names_its_setting() -> None:
    mistake = Mistake("must be above zero", "tokens.lifetime")
    assert (mistake.message, mistake.setting) == ("must be above zero", "tokens.lifetime")
    assert str(mistake) == "tokens.lifetime: must be above zero"
    assert str(Mistake("is missing")) == "is missing"
