"""Check the sign-in providers: whether they respond, and how far their clocks are from ours."""

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

from valetkey.cli.doctoring.finding import Finding, from_shared, ok, warning
from valetkey.cli.doctoring.reach import clock_of, send_request, trust
from valetkey.config.sections.federation import ProviderKind, ProviderSettings
from valetkey.config.settings import Settings

_PAGE = "how-to/people/sign-in-from-elsewhere"
_METADATA = "/.well-known/openid-configuration"


async def providers(settings: Settings) -> AsyncIterator[Finding]:
    """Request the metadata of each provider, as the server does; of GitHub its front page."""
    context = trust(settings)
    if settings.fetch.ca_file:
        # An unusable file is reported with the configuration.
        with suppress(OSError):
            context.load_verify_locations(settings.source.directory / settings.fetch.ca_file)
    for each in settings.federation.providers:
        for finding in await asyncio.to_thread(_look, each, context):
            yield finding


def _look(provider: ProviderSettings, context: ssl.SSLContext) -> tuple[Finding, ...]:
    about = f"sign-in provider {provider.id}"
    target = urlsplit(provider.issuer).path.rstrip("/")
    target += _METADATA if provider.kind is ProviderKind.OPENID else "/"
    try:
        answer = send_request("HEAD", provider.issuer, target, context)
    except (OSError, http.client.HTTPException) as reason:
        advice = "Users cannot sign in with it meanwhile: check the network and its issuer."
        return (warning(about, f"{provider.issuer} cannot be reached: {reason}", advice, _PAGE),)
    responds = ok(about, f"{provider.issuer} responds")
    judged = clock_of(about, answer)
    return (responds,) if judged is None else (responds, from_shared(judged, console=False))
