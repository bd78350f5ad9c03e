"""Saying no: every code has a status, and what prints is the description alone."""

from http import HTTPStatus

from valetkey.kernel.refusal import ErrorCode, OperatorError, Refusal, Refused


def test_every_code_has_exactly_one_status() -> None:
    assert all(HTTPStatus(code.status) and 400 <= code.status < 600 for code in ErrorCode)
    assert ErrorCode("invalid_token").status == 401


def test_the_statuses_of_rfc_6749_and_6750_are_as_printed() -> None:
    assert ErrorCode.INVALID_CLIENT.status == 401
    assert ErrorCode.INVALID_GRANT.status == 400
    assert ErrorCode.INVALID_TOKEN.status == 401
    assert ErrorCode.INSUFFICIENT_SCOPE.status == 403


def test_refusal_prints_only_what_the_client_may_know() -> None:
    refusal = Refusal(ErrorCode.INVALID_GRANT, "the code is unknown", "code.replayed", "a", "b")
    assert str(Refused(refusal)) == "invalid_grant: the code is unknown"
    assert Refused(refusal).refusal is refusal


def test_operator_error_names_its_setting() -> None:
    mistake = OperatorError("must be above zero", "tokens.lifetime")
    assert (mistake.message, mistake.setting) == ("must be above zero", "tokens.lifetime")
    assert str(mistake) == "tokens.lifetime: must be above zero"
    assert str(OperatorError("is missing")) == "is missing"
