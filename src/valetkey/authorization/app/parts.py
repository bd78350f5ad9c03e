"""Parts of the server that several families of routes share, in the brand of its pages."""

from collections.abc import Callable, Coroutine, Mapping
from ipaddress import ip_network
from pathlib import Path

from valetkey.authorization.actions.client_documents import ClientDocuments
from valetkey.authorization.actions.inspection.machine import own_database
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.background.audit import AuditExport, destination
from valetkey.authorization.background.heartbeat import Heartbeat
from valetkey.authorization.background.logos import LogoFetcher
from valetkey.authorization.background.logout_delivery import LogoutDelivery
from valetkey.authorization.client_authentication import (
    ClientAuthentication,
    ClientDirectory,
    Failures,
    SecretUses,
    VerifiedSecrets,
)
from valetkey.authorization.email.delivery import MailDelivery, MailServer
from valetkey.authorization.endpoints.authorize.pending import OwnCallback, Server, SessionCallback
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.endpoints.client.request import ClientRequestAuthentication
from valetkey.authorization.feature import Parts
from valetkey.authorization.features import FEATURES
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import own_path
from valetkey.authorization.layout.theme import read_theme
from valetkey.authorization.layout.theme_check import check_theme
from valetkey.authorization.model.event.chain import checkpoint_key
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.authorization_request import supported_prompts
from valetkey.authorization.site.documentation import start_of
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.client_keys import ClientSigner
from valetkey.authorization.tokens.id_token import IdTokenHints, IdTokens, LogoutTokens, Subjects
from valetkey.authorization.tokens.identity_assertion import IdentityAssertions
from valetkey.authorization.tokens.issue import TokenPolicy, TokenResponses
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.config.installation import lag
from valetkey.config.paths import last_seen_path
from valetkey.config.sections.people import SignUpMode
from valetkey.config.settings import Settings
from valetkey.database.identity import Watch
from valetkey.fetch.outbound import ANYTHING, Fetched, OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.web import log
from valetkey.web.offload import Offload

_EVERYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def make_apis(foundation: Foundation, directory: ClientDirectory) -> ApiDirectory:
    """Build the directory of APIs, with the operator's own as the default."""
    return ApiDirectory(
        foundation.store,
        lambda: directory.revision,
        foundation.default_api,
        takes_audience=foundation.settings.tokens.audience_parameter,
    )


def _signer(foundation: Foundation) -> ClientSigner:
    return ClientSigner(
        foundation.keys,
        foundation.shared_secrets,
        foundation.client_keys,
        foundation.runtime.random,
    )


def make_token_responses(foundation: Foundation) -> TokenResponses:
    """Build the issuer of token responses."""
    id_tokens = IdTokens(
        foundation.issuer,
        _signer(foundation),
        Subjects(foundation.keyring.fingerprint_key),
        foundation.settings.tokens.id_token_lifetime,
    )
    return TokenResponses(foundation.issuer, foundation.keys, id_tokens)


def make_assertions(foundation: Foundation, parts: Parts) -> IdentityAssertions:
    """Build the reader of identity assertions; it trusts no issuer unless the settings say so."""
    on = foundation.settings.tokens.identity_assertions
    trusted = {
        issuer: server
        for feature in FEATURES
        for issuer, server in feature.trusted_issuers(parts).items()
        # The draft, section 9.5: a server takes no assertion that it issued itself.
        if on and issuer != foundation.issuer
    }
    return IdentityAssertions(foundation.issuer, foundation.keys, on, trusted)


def make_logout_delivery(foundation: Foundation) -> LogoutDelivery:
    """Build the delivery of logout notifications to apps."""
    tokens = LogoutTokens(
        foundation.issuer,
        _signer(foundation),
        Subjects(foundation.keyring.fingerprint_key),
    )
    return LogoutDelivery(
        foundation.store, tokens, foundation.outgoing.post_form, foundation.runtime
    )


def make_documents(foundation: Foundation, directory: ClientDirectory) -> ClientDocuments:
    """Build the service that fetches clients' metadata documents."""
    return ClientDocuments(
        foundation.store,
        directory,
        foundation.self_registrar(),
        foundation.outgoing,
        foundation.settings.registration,
    )


def make_logo_fetcher(foundation: Foundation, offload: Offload) -> LogoFetcher:
    """Build the fetcher of apps' logos; `offload` decodes them."""

    async def get(url: str) -> Fetched:
        return await foundation.outgoing.get(url, accept=ANYTHING)

    return LogoFetcher(foundation.store, get, offload, foundation.runtime)


def make_mail_delivery(
    foundation: Foundation, brands: CurrentBrand
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """Build the background jobs that send email; none if email is disabled."""
    outbox = foundation.outbox
    if not outbox.is_on or outbox.settings.is_mailbox:
        return ()
    send = MailServer.from_settings(foundation.settings).send
    office = MailDelivery(
        foundation.store, outbox, send, lambda: brands.current, foundation.runtime
    )
    return (office.deliver,)


def make_audit_exports(
    foundation: Foundation,
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """Build the background jobs that export the audit log, one for each destination."""
    audit, directory = foundation.settings.audit, foundation.settings.source.directory
    ca_file = directory / audit.export_ca_file if audit.export_ca_file else None
    # The operator chose the addresses: they may be internal ones.
    http = OutboundHttp(_EVERYWHERE, foundation.runtime.now, ca_file=ca_file)
    http.prepare()
    public = checkpoint_key(foundation.keyring.fingerprint_key).public
    return tuple(
        AuditExport(
            foundation.store,
            url,
            destination(url, directory, http, audit.export_token),
            public,
            foundation.runtime,
        ).run
        for url in audit.export
    )


def make_watch(foundation: Foundation) -> Watch:
    """Build the check that notices a database that is missing, replaced or older than before."""
    settings, server = foundation.settings, foundation.settings.authorization
    return Watch(
        foundation.store.engine,
        last_seen_path(settings, server),
        foundation.runtime.now,
        log.database,
        lag(settings, server),
    )


def make_heartbeats(
    foundation: Foundation, node: str, *, supervised: bool
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """Build the job that records heartbeats of the node with this id; none without an id."""
    if not node:
        return ()
    own = own_database(foundation.settings)
    return (Heartbeat(foundation.store, node, own, foundation.runtime, supervised).run,)


def make_reader(foundation: Foundation) -> AccessTokenReader:
    """Build the reader of access tokens."""
    return AccessTokenReader(
        issuer=foundation.issuer,
        audience=foundation.settings.audience,
        keys=foundation.keys,
        fingerprints=foundation.keyring.fingerprint_key,
    )


def make_client_auth(
    foundation: Foundation,
    directory: ClientDirectory,
    documents: ClientDocuments,
    uses: SecretUses,
) -> ClientRequestAuthentication:
    """Build the client authentication of the endpoints."""
    issuer = foundation.issuer
    return ClientRequestAuthentication(
        foundation.store,
        ClientAuthentication(
            directory,
            foundation.keyring.fingerprint_key,
            Failures.per_minute(foundation.settings.limits.client_failures),
            foundation.client_keys,
            foundation.shared_secrets,
            uses,
            documents.renew,
        ),
        VerifiedSecrets(directory, uses, foundation.runtime.random(32)),
        audiences=(
            issuer,
            f"{issuer}/oauth/token",
            f"{issuer}/token",
        ),
    )


def make_server(
    foundation: Foundation,
    directory: ClientDirectory,
    documents: ClientDocuments,
    apis: ApiDirectory,
    claims: TokenClaims,
    decisions: ClientDecisionQueue,
) -> Server:
    """Build the parts that the authorization endpoint and the pages share.

    Raises OperatorError for an invalid theme.
    """
    settings = foundation.settings
    brand = brand_of(settings)
    if brand.logo_url and not own_path(brand.logo_url):
        log.warning("brand.logo_ignored", setting="brand.logo_url")
    return Server(
        issuer=foundation.issuer,
        store=foundation.store,
        directory=directory,
        apis=apis,
        claims=claims,
        keyring=foundation.keyring,
        sessions=settings.sessions,
        policy=TokenPolicy.of(settings, foundation.own_scope),
        brands=CurrentBrand(brand),
        decisions=decisions,
        random=foundation.runtime.random,
        scopes=foundation.requested_from_users,
        prompts=supported_prompts(sign_up=settings.accounts.sign_up is SignUpMode.OPEN),
        requests=RequestObjects(
            foundation.issuer,
            foundation.client_keys,
            foundation.shared_secrets,
            foundation.outgoing,
        ),
        documents=documents,
        hints=IdTokenHints(foundation.issuer, foundation.keys, foundation.shared_secrets),
        own_callback=own_callback(foundation.services),
        administration=settings.administration,
    )


def geo_database_of(settings: Settings) -> Path | None:
    """Return the configured geo database, None for none."""
    path = settings.privacy.geo_database
    return settings.source.directory / path if path else None


def brand_of(settings: Settings) -> Brand:
    """Return the configured brand. Raises OperatorError for an invalid theme."""
    configured = settings.brand
    theme = read_theme(settings.source.directory / configured.theme) if configured.theme else None
    docs = start_of(settings.docs.url)
    brand = Brand(
        configured.name,
        configured.logo_url,
        configured.accent,
        configured.terms_url,
        configured.privacy_url,
        theme,
        docs,
        configured.logo_dark_url,
    )
    check_theme(brand)
    return brand


def own_callback(services: Services) -> OwnCallback:
    """Return what finds the callback of a feature that a request names."""
    callbacks = [made for feature in FEATURES if (made := feature.own_callback(services))]

    def find(parameters: Mapping[str, str], now: Instant) -> SessionCallback | None:
        return next(
            (
                session_callback
                for callback in callbacks
                if (session_callback := callback(parameters, now))
            ),
            None,
        )

    return find
