"""Sign-in providers as a feature: what the server takes from them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from valetkey.authorization.actions.admin.search import Match, SearchKind
from valetkey.authorization.feature import CommandGroup, Feature, Parts, Site
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.providers.doctor import needed_servers
from valetkey.authorization.providers.model import EVENTS
from valetkey.authorization.providers.operations import PROVIDER_OPERATIONS
from valetkey.authorization.providers.rules.identities import exported, remove_added
from valetkey.authorization.providers.rules.openid import OpenIdProvider
from valetkey.authorization.providers.rules.registry import (
    ProviderFactory,
    Providers,
    reseal_all,
)
from valetkey.authorization.providers.settings import FederationSettings
from valetkey.authorization.providers.storage import (
    Identities,
    StoredProviders,
    delete_of_user,
)
from valetkey.authorization.storage.transaction import (
    Hooks,
    SignInMethods,
    SubjectNames,
    Transaction,
    UpstreamClaims,
)
from valetkey.authorization.tokens.identity_assertion import TrustedIssuer
from valetkey.config.settings import Settings
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment

if TYPE_CHECKING:
    from valetkey.authorization.site.account.security.overview import SecuritySections
    from valetkey.authorization.site.page import AnyPage
    from valetkey.authorization.site.sign_in.sign_in import SignInLinks


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.providers.pages.console import pages  # noqa: PLC0415 - see `feature`

    return pages(services)


def _visitor(site: Site) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.providers.pages.visitor import pages  # noqa: PLC0415 - see `feature`

    return pages(site)


def _sign_in_links(site: Site) -> "tuple[SignInLinks, ...]":
    from valetkey.authorization.providers.pages.visitor import (  # noqa: PLC0415 - see `feature`
        Federation,
    )

    return (Federation.from_site(site).sign_in_links,)


def _account(site: Site) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.providers.pages.account import pages  # noqa: PLC0415 - see `feature`

    return pages(site)


def _security(site: Site) -> "tuple[SecuritySections, ...]":
    from valetkey.authorization.providers.pages.account import (  # noqa: PLC0415 - see `feature`
        security,
    )

    return (security(site),)


def _memory(services: Services) -> tuple[Providers]:
    return (Providers(ProviderFactory.from_services(services)),)


def _trusted_issuers(parts: Parts) -> Mapping[str, TrustedIssuer]:
    return {
        provider.settings.issuer: provider
        for provider in parts.kept(Providers)
        if isinstance(provider, OpenIdProvider) and provider.settings.identity_assertions
    }


def _hooks(settings: Settings) -> Hooks:
    of_settings = {
        provider.id: provider for provider in settings.section(FederationSettings).providers
    }

    def named(tx: Transaction, provider_id: str) -> tuple[str, str] | None:
        stored = StoredProviders.of(tx).find(provider_id)
        provider = of_settings.get(provider_id) if stored is None else stored.settings
        return (
            None
            if provider is None
            else (provider.name or provider.id, f"/admin/providers/{path_segment(provider.id)}")
        )

    return Hooks(
        user_deleted=(delete_of_user,),
        user_exported=(exported,),
        subjects_named=(SubjectNames("provider", named),),
        sign_in_methods=(
            SignInMethods(lambda tx, uid: bool(Identities.of(tx).of_user(uid)), remove_added),
        ),
        upstream_claims=(
            UpstreamClaims(
                lambda tx: {**StoredProviders.of(tx).enabled(), **of_settings},
                lambda tx, uid: Identities.of(tx).claims_of(uid),
            ),
        ),
    )


def _search_kinds(services: Services) -> tuple[SearchKind, ...]:
    of_settings = services.settings.section(FederationSettings).providers

    def find(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
        stored = [provider.settings for provider in StoredProviders.of(tx).all()]
        matches = [
            Match(it.name or it.id, f"/admin/providers/{path_segment(it.id)}", it.id)
            for it in (*stored, *of_settings)
            if text.casefold() in f"{it.name} {it.id} {it.issuer}".casefold()
        ]
        return matches[:limit]

    return (SearchKind(translatable("Sign-in providers"), find, ""),)


_COMMANDS = CommandGroup(
    "provider",
    purpose="let users sign in with other servers",
    help="""
    Manage the servers at which users may sign in: Google, GitHub, any OpenID provider.

    Those in the configuration file are listed, and changed there.

    Example: valetkey provider test google
    """,
    guide="how-to/people/sign-in-from-elsewhere",
    examples={"provider": "google"},
)

FEATURE = Feature(
    "providers",
    events=EVENTS,
    operations=PROVIDER_OPERATIONS,
    commands=(_COMMANDS,),
    hooks=_hooks,
    console=_console,
    console_after=("/admin/mail",),
    search_kinds=_search_kinds,
    visitor=_visitor,
    account=_account,
    sign_in_links=_sign_in_links,
    security=_security,
    memory=_memory,
    trusted_issuers=_trusted_issuers,
    needed_servers=needed_servers,
    reseals=reseal_all,
)
