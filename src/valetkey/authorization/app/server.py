"""The authorization server as its browsers see it, in its brand."""

from valetkey.authorization.actions.client_documents import ClientDocuments
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.app.parts import policy_of
from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.layout.render import own_path
from valetkey.authorization.layout.theme import read_theme
from valetkey.authorization.layout.theme_check import check_theme
from valetkey.authorization.site.documentation import start_of
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.declared_claims import TokenClaims
from valetkey.authorization.tokens.id_token_hint import IdTokenHints
from valetkey.config.settings import Settings
from valetkey.web import log


def make_server(
    foundation: Foundation,
    directory: ClientDirectory,
    documents: ClientDocuments,
    apis: ApiDirectory,
    claims: TokenClaims,
    decisions: DecisionQueue,
) -> Server:
    """Build what the authorization endpoint and the pages share.

    Raises Mistake for an invalid theme.
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
        policy=policy_of(settings, foundation.own_scope),
        brands=CurrentBrand(brand),
        decisions=decisions,
        random=foundation.runtime.random,
        scopes=foundation.asked_of_people,
        requests=RequestObjects(
            foundation.issuer,
            foundation.client_keys,
            foundation.shared_secrets,
            foundation.outgoing,
        ),
        documents=documents,
        hints=IdTokenHints(foundation.issuer, foundation.keys, foundation.shared_secrets),
        administration=settings.administration,
    )


def brand_of(settings: Settings) -> Brand:
    """Return the configured brand. Raises Mistake for an invalid theme."""
    said = settings.brand
    theme = read_theme(settings.source.directory / said.theme) if said.theme else None
    docs = start_of(settings.docs.url)
    brand = Brand(
        said.name, said.logo_url, said.accent, said.terms_url, said.privacy_url, theme, docs
    )
    check_theme(brand)
    return brand
