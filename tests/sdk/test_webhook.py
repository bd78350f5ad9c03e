"""Webhooks as receivers verify them: signature, age, rotation."""

import pytest

from valetkey.kernel.webhook import webhook_signature
from valetkey.sdk import InvalidWebhook, verify_webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = b'{"type":"user.disabled","timestamp":"2026-01-02T03:04:05Z","data":{"uid":17}}'
AT = 1_700_000_000


def _headers(secret: str = SECRET, *, at: int = AT) -> dict[str, str]:
    return {
        "Webhook-Id": "ev_1",
        "webhook-timestamp": str(at),
        "WEBHOOK-SIGNATURE": webhook_signature(secret, "ev_1", at, BODY),
    }


def test_signature_is_that_of_the_standardwebhooks_library() -> None:
    signature = webhook_signature(
        SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
    )
    assert signature == "v1,pZN3CVESPCUuihODVQNgWONmlcH9xCz9b1ykcK53XqY="


def test_authentic_message_is_returned_also_during_rotation() -> None:
    message = verify_webhook(_headers(), BODY, SECRET, now=AT + 300)
    assert (message.id, message.type, message.data) == ("ev_1", "user.disabled", {"uid": 17})
    both = _headers() | {
        "WEBHOOK-SIGNATURE": f"v1a,x {_headers(OTHER)['WEBHOOK-SIGNATURE']} "
        f"{_headers()['WEBHOOK-SIGNATURE']}"
    }
    for secrets in ((SECRET,), (OTHER,), (SECRET, OTHER)):
        assert verify_webhook(both, BODY, *secrets, now=AT).id == "ev_1"


@pytest.mark.parametrize(
    ("changed", "body", "now"),
    [
        ({"Webhook-Id": "ev_2"}, BODY, AT),
        ({"Webhook-Id": ""}, BODY, AT),
        ({"webhook-timestamp": str(AT + 1)}, BODY, AT),
        ({"webhook-timestamp": f" {AT}"}, BODY, AT),
        ({"webhook-timestamp": "٣"}, BODY, AT),
        ({"WEBHOOK-SIGNATURE": "v1,"}, BODY, AT),
        ({"WEBHOOK-SIGNATURE": "v1,é"}, BODY, AT),
        ({"WEBHOOK-SIGNATURE": "v1,x " * 17}, BODY, AT),
        ({"WEBHOOK-SIGNATURE": _headers(OTHER)["WEBHOOK-SIGNATURE"]}, BODY, AT),
        ({}, BODY + b" ", AT),
        ({}, BODY, AT + 301),
        ({}, BODY, AT - 301),
    ],
)
def test_changed_or_old_message_is_rejected(changed: dict[str, str], body: bytes, now: int) -> None:
    with pytest.raises(InvalidWebhook):
        verify_webhook(_headers() | changed, body, SECRET, now=now)


def test_secret_is_not_in_the_error_about_it() -> None:
    with pytest.raises(ValueError, match="24 to 64 bytes") as caught:
        webhook_signature("whsec_c2hvcnQ=", "ev_1", AT, BODY)
    assert "c2hvcnQ" not in str(caught.value)
