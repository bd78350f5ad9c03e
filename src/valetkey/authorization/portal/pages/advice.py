"""Advice for developers about failed requests, by the name of the check that failed."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class Advice(Struct, frozen=True):
    """The explanation of a check and how to fix it.

    `page` is the app's page to fix it on, or "".
    """

    looked_at: str
    fix: str
    page: str = ""


_AGAIN = "Start again with a new authorization request."

ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        "redirect_uri.unknown": Advice(
            "Whether redirect_uri exactly matches a registered redirect URI, including scheme, "
            "host, port, path and trailing slash.",
            "Register the redirect URI that the app sends, or change the app to send a registered"
            " one.",
            "settings",
        ),
        "redirect_uri.missing": Advice(
            "Whether the request has a redirect_uri. Only an app with exactly one redirect URI "
            "can omit it.",
            "Send redirect_uri with every authorization request.",
            "settings",
        ),
        "authorize.client": Advice(
            "Whether client_id belongs to a registered, enabled app.",
            "Compare the client_id with the one on the overview of this app.",
        ),
        "response_type.missing": Advice(
            "Whether the request has a response_type.",
            "Send response_type=code.",
            "start",
        ),
        "response_type.unknown": Advice(
            "Whether the response_type exists.", "Send response_type=code.", "start"
        ),
        "response_type.forbidden": Advice(
            "Whether this app is registered for the requested response type.",
            "Send response_type=code. Tokens through the browser require the implicit grant, "
            "which only an administrator can enable.",
            "settings",
        ),
        "response_mode.unknown": Advice(
            "Whether response_mode is supported.",
            "Leave response_mode out; the default is right for nearly every app.",
        ),
        "scope.wider": Advice(
            "Whether everything in scope is registered for this app.",
            "Remove the scopes listed as received, or register them for the app.",
            "settings",
        ),
        "scope.openid": Advice(
            "Whether a request for an ID token has the scope openid.",
            "Add openid to scope.",
            "settings",
        ),
        "pkce.missing": Advice(
            "Whether the request has a code_challenge: this app requires one, or a nonce with the"
            " scope openid if it is confidential.",
            "Generate a code_verifier for each request and send its S256 challenge. Current OAuth"
            " libraries have an option for PKCE.",
            "start",
        ),
        "pkce.alone": Advice(
            "Whether code_challenge_method comes with a code_challenge.",
            "Send both or neither.",
            "start",
        ),
        "pkce.method": Advice(
            "Whether the code challenge was made by S256.",
            "Send code_challenge_method=S256; plain is not accepted.",
            "start",
        ),
        "pkce.malformed": Advice(
            "Whether code_challenge is the base64url of a SHA-256 digest, without padding.",
            "Hash the bytes of the code_verifier, not its hexadecimal form, and remove the "
            "trailing equals sign.",
            "start",
        ),
        "nonce.missing": Advice(
            "Whether a request for an ID token through the browser has a nonce.",
            "Send a new nonce with every request.",
        ),
        "nonce.used": Advice(
            "Whether this nonce was used before: each can be used once in 24 hours.",
            "Generate a new nonce for every request instead of a fixed one.",
        ),
        "state.long": Advice(
            "Whether the state can be returned unchanged.",
            "Store long values in your app's session, and send only a key in state.",
        ),
        "resource.unknown": Advice(
            "Whether resource names an API that this app can get tokens for.",
            "Send one of the expected identifiers, exactly as shown. An API can be limited to"
            " certain apps.",
        ),
        "resource.several": Advice(
            "How many APIs the request names.",
            "An access token is for one API: send resource once to the token endpoint.",
        ),
        "resource.ended": Advice(
            "Whether an API for which access was granted still allows this app.",
            "The API was disabled or removed. Ask its operator. " + _AGAIN,
        ),
        "interaction.denied": Advice(
            "The decision of the user.",
            "The user denied access. Explain what your app needs and let them try again.",
        ),
        "interaction.login_required": Advice(
            "Whether the user is signed in: the request had prompt=none.",
            "This is the expected response to a silent attempt. Send the user here without "
            "prompt=none.",
        ),
        "interaction.consent_required": Advice(
            "Whether the user has allowed this before: the request had prompt=none.",
            "This is the expected response to a silent attempt. Send the user here without "
            "prompt=none.",
        ),
        "client.secret": Advice(
            "Whether client_secret is an active secret of this app.",
            "Compare the last characters with the secrets listed here. A rotated secret expires"
            " at the end of its overlap period.",
            "secrets",
        ),
        "client.secret.place": Advice(
            "Whether the secret was sent with the registered authentication method.",
            "Use the expected method: client_secret_basic is the Authorization header, "
            "client_secret_post the body.",
            "settings",
        ),
        "client.two_proofs": Advice(
            "Whether the app authenticated with exactly one method.",
            "Send client ID and secret once: in the Authorization header or in the body.",
            "start",
        ),
        "client.disabled": Advice(
            "Whether this app is enabled.",
            "An administrator of this service disabled the app. Contact them.",
        ),
        "client.too_many_failures": Advice(
            "How many failed attempts came from this IP address.",
            "Wait, then send the correct secret. Correct credentials are never delayed.",
            "secrets",
        ),
        "client.public": Advice(
            "Whether the app is confidential; public apps cannot send this request.",
            "Send the request from your server, with an app that has a secret.",
        ),
        "grant_type.not_registered": Advice(
            "Whether this app is registered for the grant type.",
            "Use one of the expected grant types, or register the app for this one.",
            "settings",
        ),
        "request.query_profile": Advice(
            "Whether the parameters were sent in the body.",
            "Send them in the body of the POST, never in the URL: URLs are logged. Rotate secrets"
            " that were sent in a URL.",
            "secrets",
        ),
        "code.unknown": Advice(
            "Whether the code was issued to this app.",
            "Use the value of code from the redirect, URL-decoded once. Codes of another app or "
            "environment are not valid.",
            "try",
        ),
        "code.expired": Advice(
            "Whether the code is still valid: it expires after a minute.",
            "Exchange the code as soon as it arrives. " + _AGAIN,
        ),
        "code.replayed": Advice(
            "Whether the code is used for the first time. Its tokens were revoked, because a "
            "reused code may have been stolen.",
            "Exchange each code once. Common causes are retries, two workers, and a page that is "
            "loaded twice.",
        ),
        "code.redirect_uri": Advice(
            "Whether the token request names the same redirect_uri as the authorization request.",
            "Send the same string in both requests.",
            "settings",
        ),
        "code.verifier": Advice(
            "Whether the code_verifier fits the code_challenge of the authorization request.",
            "Store the code_verifier in the user's session and send it unchanged. Use a "
            "separate one for each tab.",
        ),
        "code.consent": Advice(
            "Whether the user still allows what the code was issued for.",
            "The user revoked access in the meantime. " + _AGAIN,
        ),
        "refresh_token.unknown": Advice(
            "Whether the refresh token was issued to this app and is still valid.",
            "Store the newest refresh token of every response. " + _AGAIN,
        ),
        "refresh_token.idle": Advice(
            "Whether the refresh token was used recently.",
            "The token was unused for too long and expired. " + _AGAIN,
        ),
        "refresh_token.reused": Advice(
            "Whether the refresh token is the newest. An older one was reused, so the whole "
            "authorization was revoked: the token may have been stolen.",
            "Store the new refresh token before you use the new access token, and let one worker"
            " refresh at a time. " + _AGAIN,
        ),
        "userinfo.token": Advice(
            "Whether the access token is valid.",
            "Refresh it, or send the user here again.",
        ),
        "userinfo.scope": Advice(
            "Whether the access token has the scope openid.",
            "Ask for openid in the authorization request.",
            "settings",
        ),
    }
)
"""The advice by the name of the check that failed."""

_FAMILIES: Mapping[str, Advice] = MappingProxyType(
    {
        "client": Advice(
            "Whether the request comes from this app.",
            "Send the credentials in the way that this app is registered for. A signed assertion"
            " must be fresh, for this server, and signed by a key that is registered.",
            "settings",
        ),
        "live": Advice(
            "Whether everything behind the token still lives: the person, their session, what they"
            " allowed, and the app.",
            "The user revoked access, or it expired. " + _AGAIN,
        ),
        "refresh_token": Advice(
            "Whether the refresh token may be used in this way.",
            "Ask for no more than was allowed, and use the newest refresh token.",
        ),
        "interaction": Advice(
            "Whether the user could be asked for a decision.",
            "Nothing is wrong with your app. " + _AGAIN,
        ),
        "registration": Advice(
            "Whether the registration may be read or changed like this.",
            "Compare the registration token and the fields with the documentation.",
        ),
    }
)


def advice_on(check: str) -> Advice | None:
    """Return the advice for this check; None if the error code's explanation is sufficient."""
    return ADVICE.get(check) or _FAMILIES.get(check.partition(".")[0])
