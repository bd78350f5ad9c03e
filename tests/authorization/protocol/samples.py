"""A client and a good request of it, to be changed by tests of the rules."""

from valetkey.authorization.endpoints.authorize.checks import judge_client, judge_parameters
from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    ApplicationType,
    AuthenticationMethod,
    Client,
    ClientType,
    ProfileName,
)
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    RequestDraft,
    known_parameters,
    supported_prompts,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.tokens.apis import default_api
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

NOW = Instant(1_800_000_000)
API = "https://api.example"
KNOWN = ("read", "write", "notes:read", "client:read", *IDENTITY_SCOPES)
DEFAULT = default_api(API, "API", dict.fromkeys(KNOWN, "do it"), CLIENT_SCOPE)
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636 appendix B
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}

WEB = Client(
    id="web1",
    name="Notes Printer",
    description="Prints your notes",
    profile_name=ProfileName.CLASSIC,
    redirect_uris=("https://app.example/cb",),
    grant_types=frozenset({"authorization_code", "refresh_token"}),
    scope=Scope.of("read", "write", "notes:read", "client:read", "gone:read"),
    default_scope=Scope.of("notes:read"),
    requires_pkce=False,
    created_at=NOW,
    changed_at=NOW,
)
NATIVE = replace(
    WEB,
    id="nat1",
    name="Pocket Printer",
    type=ClientType.PUBLIC,
    application_type=ApplicationType.NATIVE,
    authentication_method=AuthenticationMethod.NONE,
    redirect_uris=("http://127.0.0.1/cb",),
)
IMPLICIT = replace(WEB, id="imp1", grant_types=frozenset({"implicit"}))


def parameters(**changed: str) -> dict[str, str]:
    """The parameters of a good request, changed; "-" leaves one out."""
    good = {
        "response_type": "code",
        "client_id": "web1",
        "redirect_uri": "https://app.example/cb",
        "scope": "read notes:read",
        "state": "xyz",
    }
    return {name: text for name, text in {**good, **changed}.items() if text != "-"}


def asked(client: Client = WEB, /, **changed: str) -> AuthorizationRequest:
    """The request that these parameters make; raises Refused where they are none."""
    request_parameters = known_parameters(parameters(**changed))
    draft = RequestDraft(
        request_parameters, client, supported_prompts(sign_up=True), targets=(DEFAULT,)
    )
    judge_client(draft)
    return judge_parameters(draft)
