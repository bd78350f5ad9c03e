"""The settings of the developer portal."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import SettingsGroup, whole
from valetkey.kernel.text import translatable


class Registrants(StrEnum):
    """Who may register apps in the developer portal."""

    EVERYONE = "everyone"
    VERIFIED = "verified"
    INVITED = "invited"
    NOBODY = "nobody"


class PortalProfile(StrEnum):
    """The profile that the portal proposes for a new app."""

    CLASSIC = "classic"
    MODERN = "modern"


@dataclass(frozen=True, slots=True)
class PortalSettings:
    """The developer portal."""

    GROUP: ClassVar = SettingsGroup.APPS
    GUIDE: ClassVar = "how-to/apps/let-developers-register"

    who: Annotated[
        Registrants,
        rules.choice(
            Registrants,
            everyone=translatable("Everyone with an account"),
            verified=translatable("Users with a verified email address"),
            invited=translatable("Users whom an administrator invited"),
            nobody=translatable("Only administrators"),
        ),
        "Users who may register apps",
    ] = Registrants.VERIFIED
    """Who may register apps: `everyone` with an account, users with a `verified` email address,
    users `invited` by an administrator, or `nobody`. Existing apps stay."""

    apps_per_person: Annotated[int, whole(1, 10_000, "apps"), "Apps that one user may own"] = 20
    """Apps that one user may own. Administrators can give them further apps (`valetkey client
    owner`)."""

    grant_types: Annotated[
        tuple[str, ...], rules.GRANT_TYPES, "Grant types of apps in the portal"
    ] = (
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:device_code",
    )
    """Grant types that such an app may use. `implicit` and `password` are not among them: only an
    administrator can enable these, for one app (RFC 9700 sections 2.1.2 and 2.4)."""

    scopes: Annotated[tuple[str, ...], rules.SCOPE_NAMES, "Permissions of apps in the portal"] = ()
    """Scopes of your API that such an app may request. Empty: all."""

    sample_requests: Annotated[
        int, whole(0, 3_600, "seconds"), "Seconds between recorded requests"
    ] = 60
    """For each app, endpoint and grant type, one successful request in this time is recorded, for
    the list of requests on the page of the app. Each process of the servers counts separately. 0
    records none; refused requests are always recorded."""

    default_profile: Annotated[
        PortalProfile,
        rules.choice(
            PortalProfile,
            classic=translatable("Classic (OAuth 2.0)"),
            modern=translatable("Modern (OAuth 2.1)"),
        ),
        "Profile that the portal proposes",
    ] = PortalProfile.MODERN
    """The profile that the form proposes."""


SECTIONS = {"portal": PortalSettings}
