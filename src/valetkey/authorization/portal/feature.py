"""The developer portal as a feature: what the server takes from it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from valetkey.authorization.actions.presets import DeveloperPolicy
from valetkey.authorization.feature import Feature, Site
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.portal.operations import OPERATIONS
from valetkey.authorization.portal.rules.apps import (
    callback_of,
    check_grant_types,
    check_scopes,
    sweep_deleted,
    sweep_invitations,
)
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.config.settings import Settings

if TYPE_CHECKING:
    from valetkey.authorization.endpoints.authorize.pending import OwnCallback
    from valetkey.authorization.site.page import AnyPage


def _area(site: Site, of_apps: "Callable[[str], tuple[AnyPage, ...]]") -> "tuple[AnyPage, ...]":
    from valetkey.authorization.portal.pages import portal_pages  # noqa: PLC0415 - see `feature`

    return portal_pages(site, of_apps)


def _policy(settings: Settings) -> DeveloperPolicy:
    section = settings.section(PortalSettings)
    is_shown = partial(is_developer, section)
    return DeveloperPolicy(section.who.value, "portal.who", section.default_profile.value, is_shown)


def is_developer(portal: PortalSettings, user: User) -> bool:
    """Return whether the user sees the developer portal: they have an app, or may register one."""
    if portal.who is Registrants.EVERYONE:
        return True
    if portal.who is Registrants.VERIFIED and user.email_verified_at is not None:
        return True
    return user.develops


def _own_callback(services: Services) -> "OwnCallback":
    return partial(callback_of, services.settings.authorization.url, services.keyring.sealer)


FEATURE = Feature(
    "portal",
    core_operations={"people": OPERATIONS},
    area=_area,
    developers=_policy,
    own_callback=_own_callback,
    check_settings=check_grant_types,
    check_scopes=check_scopes,
    sweeps=(sweep_deleted, sweep_invitations),
)
