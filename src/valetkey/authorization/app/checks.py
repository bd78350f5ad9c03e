"""Checks of settings that need what this server knows: its grant types and its own scopes."""

from valetkey.authorization.features import FEATURES, GRANT_RULES, SCOPES
from valetkey.authorization.model.client import CLIENT_SCOPE, Editor
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError


def check_grant_types(settings: Settings) -> None:
    """Raise OperatorError if the settings allow an unknown or a forbidden grant type."""
    registrable = [name for name, rules in GRANT_RULES.items() if Editor.CLIENT in rules.editors]
    section = settings.registration
    for name in section.grant_types:
        # A default may name the grant type of a feature that was taken out.
        if name not in registrable and name not in type(section)().grant_types:
            known = ", ".join(registrable)
            raise OperatorError(f'"{name}" is not one of {known}', "registration.grant_types")
    for each in FEATURES:
        each.check_settings(settings, GRANT_RULES)


def check_scopes(settings: Settings) -> None:
    """Raise OperatorError if `resource.scopes` gives an API a scope of this server itself."""
    for name, _ in settings.resource.scopes:
        if name in IDENTITY_SCOPES or name in CLIENT_SCOPE or name in SCOPES:
            raise OperatorError(
                f'"{name}" is a scope of the authorization server', "resource.scopes"
            )
