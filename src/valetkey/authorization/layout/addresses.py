"""Paths of this server: those that handlers use as constants, and those of templates by name."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote

from valetkey.config.features import NAMES

AUTHORIZE = "/oauth/authorize"
SIGN_IN = "/oauth/sign-in"
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
REQUIRED_FACTOR = "/account/security/second-factor"
ACTIVITY = "/account/activity"
DEVELOPER = "/developer"
NEW_APP = "/developer/new"

ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "home": HOME,
        "errors": "/errors/",
        "query_notice": "/notices/query-string",
        "profile": "/account/profile",
        "data": "/account/data",
        "removal": "/account/delete",
        "apps": APPS,
        "app": "/account/apps/app",
        "end_app": END_APP,
        "end_apps": END_APPS,
        "sessions": SESSIONS,
        "activity": ACTIVITY,
        "security": SECURITY,
        "email": "/account/email",
        "password": "/account/security/password",
        "remove_password": "/account/security/password/remove",
        "passkeys": "/account/security/passkeys/",
        "new_passkey": "/account/security/passkeys/new",
        "new_authenticator": "/account/security/authenticator/new",
        "remove_authenticator": "/account/security/authenticator/remove",
        "recovery_codes": "/account/security/recovery-codes",
        "developer": DEVELOPER if "portal" in NAMES else "",
        "new_app": NEW_APP,
        "device": DEVICE,
        "admin": "/admin",
        "admin_users": "/admin/users",
        "admin_roles": "/admin/roles",
        "admin_clients": "/admin/clients",
        "admin_apis": "/admin/apis",
        "admin_groups": "/admin/groups",
        "admin_keys": "/admin/keys",
        "admin_events": "/admin/events",
        "admin_registration": "/admin/registration",
        "admin_settings": "/admin/settings",
        "admin_mail": "/admin/mail",
        "admin_tokens": "/admin/tokens",
        "language": LANGUAGE,
        "sign_out": SIGN_OUT,
        "metadata": "/.well-known/oauth-authorization-server",
    }
)

_LONGEST_PATH = 500
# A path of our own areas with its query, and nothing that a browser or a proxy could read as
# another place: of the escaped octets, no control character, percent sign, dot, slash or backslash.
_ESCAPED = r"%(?!25|2[EF]|5C|7F)[2-9A-F][0-9A-F]"
_OWN_AREA = re.compile(
    r"/(?:account|developer|admin|device)"
    rf"(?:/(?!\.{{1,2}}(?:/|\Z))(?:[A-Za-z0-9_.~-]|{_ESCAPED}){{1,300}}){{0,8}}"
    r"(?:\?[A-Za-z0-9_.~=&+%-]*)?",
    re.ASCII,
)
# Pages that keep where a user was going: to another of these paths, or to an app.
_ADDS_FACTOR = re.compile(
    r"/account/security/(?:second-factor|passkeys/new|authenticator/new)"
    r"\?(?:interaction|to)=[A-Za-z0-9_.~%/-]{1,7200}",
    re.ASCII,
)


def safe_return_path(text: str | None) -> str:
    """Return the path, with its query, if it is in an area for signed-in users; otherwise ""."""
    if text is None:
        return ""
    if len(text) <= _LONGEST_PATH and _OWN_AREA.fullmatch(text):
        return text
    return text if _ADDS_FACTOR.fullmatch(text) else ""


def returning_to(path: str, to: str) -> str:
    """Return the address of a page that leads back to the safe path `to`; "" for none."""
    return f"{path}?to={quote(to)}" if to else path
