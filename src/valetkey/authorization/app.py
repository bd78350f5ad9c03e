"""The composition root: everything of the authorization server is wired here, and only here."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from valetkey.authorization.client_authentication.authenticate import (
    ClientAuthentication,
    Failures,
)
from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.client_authentication.registry import METHODS
from valetkey.authorization.deeds.foundation import Foundation, lay_foundation
from valetkey.authorization.deeds.logout import SignOut
from valetkey.authorization.deeds.password_change import PasswordChange
from valetkey.authorization.deeds.records import Records
from valetkey.authorization.endpoints.account.routes import routes as account_routes
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.endpoints.client.answer import ClientRefusal, preflight
from valetkey.authorization.endpoints.client.door import Door
from valetkey.authorization.endpoints.client.introspection import IntrospectionEndpoint
from valetkey.authorization.endpoints.client.metadata import KeysEndpoint, MetadataEndpoint
from valetkey.authorization.endpoints.client.revocation import RevocationEndpoint
from valetkey.authorization.endpoints.client.token import TokenEndpoint
from valetkey.authorization.endpoints.health import HealthEndpoint, live
from valetkey.authorization.endpoints.openid.bearer import BearerRefusal
from valetkey.authorization.endpoints.openid.routes import routes as logout_routes
from valetkey.authorization.endpoints.openid.userinfo import ANY_ORIGIN, UserInfoEndpoint
from valetkey.authorization.endpoints.registration.routes import routes as registration_routes
from valetkey.authorization.endpoints.resource_server.gate import ResourceServerGate
from valetkey.authorization.endpoints.resource_server.identity import IdentityEndpoint
from valetkey.authorization.endpoints.resource_server.revocations import RevocationsEndpoint
from valetkey.authorization.endpoints.visitor.refuse import RefuseWithPage
from valetkey.authorization.endpoints.visitor.routes import routes as visitor_routes
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.grant_types import client_credentials, grant_types
from valetkey.authorization.grant_types.grant_type import GrantType
from valetkey.authorization.model.register.client import CLIENT_SCOPE
from valetkey.authorization.pages.brand import Brand
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.metadata import ServerFacts
from valetkey.authorization.protocol.response_type import ResponseMode, ResponseType
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.tokens.id_token import IdTokens
from valetkey.authorization.tokens.id_token_hint import IdTokenHints
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.logout_token import LogoutTokens
from valetkey.authorization.tokens.mint import Minter
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.authorization.tokens.signed import ClientSigner
from valetkey.authorization.tokens.signing_keys import NoSigningKey
from valetkey.authorization.tokens.subject import SUBJECT_TYPES, Subjects
from valetkey.authorization.tokens.userinfo import UserInfo
from valetkey.authorization.upkeep.deliver import Courier
from valetkey.authorization.upkeep.upkeep import Upkeep
from valetkey.config.settings import RegistrableGrantType, RegistrationMode, Settings
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.jose import jwe, jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.scope import Scope
from valetkey.web.offload import Busy, Offload
from valetkey.web.router import App, Body, Route

_UNAVAILABLE = (DatabaseUnavailable, Overloaded, Busy, NoSigningKey)


async def build(settings: Settings, runtime: Runtime, scopes: Mapping[str, str]) -> App:
    """The server. `prepare` ran before, here or in another process.

    Raises Mistake where the keyring does not open what the database keeps sealed.
    """
    foundation = lay_foundation(settings, runtime, scopes)
    store, keyring = foundation.store, foundation.keyring
    decisions = DecisionQueue(runtime.random)
    refuse = ClientRefusal(foundation.issuer, decisions)
    directory = ClientDirectory(store)
    offload = Offload(os.cpu_count() or 1, settings.passwords.queue)
    door = _door(foundation, directory)
    minter = _minter(foundation)
    upkeep = Upkeep(
        store,
        decisions,
        foundation.keys,
        runtime,
        settings.log.keep_events,
        foundation.self_registrar().sweeps,
    )
    courier = _courier(foundation)
    try:
        foundation.outgoing.prepare()
        await foundation.keep_keys(runtime.now())
    except BaseException:
        offload.close()
        await store.engine.close()
        raise

    async def close() -> None:
        await courier.close()
        with contextlib.suppress(*_UNAVAILABLE):
            await upkeep.flush()
        offload.close()
        await store.engine.close()

    passwords = PasswordSignIn(
        store=store,
        offload=offload,
        key=keyring.fingerprint_key,
        passwords=settings.passwords,
        limits=settings.limits,
        random=runtime.random,
    )
    served = grant_types(replace(passwords, door="password_grant").authenticate)
    site = _site(foundation, directory, decisions)
    sign_out = SignOut(foundation.issuer, store, site.subjects, courier.at_once)
    password_change = PasswordChange(
        replace(passwords, door="account"),
        foundation.accounts(),
        settings.sessions,
        runtime.random,
    )
    reader = _reader(foundation)
    refuse_with_page = RefuseWithPage(decisions, site.brand)
    routes = (
        *visitor_routes(site, passwords, minter, refuse_with_page),
        *logout_routes(site, sign_out, refuse_with_page),
        *account_routes(site, sign_out, password_change, refuse_with_page),
        *_client_routes(foundation, door, reader, served, minter, refuse),
        _userinfo_route(foundation, directory, reader, minter, refuse),
        *registration_routes(foundation, refuse),
        *_resource_server_routes(foundation, door, reader, refuse),
        *_health_routes(foundation, refuse),
    )
    return App(
        (*_metadata_routes(foundation, routes, served, refuse), *routes),
        runtime=runtime,
        refuse=replace(refuse, keeps_path=False),
        hosts=frozenset({urlsplit(foundation.issuer).netloc, settings.authorization.listen}),
        unavailable=_UNAVAILABLE,
        trusted_proxies=settings.authorization.trusted_proxies,
        tls_proxy=settings.authorization.tls_proxy,
        hsts=foundation.issuer.startswith("https://"),
        background=(upkeep.write_decisions, upkeep.sweep, upkeep.keep_keys, courier.deliver),
        on_close=close,
    )


def _signer(foundation: Foundation) -> ClientSigner:
    return ClientSigner(
        foundation.keys,
        foundation.shared_secrets,
        foundation.client_keys,
        foundation.runtime.random,
    )


def _minter(foundation: Foundation) -> Minter:
    id_tokens = IdTokens(
        foundation.issuer,
        _signer(foundation),
        Subjects(foundation.keyring.fingerprint_key),
        foundation.settings.tokens.id_token_lifetime,
    )
    return Minter(foundation.issuer, foundation.keys, id_tokens)


def _courier(foundation: Foundation) -> Courier:
    tokens = LogoutTokens(
        foundation.issuer,
        _signer(foundation),
        Subjects(foundation.keyring.fingerprint_key),
    )
    return Courier(foundation.store, tokens, foundation.outgoing.post_form, foundation.runtime)


def policy_of(settings: Settings, own_scope: Scope = CLIENT_SCOPE) -> TokenPolicy:
    """How long things work, for which API, and what of it is a client's own."""
    tokens = settings.tokens
    return TokenPolicy(
        audience=settings.resource.url,
        access_token_lifetime=tokens.access_token_lifetime,
        implicit_token_lifetime=min(tokens.implicit_token_lifetime, tokens.access_token_lifetime),
        refresh_token_idle_lifetime=tokens.refresh_token_idle_lifetime,
        refresh_token_lifetime=tokens.refresh_token_lifetime,
        refresh_reuse_window=tokens.refresh_reuse_window,
        own_scope=own_scope,
    )


def _door(foundation: Foundation, directory: ClientDirectory) -> Door:
    issuer = foundation.issuer
    return Door(
        foundation.store,
        ClientAuthentication(
            directory,
            foundation.keyring.fingerprint_key,
            Failures.a_minute(foundation.settings.limits.client_failures),
            foundation.client_keys,
            foundation.shared_secrets,
        ),
        audiences=(
            issuer,
            f"{issuer}/oauth/token",
            f"{issuer}/token",
            f"{issuer}/oauth/introspect",
            f"{issuer}/oauth/revoke",
        ),
    )


def _site(foundation: Foundation, directory: ClientDirectory, decisions: DecisionQueue) -> Site:
    settings, brand = foundation.settings, foundation.settings.brand
    return Site(
        issuer=foundation.issuer,
        store=foundation.store,
        directory=directory,
        keyring=foundation.keyring,
        sessions=settings.sessions,
        policy=policy_of(settings, foundation.own_scope),
        code_lifetime=settings.tokens.authorization_code_lifetime,
        brand=Brand(brand.name, brand.logo_url, brand.accent, brand.terms_url, brand.privacy_url),
        decisions=decisions,
        random=foundation.runtime.random,
        scopes=foundation.asked_of_people,
        requests=RequestObjects(
            foundation.issuer,
            foundation.client_keys,
            foundation.shared_secrets,
            foundation.outgoing,
        ),
        hints=IdTokenHints(foundation.issuer, foundation.keys, foundation.shared_secrets),
    )


def _client_routes(
    foundation: Foundation,
    door: Door,
    reader: AccessTokenReader,
    served: tuple[GrantType, ...],
    minter: Minter,
    refuse: ClientRefusal,
) -> tuple[Route, ...]:
    key = foundation.keyring.fingerprint_key

    def token(kinds: tuple[GrantType, ...], elsewhere: str = "") -> TokenEndpoint:
        return TokenEndpoint(
            store=foundation.store,
            door=door,
            grant_types=kinds,
            policy=policy_of(foundation.settings, foundation.own_scope),
            minter=minter,
            fingerprints=key,
            runtime=foundation.runtime,
            refuse=refuse,
            elsewhere=elsewhere,
        )

    revoke = RevocationEndpoint(foundation.store, door, reader, key, refuse)
    introspect = IntrospectionEndpoint(
        foundation.store,
        door,
        reader,
        key,
        foundation.issuer,
        refuse,
        minter.id_tokens.subjects,
    )
    own = (client_credentials.GRANT_TYPE,)
    return (
        _form("/oauth/token", token(served), refuse),
        _form("/token", token(own, f"{foundation.issuer}/oauth/token"), refuse),
        _form("/oauth/revoke", revoke, refuse),
        _form("/oauth/introspect", introspect, refuse),
        Route("/oauth/jwks", {"GET": KeysEndpoint(foundation.keys)}, refuse),
    )


def _metadata_routes(
    foundation: Foundation,
    routes: tuple[Route, ...],
    served: tuple[GrantType, ...],
    refuse: ClientRefusal,
) -> tuple[Route, ...]:
    known = (*Algorithm, mac.ALGORITHM)
    ours = tuple(each.value for each in foundation.keys.algorithms)
    brand, registration = foundation.settings.brand, foundation.settings.registration
    facts = ServerFacts(
        issuer=foundation.issuer,
        paths=frozenset(route.path for route in routes),
        scopes=tuple(foundation.scopes),
        grant_types=tuple(grant_type.name for grant_type in served),
        response_types=tuple(ResponseType),
        response_modes=tuple(ResponseMode),
        subject_types=SUBJECT_TYPES,
        authentication_methods=tuple(n for method in METHODS for n in method.metadata_names),
        assertion_algorithms=known,
        id_token_algorithms=(*ours, mac.ALGORITHM),
        introspection_algorithms=ours,
        request_object_algorithms=(*known, jwt.UNSIGNED),
        encryption_algorithms=jwe.ALGORITHMS,
        content_encryptions=tuple(jwe.ENCRYPTIONS),
        policy_uri=brand.privacy_url,
        tos_uri=brand.terms_url,
        registration=registration.mode != RegistrationMode.OFF,
        implicit=registration.mode != RegistrationMode.OFF
        and RegistrableGrantType.IMPLICIT in registration.grant_types,
    )
    metadata = MetadataEndpoint(foundation.store, facts)
    return tuple(
        Route(f"/.well-known/{name}", {"GET": metadata}, refuse)
        for name in ("openid-configuration", "oauth-authorization-server")
    )


def _userinfo_route(
    foundation: Foundation,
    directory: ClientDirectory,
    reader: AccessTokenReader,
    minter: Minter,
    refuse: ClientRefusal,
) -> Route:
    id_tokens = minter.id_tokens
    endpoint = UserInfoEndpoint(
        foundation.store,
        directory,
        UserInfo(reader, id_tokens.subjects),
        id_tokens.signer,
        foundation.issuer,
    )
    return Route(
        "/oauth/userinfo",
        {"GET": endpoint, "POST": endpoint, "OPTIONS": preflight(("GET", "POST"))},
        BearerRefusal(refuse, OPENID, ANY_ORIGIN),
        Body.FORM,
        hides_query=True,
    )


def _resource_server_routes(
    foundation: Foundation, door: Door, reader: AccessTokenReader, refuse: ClientRefusal
) -> tuple[Route, ...]:
    gate = ResourceServerGate(door)
    feed = RevocationsEndpoint(foundation.store, gate, refuse, foundation.runtime.now)
    identity = IdentityEndpoint(
        store=foundation.store,
        gate=gate,
        reader=reader,
        records=Records(foundation.registrar("api"), foundation.accounts()),
        refuse=refuse,
    )
    return (
        Route("/oauth/revocations", {"GET": feed}, refuse, quiet=True),
        Route("/oauth/identity", {"POST": identity}, refuse, Body.JSON, hides_query=True),
    )


def _health_routes(foundation: Foundation, refuse: ClientRefusal) -> tuple[Route, ...]:
    ready = HealthEndpoint(foundation.store, foundation.keys)
    return (
        Route("/health/live", {"GET": live, "HEAD": live}, refuse, quiet=True),
        Route("/health/ready", {"GET": ready, "HEAD": ready}, refuse, quiet=True),
    )


def _form(
    path: str,
    endpoint: TokenEndpoint | RevocationEndpoint | IntrospectionEndpoint,
    refuse: ClientRefusal,
) -> Route:
    return Route(path, {"POST": endpoint}, refuse, Body.FORM, hides_query=True)


def _reader(foundation: Foundation) -> AccessTokenReader:
    return AccessTokenReader(
        issuer=foundation.issuer,
        audience=foundation.settings.resource.url,
        keys=foundation.keys,
        fingerprints=foundation.keyring.fingerprint_key,
    )
