"""Paths of this server: those that handlers use as constants, and those of templates by name."""

import re
from collections.abc import Mapping
from types import MappingProxyType

AUTHORIZE = "/oauth/authorize"
SIGN_IN = "/oauth/sign-in"
WITH = "/oauth/sign-in/with"
CONSENT = "/oauth/consent"
SECOND_FACTOR = "/oauth/second-factor"
SWITCH_ACCOUNT = "/oauth/switch-account"
SIGN_OUT = "/oauth/sign-out"
START = "/oauth/start"
DEVICE = "/device"
HOME = "/"
LANGUAGE = "/language"
APPS = "/account/apps"
END_APP = "/account/apps/end"
END_APPS = "/account/apps/end-all"
SESSIONS = "/account/sessions"
SECURITY = "/account/security"
ACTIVITY = "/account/activity"
DEVELOPER = "/developer"
NEW_APP = "/developer/new"

ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "home": "/",
        "errors": "/errors/",
        "query_notice": "/notices/query-string",
        "profile": "/account/profile",
        "data": "/account/data",
        "removal": "/account/delete",
        "apps": "/account/apps",
        "app": "/account/apps/app",
        "end_app": "/account/apps/end",
        "end_apps": "/account/apps/end-all",
        "sessions": "/account/sessions",
        "activity": "/account/activity",
        "security": "/account/security",
        "connections": "/account/connections",
        "email": "/account/email",
        "password": "/account/security/password",
        "remove_password": "/account/security/password/remove",
        "passkeys": "/account/security/passkeys/",
        "new_passkey": "/account/security/passkeys/new",
        "new_authenticator": "/account/security/authenticator/new",
        "remove_authenticator": "/account/security/authenticator/remove",
        "recovery_codes": "/account/security/recovery-codes",
        "developer": "/developer",
        "new_app": "/developer/new",
        "device": "/device",
        "admin": "/admin",
        "admin_users": "/admin/users",
        "admin_roles": "/admin/roles",
        "admin_clients": "/admin/clients",
        "admin_apis": "/admin/apis",
        "admin_groups": "/admin/groups",
        "admin_webhooks": "/admin/webhooks",
        "admin_keys": "/admin/keys",
        "admin_events": "/admin/events",
        "admin_registration": "/admin/registration",
        "admin_settings": "/admin/settings",
        "admin_mail": "/admin/mail",
        "admin_tokens": "/admin/tokens",
        "language": "/language",
        "sign_out": "/oauth/sign-out",
        "metadata": "/.well-known/oauth-authorization-server",
    }
)

DOCUMENTATION: Mapping[str, str] = MappingProxyType(
    {
        "/developer": "how-to/apps/let-developers-register.html",
        "/developer/new": "how-to/apps/register-a-client.html",
        "/developer/apps/{client_id}/failures": "how-to/apps/find-out-why-a-request-failed.html",
        "/developer/apps/{client_id}/requests": "how-to/apps/find-out-why-a-request-failed.html",
        "/admin": "how-to/operate/run-it-with-a-team.html",
        "/admin/apis": "how-to/apis/several-apis.html",
        "/admin/clients": "how-to/apps/register-a-client.html",
        "/admin/events": "how-to/operate/audit-log.html",
        "/admin/groups": "how-to/people/groups.html",
        "/admin/keys": "how-to/operate/rotate-keys.html",
        "/admin/mail": "how-to/operate/send-mail.html",
        "/admin/providers": "how-to/people/sign-in-from-elsewhere.html",
        "/admin/registration": "how-to/apps/let-apps-register-themselves.html",
        "/admin/settings": "reference/settings.html",
        "/admin/tokens": "how-to/operate/automate-administration.html",
    }
)
"""The page of the documentation for each page of the navigation, by path."""


def documentation_of(path: str) -> str:
    """Return the documentation for the page at `path`, or for the nearest one above."""
    while path and path not in DOCUMENTATION:
        path = path.rpartition("/")[0]
    return DOCUMENTATION.get(path, "")


_LONGEST_PATH = 500
# A path of our own areas, and nothing that a browser or a proxy could read as another place.
_OWN_AREA = re.compile(
    r"/(?:account|developer|admin|device)(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.~-]{1,100}){0,8}",
    re.ASCII,
)


def safe_return_path(text: str | None) -> str:
    """Return the path if it is in an area for signed-in users; otherwise ""."""
    if text is None or len(text) > _LONGEST_PATH:
        return ""
    return text if _OWN_AREA.fullmatch(text) else ""
