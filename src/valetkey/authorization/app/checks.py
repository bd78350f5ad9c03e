"""Checks of settings that need what this server knows: its grant types and its own scopes."""

from valetkey.authorization.features import SCOPES
from valetkey.authorization.grant_types import RULES
from valetkey.authorization.model.register.client import CLIENT_SCOPE
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError


def check_grant_types(settings: Settings) -> None:
    """Raise OperatorError if the settings allow an unknown or a forbidden grant type."""
    registrable = [name for name, rules in RULES.items() if rules.for_self_registration]
    portal = [name for name, rules in RULES.items() if rules.for_portal]
    for setting, offered, allowed in (
        ("registration.grant_types", settings.registration.grant_types, registrable),
        ("portal.grant_types", settings.portal.grant_types, portal),
    ):
        for name in offered:
            if name not in allowed:
                raise OperatorError(f'"{name}" is not one of {", ".join(allowed)}', setting)


def check_scopes(settings: Settings) -> None:
    """Raise OperatorError if `resource.scopes` gives an API a scope of this server itself."""
    for name, _ in settings.resource.scopes:
        if name in IDENTITY_SCOPES or name in CLIENT_SCOPE or name in SCOPES:
            raise OperatorError(
                f'"{name}" is a scope of the authorization server', "resource.scopes"
            )
