"""Servers of which `valetkey doctor` says whether they respond."""

from urllib.parse import urlsplit

from valetkey.authorization.feature import NeededServer
from valetkey.authorization.providers.settings import FederationSettings, ProviderKind
from valetkey.config.settings import Settings

_METADATA = "/.well-known/openid-configuration"


def needed_servers(settings: Settings) -> tuple[NeededServer, ...]:
    """Return the providers of the settings: their metadata, and the front page of GitHub."""
    return tuple(
        NeededServer(
            f"sign-in provider {provider.id}",
            provider.issuer,
            urlsplit(provider.issuer).path.rstrip("/")
            + (_METADATA if provider.kind is ProviderKind.OPENID else "/"),
            advice="Users cannot sign in with it now: check the network and its issuer.",
            guide="how-to/people/sign-in-from-elsewhere",
        )
        for provider in settings.section(FederationSettings).providers
    )
