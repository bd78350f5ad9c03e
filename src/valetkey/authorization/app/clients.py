"""Routes for clients and resource servers."""

from valetkey.authorization.actions.clients import Sectors
from valetkey.authorization.actions.records import Records
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.endpoints.authorize.authorize import Authorize
from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.endpoints.client.introspection import (
    IntrospectionEndpoint,
    RevocationEndpoint,
)
from valetkey.authorization.endpoints.client.metadata import (
    CHECK_SESSION,
    CheckSessionEndpoint,
    KeysEndpoint,
    MetadataEndpoint,
    StartEndpoint,
    check_session_frame,
)
from valetkey.authorization.endpoints.client.registration import (
    ManageEndpoint,
    RegisterEndpoint,
    RegistrationAnswers,
    RegistrationLimit,
)
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequestAuthentication,
)
from valetkey.authorization.endpoints.client.token import TokenEndpoint
from valetkey.authorization.endpoints.client.userinfo import (
    BearerRefusal,
    UserInfoEndpoint,
)
from valetkey.authorization.endpoints.resource_server import (
    IdentityEndpoint,
    ResourceServerAuthentication,
    RevocationsEndpoint,
    UsesEndpoint,
)
from valetkey.authorization.features import FEATURES, GRANT_RULES, GRANT_TYPES
from valetkey.authorization.grant_types import client_credentials, implicit
from valetkey.authorization.grant_types.grant_type import Authenticate, GrantType
from valetkey.authorization.layout.addresses import AUTHORIZE, START
from valetkey.authorization.protocol.authorization_response import ResponseMode, ResponseType
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.client_authentication import METHODS
from valetkey.authorization.protocol.metadata import ServerFacts
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.id_token import SUBJECT_TYPES
from valetkey.authorization.tokens.identity_assertion import IdentityAssertions
from valetkey.authorization.tokens.issue import TokenPolicy, TokenResponses
from valetkey.authorization.tokens.read import AccessTokenReader, AnswerCache
from valetkey.authorization.tokens.userinfo import UserInfo
from valetkey.config.paths import monitoring_token
from valetkey.config.settings import RegistrationMode
from valetkey.database.identity import Readiness
from valetkey.kernel.jose import jwe, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.health import Health
from valetkey.web.router import Body, Route
from valetkey.web.security_headers import ANY_ORIGIN, Cors, any_origin


def client_routes(
    foundation: Foundation,
    client_auth: ClientRequestAuthentication,
    directory: ClientDirectory,
    apis: ApiDirectory,
    claims: TokenClaims,
    assertions: IdentityAssertions,
    reader: AccessTokenReader,
    authenticate: Authenticate,
    minter: TokenResponses,
    refuse: ClientRefusal,
) -> tuple[Route, ...]:
    """Return the routes of tokens, introspection, revocation and keys."""
    key = foundation.keyring.fingerprint_key

    def token(*kinds: GrantType, elsewhere: str = "") -> TokenEndpoint:
        return TokenEndpoint(
            store=foundation.store,
            client_auth=client_auth,
            grant_types=kinds,
            authenticate=authenticate,
            policy=TokenPolicy.of(foundation.settings, foundation.own_scope),
            apis=apis,
            reader=reader,
            claims=claims,
            assertions=assertions,
            minter=minter,
            fingerprints=key,
            runtime=foundation.runtime,
            refuse=refuse,
            elsewhere=elsewhere,
            samples=foundation.samples,
        )

    revoke = RevocationEndpoint(foundation.store, client_auth, reader, key, refuse)
    introspect = IntrospectionEndpoint(
        foundation.store,
        client_auth,
        reader,
        apis,
        directory,
        claims,
        key,
        foundation.issuer,
        refuse,
        minter.id_tokens.subjects,
        AnswerCache(foundation.store),
        foundation.samples,
    )
    own = client_credentials.GRANT_TYPE
    return (
        _form("/oauth/token", token(*GRANT_TYPES), refuse),
        _form("/token", token(own, elsewhere=f"{foundation.issuer}/oauth/token"), refuse),
        _form("/oauth/revoke", revoke, refuse),
        _form("/oauth/introspect", introspect, refuse, cors=None),
        *(
            Route(path, {"GET": KeysEndpoint(foundation.keys)}, refuse, cors=any_origin)
            for path in ("/oauth/jwks", "/.well-known/jwks.json")
        ),
    )


def browser_routes(server: Server, minter: TokenResponses, refuse: Refuse) -> tuple[Route, ...]:
    """Return the routes to which apps send browsers without a page of their own."""
    authorize = Authorize(server, minter)
    frame = CheckSessionEndpoint(check_session_frame(server.cookies.state_name)).get
    start = StartEndpoint(server).get
    methods: dict[str, Endpoint] = {"GET": authorize.get, "POST": authorize.post}
    return (
        Route(AUTHORIZE, methods, refuse, Body.FORM, step=True),
        Route(CHECK_SESSION, {"GET": frame}, refuse),
        Route(START, {"GET": start}, refuse),
    )


def metadata_routes(
    foundation: Foundation,
    routes: tuple[Route, ...],
    server: Server,
    assertions: IdentityAssertions,
    refuse: ClientRefusal,
) -> tuple[Route, ...]:
    """Return the routes of the discovery document, which is derived from the other routes."""
    algorithms = (*Algorithm, mac.ALGORITHM)
    ours = tuple(algorithm.value for algorithm in foundation.keys.algorithms)
    brand, registration = foundation.settings.brand, foundation.settings.registration
    facts = ServerFacts(
        issuer=foundation.issuer,
        paths=frozenset(route.path for route in routes),
        scopes=tuple(foundation.scopes),
        grant_types=tuple(GRANT_RULES),
        response_types=tuple(ResponseType),
        response_modes=tuple(ResponseMode),
        prompts=tuple(server.prompts),
        subject_types=SUBJECT_TYPES,
        authentication_methods=tuple(n for method in METHODS for n in method.metadata_names),
        assertion_algorithms=algorithms,
        id_token_algorithms=(*ours, mac.ALGORITHM),
        introspection_algorithms=ours,
        request_object_algorithms=algorithms,
        encryption_algorithms=jwe.ALGORITHMS,
        content_encryptions=tuple(jwe.ENCRYPTIONS),
        policy_uri=brand.privacy_url,
        tos_uri=brand.terms_url,
        languages=tuple(language.tag for language in server.brand.languages),
        registration=registration.mode != RegistrationMode.OFF,
        metadata_documents=registration.metadata_documents,
        issues_assertions=assertions.issues,
        accepts_assertions=bool(assertions.trusted),
        implicit=registration.mode != RegistrationMode.OFF
        and implicit.NAME in registration.grant_types,
        of_features={
            name: value
            for feature in FEATURES
            for name, value in feature.metadata(foundation.issuer).items()
        },
    )
    metadata = MetadataEndpoint(foundation.store, facts)
    return tuple(
        Route(f"/.well-known/{name}", {"GET": metadata}, refuse, cors=any_origin)
        for name in ("openid-configuration", "oauth-authorization-server")
    )


def userinfo_route(
    foundation: Foundation,
    directory: ClientDirectory,
    claims: TokenClaims,
    reader: AccessTokenReader,
    minter: TokenResponses,
    refuse: ClientRefusal,
) -> Route:
    """Return the userinfo route (OpenID Connect Core section 5.3)."""
    id_tokens = minter.id_tokens
    endpoint = UserInfoEndpoint(
        foundation.store,
        directory,
        UserInfo(reader, id_tokens.subjects, claims),
        id_tokens.signer,
        foundation.issuer,
        AnswerCache(foundation.store),
        foundation.samples,
    )
    return Route(
        "/oauth/userinfo",
        {"GET": endpoint, "POST": endpoint},
        BearerRefusal(refuse, OPENID, ANY_ORIGIN),
        Body.FORM,
        hides_query=True,
        cors=any_origin,
    )


def resource_server_routes(
    foundation: Foundation,
    client_auth: ClientRequestAuthentication,
    apis: ApiDirectory,
    reader: AccessTokenReader,
    refuse: ClientRefusal,
) -> tuple[Route, ...]:
    """Return the routes that a resource server calls with its credential."""
    gate = ResourceServerAuthentication(client_auth, apis)
    feed = RevocationsEndpoint(foundation.store, gate, refuse, foundation.runtime.now)
    identity = IdentityEndpoint(
        store=foundation.store,
        gate=gate,
        reader=reader,
        records=Records(foundation.registrar("api"), foundation.accounts()),
        refuse=refuse,
    )
    uses = UsesEndpoint(foundation.store, gate, refuse, foundation.samples)
    routes = (
        Route("/oauth/revocations", {"GET": feed}, refuse, quiet=True),
        Route("/oauth/uses", {"POST": uses}, refuse, Body.JSON, hides_query=True, quiet=True),
    )
    if not foundation.settings.resource.enabled:
        return routes
    return (
        *routes,
        Route("/oauth/identity", {"POST": identity}, refuse, Body.JSON, hides_query=True),
    )


def registration_routes(foundation: Foundation, refuse: ClientRefusal) -> tuple[Route, ...]:
    """Return the routes of registration (RFC 7591, RFC 7592), served in every mode.

    Raises OperatorError if the settings name a scope that no user can grant.
    """
    settings = foundation.settings.registration
    registrar, store = foundation.self_registrar(), foundation.store
    answers = RegistrationAnswers(foundation.issuer, refuse)
    sectors, random = Sectors(foundation.outgoing), foundation.runtime.random
    limit = RegistrationLimit(store, registrar.fingerprints, settings.registrations_per_hour)
    register = RegisterEndpoint(store, registrar, sectors, settings.mode, limit, answers, random)
    manage = ManageEndpoint(store, registrar, sectors, limit, answers, random)
    one = {"GET": manage.read, "PUT": manage.replace, "DELETE": manage.remove}
    return (
        Route("/oauth/register", {"POST": register}, answers.refuse, Body.JSON, cors=any_origin),
        Route("/oauth/register/{client_id}", one, answers.refuse, Body.JSON, cors=any_origin),
    )


def health_routes(
    foundation: Foundation, refuse: ClientRefusal, failures: tuple[type[Exception], ...]
) -> tuple[Route, ...]:
    """Return the health endpoints: ready means that it can write and has a key to sign with."""
    readiness, keys = Readiness(foundation.store.engine, foundation.runtime.random), foundation.keys

    async def signing_key(now: Instant) -> None:
        # First, because it also detects that a lost database is back.
        await readiness.check_writable(now)
        await keys.refresh(now)
        keys.current(now)

    checks = {"database": readiness.check_writable, "signing_key": signing_key}
    token = monitoring_token(foundation.settings)
    return Health(checks, failures, token).routes(lambda _: refuse)


def _form(
    path: str, endpoint: Endpoint, refuse: ClientRefusal, cors: Cors | None = any_origin
) -> Route:
    return Route(path, {"POST": endpoint}, refuse, Body.FORM, hides_query=True, cors=cors)
