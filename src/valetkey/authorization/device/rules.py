"""The device authorization grant, polled until the user decided (RFC 8628 sections 3.4, 3.5)."""

from valetkey.authorization.device.model import (
    DEVICE_CODE,
    DeviceCode,
    DeviceCodeRedeemed,
    DeviceCodeSpoiled,
    DeviceCodeState,
)
from valetkey.authorization.device.storage import DeviceCodes
from valetkey.authorization.grant_types.authorization_code import begin_grant, still_allowed
from valetkey.authorization.grant_types.grant_type import (
    GrantType,
    TokenRequest,
    target_among,
)
from valetkey.authorization.model.client import GrantTypeName
from valetkey.authorization.model.grant import CodePayload, Liveness, require_live
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.protocol.resource import choose, still
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix, well_formed
from valetkey.kernel.text import translatable


def client_limit(client_id: str) -> str:
    """Return the rate limit that counts the codes of a client until they are allowed."""
    return f"device_codes_of:{client_id}"


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Redeem an allowed device code once; until then, tell the client to poll again.

    Another client's code is unknown to this one. A second use of a redeemed code is refused but
    does not end the grant: unlike an authorization code it never passes through a browser, so a
    second use is a device that lost the response.
    """
    text = request.required(DEVICE_CODE)
    if not well_formed(Prefix.DEVICE_CODE, text):
        return _unknown("malformed")
    code = DeviceCodes.of(tx).find(request.fingerprints.fingerprint(DEVICE_CODE, text))
    if code is None:
        return _unknown("unknown")
    if code.client_id != request.client.id:
        return _unknown("another client's")
    if problem := _client_ended(code, request):
        return problem
    # Reported at the first poll, not after the user has decided.
    requested = choose(request.resources, request.apis.granted(tx, code.apis, request.client))
    if isinstance(requested, Refusal):
        return requested
    if code.state is not DeviceCodeState.ALLOWED or code.has_expired(request.now):
        return _not_allowed(tx, code, request)
    return _exchange(tx, code, request)


def _exchange(tx: Transaction, code: DeviceCode, request: TokenRequest) -> Granted | Refusal:
    allowed = CodePayload.decode(code.payload)
    tx.users.hold(allowed.uid)
    if not DeviceCodes.of(tx).redeem(code.fingerprint, request.now):
        return _not_allowed(tx, replace(code, state=DeviceCodeState.REDEEMED), request)
    presence = tx.presences.find_by_id(allowed.session_id, code.client_id)
    # A session that was deleted has ended; a disabled account is reported first.
    user = tx.users.find(allowed.uid) if presence is None else presence.user
    api = target_among(tx, request, allowed.apis, still(allowed.granted, request.client))
    problem = still_allowed(tx, allowed, request, presence, user)
    if problem or user is None or isinstance(api, Refusal):
        refusal = problem or (api if isinstance(api, Refusal) else _unknown("without user"))
        event = DeviceCodeSpoiled(code.client_id, code.grant_id, refusal.check)
        tx.events.add(event, request.now)
        return refusal
    granted = begin_grant(tx, request, code.grant_id, allowed, user, api)
    token = (granted.token_id, str(granted.scope), granted.api.identifier)
    redeemed = DeviceCodeRedeemed(user.uid, code.client_id, code.grant_id, *token)
    tx.events.add(redeemed, request.now)
    return granted


def _client_ended(code: DeviceCode, request: TokenRequest) -> Refusal | None:
    client = request.client
    liveness = Liveness(
        client_disabled=client.disabled_at is not None,
        grant_revoked=code.client_generation != client.generation,
    )
    return require_live(liveness, request.now)


def _not_allowed(tx: Transaction, code: DeviceCode, request: TokenRequest) -> Refusal:
    if code.state is DeviceCodeState.REDEEMED:
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the device code was already used",
            "device_code.used",
            "a device code not used before",
            "a used device code",
        )
    if code.state is DeviceCodeState.DENIED:
        return Refusal(
            ErrorCode.ACCESS_DENIED,
            "the user denied the request",
            "device_code.denied",
            status=_BAD_REQUEST,
        )
    if code.has_expired(request.now):
        return Refusal(
            ErrorCode.EXPIRED_TOKEN,
            "the device code has expired; request a new one",
            "device_code.expired",
            f"before {code.expires_at}",
            f"at {request.now}",
        )
    if DeviceCodes.of(tx).poll(code.fingerprint, request.now):
        return Refusal(
            ErrorCode.AUTHORIZATION_PENDING,
            "the user has not decided yet; poll again after the interval",
            "device_code.pending",
        )
    return Refusal(
        ErrorCode.SLOW_DOWN,
        "the client polls too often; wait 5 seconds longer between requests from now on",
        "device_code.slow_down",
        f"{code.poll_interval} seconds between polls",
        "fewer",
        status=_BAD_REQUEST,
    )


def _unknown(received: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the device code is unknown or belongs to another client",
        "device_code.unknown",
        "a device code issued to this client",
        received,
    )


_BAD_REQUEST = 400
"""The status of errors in RFC 6749 section 5.2, which RFC 8628 section 3.5 uses."""

GRANT_TYPE = GrantType(
    GrantTypeName.DEVICE_CODE.value,
    redeem,
    rules=GrantTypeRules(
        issues_refresh_tokens=True,
        label=translatable(
            "Device authorization: the app also runs on devices without a browser; users sign in "
            "on another device, with a code"
        ),
    ),
)
