"""The flow tried in the browser, step by step, and the hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.developer import HEAD, ISSUER, head
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.client import (
    AuthenticationMethod,
    ClientType,
    GrantTypeName,
    client_without_rights,
)
from valetkey.authorization.portal.pages.try_it import (
    ApiChoice,
    Parameter,
    QuickstartPage,
    Token,
    TryAnswerPage,
    TryApiPage,
    TryPage,
    TryRequestPage,
    TryTokensPage,
    TryUserInfoPage,
    choice_lines,
)
from valetkey.authorization.portal.rules.quickstart import Quickstarts
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

_ODD = '</code><script>alert(1)</script>\u202e\' onload="x" {{ 7*7 }} %(name)s'
_APIS = (
    ApiChoice(
        "https://calendar.example.com/api",
        "<b>Calendar",
        (("api_1#calendar:read", "calendar:read"), ("api_1#calendar:write", "calendar:write")),
    ),
    ApiChoice("https://tool.example.com/mcp", "Tool", ()),
)
_CALLBACK = f"{ISSUER}/developer/try/callback"
_OWN = "https://app.example/callback"
_STATE = "v1.q0xvCw1nYqkOa2LnPQxrU0Qe3bGm9sZ7kT4hVd8yXw5"
_REFERENCE = "/developer/apps/app_7f3k9qxm/failures/VK-7F3K-9QXM-2RTD"
_CLAIMS = """\
{
  "iss": "https://auth.example",
  "sub": "1001",
  "aud": "https://api.example",
  "scope": "openid notes:read",
  "exp": 1800003600
}"""


def _request(redirect_uri: str) -> tuple[Parameter, ...]:
    return (
        Parameter("response_type", "code"),
        Parameter("client_id", HEAD.client_id),
        Parameter("redirect_uri", redirect_uri),
        Parameter("scope", "openid notes:read"),
        Parameter("state", f"{_STATE[:12]}…"),
        Parameter("nonce", "bD9zYw0vZQ1lqQ8mXh3kTA"),
        Parameter("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        Parameter("code_challenge_method", "S256"),
    )


_URL = (
    f"{ISSUER}/oauth/authorize?response_type=code&client_id=app_7f3k9qxm"
    "&redirect_uri=https%3A%2F%2Fapp.example%2Fcallback&scope=openid+notes%3Aread"
    f"&state={_STATE}&nonce=bD9zYw0vZQ1lqQ8mXh3kTA"
    "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
)
_EXCHANGE = (
    Parameter("grant_type", "authorization_code"),
    Parameter("code", "vk_ac_7Hq2mX…"),
    Parameter("redirect_uri", _OWN),
    Parameter("code_verifier", "dBjftJeZ4CVP…"),
    Parameter("client_id", HEAD.client_id),
)
_ANSWER = (
    Parameter("code", "vk_ac_7Hq2mX…"),
    Parameter("state", f"{_STATE[:12]}…"),
    Parameter("iss", ISSUER),
)
_NO = (
    Parameter("error", "invalid_grant"),
    Parameter("error_description", "the code was already used; what it gave has been revoked"),
    Parameter("error_uri", f"{ISSUER}/errors/invalid_grant"),
    Parameter("reference", "VK-7F3K-9QXM-2RTD"),
)


def _quickstart(chosen: str, *, missing: bool = False) -> QuickstartPage:
    uri = "http://localhost:3000/callback"
    client = replace(
        client_without_rights("app_7f3k9qxmB2", Instant(0)),
        type=ClientType.CONFIDENTIAL,
        authentication_method=AuthenticationMethod.CLIENT_SECRET,
        grant_types=frozenset({GrantTypeName.AUTHORIZATION_CODE}),
        redirect_uris=() if missing else (uri,),
        scope=Scope.of("notes:read") if missing else Scope.of("openid", "profile"),
    )
    quickstarts = Quickstarts(ISSUER, "", (Algorithm.RS256,), bytes)
    lines = choice_lines(HEAD.at("quickstart"), quickstarts.choices_of(client), chosen)
    return QuickstartPage(
        HEAD, ISSUER, _ADDRESSES, lines, quickstarts.quickstart(client, chosen), "/v2/"
    )


_ADDRESSES = (("Token endpoint", f"{ISSUER}/oauth/token"),)


def trial_examples(hostile: AskingApp) -> Mapping[str, PageContext]:
    """Each step, as it goes well and as it does not."""
    odd = (Parameter(_ODD, _ODD),)
    scopes = ("openid", "email", "notes:read", "notes:write")
    again = TryRequestPage(
        HEAD,
        HEAD.at("try/answer"),
        _STATE,
        _URL,
        _request(_OWN),
        pasted=True,
        redirect_uri=_OWN,
        landed="https://app.example/callback?error=access_denied",
        fault="This is not the response to this request: its state is missing or different.",
    )
    return {
        "quickstart": _quickstart("python"),
        "quickstart_unregistered": _quickstart("nextjs", missing=True),
        "quickstart_preset": _quickstart("grafana", missing=True),
        "quickstart_program": _quickstart("program-curl"),
        "quickstart_none": QuickstartPage(head(hostile), ISSUER, _ADDRESSES, can_be_tried=False),
        "try": TryPage(HEAD, HEAD.at("try"), _CALLBACK, (_OWN,), scopes, _APIS),
        "try_nothing_chosen": TryPage(
            HEAD, HEAD.at("try"), _CALLBACK, (), scopes[:1], nothing_chosen=True
        ),
        "try_impossible": TryPage(HEAD, HEAD.at("try"), _CALLBACK, (), (), possible=False),
        "try_request": TryRequestPage(
            HEAD, HEAD.at("try/answer"), "", _URL, _request(_CALLBACK), False, _CALLBACK
        ),
        "try_request_again": again,
        "try_answer": TryAnswerPage(
            HEAD,
            HEAD.at("try/exchange"),
            _STATE,
            "vk_ac_1",
            _ANSWER,
            _EXCHANGE,
            needs_secret=True,
        ),
        "try_answer_no": TryAnswerPage(
            HEAD, HEAD.at("try/exchange"), _STATE, "", _NO, (), False, _REFERENCE
        ),
        "try_answer_hostile": TryAnswerPage(
            head(hostile), "/developer", _STATE, "", odd, (), needs_secret=False
        ),
        "try_tokens": TryTokensPage(
            HEAD,
            200,
            (*_EXCHANGE, Parameter("client_secret", "…")),
            (
                Parameter("token_type", "Bearer"),
                Parameter("expires_in", "3600"),
                Parameter("scope", "openid notes:read"),
            ),
            (
                Token("access_token", "eyJhbGciOiJF…", _CLAIMS, "https://api.example.com"),
                Token("refresh_token", "vk_rt_9sLk2P…"),
                Token("id_token", "eyJhbGciOiJF…", _CLAIMS),
            ),
            token="v1.abc",
            for_userinfo=True,
            for_api=True,
        ),
        "try_tokens_none": TryTokensPage(HEAD, 400, _EXCHANGE, _NO, explained=_REFERENCE),
        "try_userinfo": TryUserInfoPage(HEAD, 200, _CLAIMS, f"{ISSUER}/oauth/userinfo"),
        "try_api": TryApiPage(
            HEAD,
            "eyJhbGciOiJF.eyJpc3MiOiJo.b2xkIHRva2Vu",
            "https://api.example.com/v2/",
            9,
            (("openid", "see who you are"), ("notes:read", "read your notes")),
        ),
        "try_api_hostile": TryApiPage(head(hostile), "vk_at_1", "/v2/", 1, ((_ODD, "read"),)),
        "try_userinfo_hostile": TryUserInfoPage(head(hostile), 200, "{}", ISSUER),
    }
