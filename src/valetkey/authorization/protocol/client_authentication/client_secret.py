"""Client secrets in the body, the Basic header or, by profile, the query (RFC 6749 2.3.1)."""

import re
from base64 import b64decode
from binascii import Error
from urllib.parse import unquote_to_bytes

from valetkey.authorization.model.client import AuthenticationMethod, Client, ClientSecret
from valetkey.authorization.protocol.client_authentication.method import (
    Basic,
    ClientProof,
    Method,
    Presented,
    ProofInputs,
    claimed_id,
    not_proven,
)
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.secret import same
from valetkey.kernel.text import translatable

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 8_192
_IN_HEADER = "client_secret_basic"
_IN_BODY = "client_secret_post"


def read_basic(header: str | None) -> Basic | None:
    """Return the content of a Basic header; None without one, or if it names nothing (`:`).

    Refused with `invalid_client` unless it is strict base64 of UTF-8 with a colon.
    """
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        raise Refused(not_proven("header.scheme", "Basic", "another scheme"))
    if len(text) > _LONGEST or not text or _BASE64.fullmatch(text) is None:
        raise Refused(not_proven("header.base64", "strict base64", "something else"))
    try:
        decoded = b64decode(text, validate=True).decode("utf-8")
    except (Error, ValueError):
        raise Refused(not_proven("header.utf8", "UTF-8", "other bytes")) from None
    client_id, colon, secret = decoded.partition(":")
    if not colon or _CONTROL.search(decoded):
        raise Refused(not_proven("header.form", "<client_id>:<secret>", "something else"))
    if decoded == colon:
        return None
    return Basic(_form_decoded(client_id), _form_decoded(secret), secret)


def secret_purpose(client_id: str) -> str:
    """Return the purpose of a client's secret fingerprints, which binds them to the client."""
    return f"client_secret:{client_id}"


def _form_decoded(text: str) -> str:
    # RFC 6749 wants both form-encoded; what is not valid encoding was sent raw.
    if "%" not in text and "+" not in text:
        return text
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except ValueError:
        return text


def _recognises(presented: Presented) -> bool:
    by_header = presented.basic is not None and presented.basic.raw_client_secret != ""
    return by_header or "client_secret" in presented.parameters


def _proves(presented: Presented, client: Client, inputs: ProofInputs) -> ClientProof | Refusal:
    if presented.basic is not None:
        candidates = {presented.basic.client_secret, presented.basic.raw_client_secret}
    else:
        candidates = {presented.parameters.get("client_secret") or ""}
    live = client.live_secrets(presented.now)
    fitting = list[ClientSecret]()
    for text in sorted(candidates):
        print_ = inputs.fingerprints.fingerprint(secret_purpose(client.id), text)
        for secret in live:
            if same(print_, secret.fingerprint):
                fitting.append(secret)
    # Judged after the comparison: a refusal takes the same time for every client.
    if client.authentication_method != AuthenticationMethod.CLIENT_SECRET:
        return not_proven("secret.method", client.authentication_method, "a client secret")
    if not fitting:
        return not_proven("secret", f"one of the secrets of {client.id}", "another secret")
    registered = client.openid.token_endpoint_auth_method
    used = _IN_BODY if presented.basic is None else _IN_HEADER
    # A client that registered how it sends its secret is not exposed to other ways.
    if registered and registered != used:
        return not_proven("secret.place", registered, used)
    for secret in fitting:
        inputs.note_use(secret.id, presented.now)
    return ClientProof(secrets=tuple(fitting))


METHOD = Method(
    AuthenticationMethod.CLIENT_SECRET.value,
    (_IN_HEADER, _IN_BODY),
    translatable("Client secret"),
    _recognises,
    claimed_id,
    _proves,
    parameters=("client_secret",),
)
