"""The pages of who signs in from another server."""

from collections.abc import Mapping

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.site.admin.server.providers import (
    FAULTS,
    ProviderLine,
    ProvidersPage,
)
from valetkey.authorization.site.federation.arrived import UnlinkedIdentityPage
from valetkey.authorization.site.federation.callback import FailedPage
from valetkey.authorization.site.federation.connections import (
    Connection,
    ConnectionsPage,
)
from valetkey.authorization.site.sign_in.sign_in import ProviderButton, SignInPage
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
GOOGLE = ProviderButton("google", "Google", "/oauth/sign-in/with/google?csrf=c")
GITHUB = ProviderButton("github", "GitHub", "/oauth/sign-in/with/github?csrf=c")


def federation_examples() -> Mapping[str, PageContext]:
    """Each page, in the states in which it looks different."""
    arrived = UnlinkedIdentityPage(
        provider="Google",
        shown="ada@example.com",
        action="/oauth/sign-in/arrived",
        sign_in="/oauth/sign-in?to=/account/connections",
        username="ada",
        name="Ada Lovelace",
        email="ada@example.com",
    )
    connected = Connection(
        "key",
        "Google",
        "ada@example.com",
        When(Instant(NOW - 86_400 * 40), NOW),
        When(Instant(NOW - 600), NOW),
        can_end=True,
    )
    only = Connection("key2", "GitHub", "ada", When(NOW, NOW), None, can_end=False)
    provider = ProviderLine(
        "google",
        "Google",
        "https://accounts.google.com",
        "1234567890.apps.googleusercontent.com",
        "https://auth.example/oauth/sign-in/with/google/callback",
        "/admin/providers/google/test",
        may_sign_up=True,
    )
    return {
        "sign_in_elsewhere": SignInPage("/oauth/sign-in", providers=(GOOGLE, GITHUB)),
        "arrived": arrived,
        "arrived_wrong": replace(
            arrived,
            username="ada lovelace",
            faults={"username": "Take another: letters and digits without spaces."},
        ),
        "arrived_taken": replace(arrived, action="", taken=True),
        "arrived_unlinked": replace(arrived, action=""),
        "failed": FailedPage("Google", "/oauth/sign-in", "7K2M-QX4T-9WPA"),
        "failed_declined": FailedPage("Google", "/oauth/sign-in", declined=True),
        "connections_none": ConnectionsPage("/account/connections", (), (GOOGLE, GITHUB)),
        "connections": ConnectionsPage(
            "/account/connections",
            (connected, only),
            (GOOGLE, GITHUB),
            connected="Google",
        ),
        "connections_arrived": ConnectionsPage(
            "/account/connections",
            (connected,),
            (GITHUB,),
            arrived_from="GitHub",
            arrived_as="ada",
        ),
        "connections_taken": ConnectionsPage(
            "/account/connections", (connected,), (GITHUB,), taken="GitHub"
        ),
        "admin_providers": ProvidersPage(
            (provider, replace(provider, id="other", tested=True)),
        ),
        "admin_providers_failed": ProvidersPage(
            (
                replace(
                    provider, tested=True, fault=next(iter(FAULTS.values())), reason="status 404"
                ),
            ),
        ),
        "admin_providers_none": ProvidersPage((), may_test=False),
    }
