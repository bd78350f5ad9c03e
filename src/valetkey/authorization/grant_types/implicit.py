"""The implicit grant: its tokens come from the authorization endpoint (RFC 6749 section 4.2)."""

from valetkey.authorization.model.client import EVERYONE, Editor
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.kernel.text import translatable

NAME = "implicit"

RULES = GrantTypeRules(
    needs_redirect_uri=True,
    editors=EVERYONE & ~Editor.DEVELOPER,
    label=translatable(
        "Implicit grant: tokens are passed in the URL of a page, where the browser history, "
        "extensions and scripts can read them"
    ),
)
