"""Requirements of a grant type for the clients that are registered for it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrantTypeRules:
    """The registration rules of one grant type.

    `for_self_registration` and `for_portal` say whether an operator may offer it there. The profile
    `modern` has no `discouraged` grant type (RFC 9700 sections 2.1.2 and 2.4).
    """

    needs_redirect_uri: bool = False
    needs_secret: bool = False
    issues_refresh_tokens: bool = False
    for_self_registration: bool = True
    for_portal: bool = True
    discouraged: bool = False


NO_RULES = GrantTypeRules()
"""Those of a grant type that every client may register for."""

GrantTypes = Mapping[str, GrantTypeRules]
"""The grant types of a server by name."""
