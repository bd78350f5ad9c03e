"""What every route needs, area by area: a route that is not named here is as closed as its area."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from valetkey.authorization.actions.admin.permissions import Permission


class Need(Enum):
    """Whom a route is open to."""

    ANYBODY = auto()
    SIGNED_IN = auto()
    DEVELOPER = auto()  # who may register apps, or has some
    MEMBER = auto()  # of the app in the path
    ROLE = auto()  # with the permission
    LINK = auto()  # who holds the owner's link
    CLIENT = auto()  # an app that says who it is
    RESOURCE_SERVER = auto()
    BEARER = auto()  # an access token
    REGISTRATION = auto()  # the token of that registration
    PROGRAM = auto()  # a token of the admin API, with the permission of the operation


@dataclass(frozen=True)
class Door:
    """One route: `at` is a concrete path of it, `changing` what its form needs beyond the page.

    `shown` says that GET gives a page to everybody who may; without it some find nothing there.
    """

    need: Need
    permission: Permission = Permission.READ
    changing: Permission | None = None
    at: str = ""
    shown: bool = True

    @property
    def form(self) -> Permission:
        """What its form needs."""
        return self.changing or self.permission


@dataclass(frozen=True)
class Area:
    """Everything below a path."""

    prefix: str
    door: Door


_ANY = Door(Need.ANYBODY)

DOORS: Mapping[str, Door] = {
    "/": _ANY,
    "/.well-known/openid-configuration": _ANY,
    "/.well-known/oauth-authorization-server": _ANY,
    "/.well-known/jwks.json": _ANY,
    "/assets/{file}": Door(Need.ANYBODY, at="/assets/x", shown=False),
    "/logos/{name}": Door(Need.ANYBODY, at="/logos/x", shown=False),
    "/pictures/{name}": Door(Need.ANYBODY, at="/pictures/x", shown=False),
    "/docs/{+file}": Door(Need.ANYBODY, at="/docs/x", shown=False),
    "/errors/": _ANY,
    "/errors/{code}": Door(Need.ANYBODY, at="/errors/invalid_request"),
    "/notices/query-string": _ANY,
    "/health/live": _ANY,
    "/health/ready": _ANY,
    "/health/started": _ANY,
    # On the way to being somebody.
    **dict.fromkeys(
        (  # noqa: SIM905 - a line for each would be too many for a file
            "/oauth/authorize /oauth/second-factor /oauth/consent /oauth/switch-account "
            "/oauth/sign-out /oauth/check-session /oauth/start /oauth/sign-in/arrived "
            "/oauth/sign-in/with/{provider} /oauth/sign-in/with/{provider}/callback "
            "/account/new /account/new/confirm /account/forgotten /account/reset "
            "/account/email/confirm /account/email/verify /account/email/undo /mailbox "
            "/account /docs/ /language"
        ).split(),
        Door(Need.ANYBODY, shown=False),
    ),
    "/oauth/sign-in": _ANY,
    "/oauth/logout": _ANY,
    "/mailbox/{mail_id}": Door(Need.ANYBODY, at="/mailbox/ml_1", shown=False),
    # What leads on to a page of its own that asks again.
    "/account/apps/app": Door(Need.SIGNED_IN, shown=False),
    "/account/apps/end": Door(Need.SIGNED_IN, shown=False),
    "/account/security/passkeys/{id}": Door(
        Need.SIGNED_IN, at="/account/security/passkeys/cr_1", shown=False
    ),
    "/account/security/passkeys/{id}/remove": Door(
        Need.SIGNED_IN, at="/account/security/passkeys/cr_1/remove", shown=False
    ),
    "/device": Door(Need.SIGNED_IN),
    "/device/{user_code}": Door(Need.SIGNED_IN, at="/device/BCDF-GHJK", shown=False),
    "/device/{user_code}/qr.svg": Door(Need.ANYBODY, at="/device/BCDF-GHJK/qr.svg"),
    # The developer portal.
    "/developer": Door(Need.SIGNED_IN),
    "/developer/new": Door(Need.DEVELOPER),
    "/developer/search": Door(Need.SIGNED_IN),
    "/developer/failures": Door(Need.SIGNED_IN, shown=False),
    "/developer/failures/{reference}": Door(
        Need.SIGNED_IN, at="/developer/failures/VK-7F3K-9QXM-2RTD", shown=False
    ),
    "/developer/try/callback": Door(Need.ANYBODY, shown=False),
    # Administration: people.
    "/admin": Door(Need.ROLE),
    "/admin/search": Door(Need.ROLE),
    "/admin/users": Door(Need.ROLE),
    "/admin/users/new": Door(Need.ROLE, Permission.USERS),
    "/admin/users/{uid}/edit": Door(Need.ROLE, Permission.USERS, at="/admin/users/1001/edit"),
    "/admin/users/import": Door(Need.ROLE, Permission.USERS),
    "/admin/users/import/{import_id}": Door(
        Need.ROLE, Permission.USERS, at="/admin/users/import/im_1", shown=False
    ),
    "/admin/users/import/{import_id}/report": Door(
        Need.ROLE, Permission.USERS, at="/admin/users/import/im_1/report", shown=False
    ),
    "/admin/users/selected/{act}": Door(
        Need.ROLE, Permission.USERS, at="/admin/users/selected/disable"
    ),
    "/admin/users/{uid}": Door(Need.ROLE, at="/admin/users/1001"),
    "/admin/users/{uid}/{act}": Door(Need.ROLE, Permission.USERS, at="/admin/users/1001/disable"),
    "/admin/roles": Door(Need.ROLE, changing=Permission.ROLES),
    "/admin/owner": Door(Need.LINK),
    "/admin/owner/account": Door(Need.LINK, shown=False),
    # Administration: things.
    "/admin/clients/new": Door(Need.ROLE, Permission.CLIENTS),
    "/admin/clients/{client_id}": Door(Need.ROLE, at="/admin/clients/web"),
    "/admin/clients/selected/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/clients/selected/disable"
    ),
    "/admin/selected-groups/{act}": Door(
        Need.ROLE, Permission.USERS, at="/admin/selected-groups/delete"
    ),
    "/admin/apis/selected/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/apis/selected/disable"
    ),
    "/admin/clients/{client_id}/edit": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/clients/web/edit", shown=False
    ),
    "/admin/clients/{client_id}/owners": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/clients/web/owners", shown=False
    ),
    "/admin/clients/{client_id}/groups": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/clients/web/groups", shown=False
    ),
    "/admin/groups/{group}/apps": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/groups/staff/apps", shown=False
    ),
    "/admin/clients/{client_id}/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/clients/web/disable"
    ),
    "/admin/apis": Door(Need.ROLE),
    "/admin/apis/new": Door(Need.ROLE, Permission.CLIENTS),
    "/admin/apis/{api_id}/edit": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/apis/none/edit", shown=False
    ),
    "/admin/apis/{api_id}/protect": Door(Need.ROLE, at="/admin/apis/none/protect", shown=False),
    "/admin/apis/{api_id}/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/apis/none/disable", shown=False
    ),
    "/admin/users/{uid}/attributes": Door(
        Need.ROLE, Permission.USERS, at="/admin/users/1001/attributes", shown=False
    ),
    "/admin/attributes": Door(Need.ROLE),
    "/admin/attributes/new": Door(Need.ROLE, Permission.CLIENTS),
    "/admin/attributes/{attribute}": Door(Need.ROLE, at="/admin/attributes/none", shown=False),
    "/admin/attributes/{attribute}/edit": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/attributes/none/edit", shown=False
    ),
    "/admin/attributes/{attribute}/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/attributes/none/delete", shown=False
    ),
    "/admin/claims": Door(Need.ROLE),
    "/admin/claims/new": Door(Need.ROLE, Permission.CLIENTS),
    "/admin/claims/preview": Door(Need.ROLE),
    "/admin/claims/{claim}": Door(Need.ROLE, at="/admin/claims/none", shown=False),
    "/admin/claims/{claim}/edit": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/claims/none/edit", shown=False
    ),
    "/admin/claims/{claim}/{act}": Door(
        Need.ROLE, Permission.CLIENTS, at="/admin/claims/none/delete", shown=False
    ),
    "/admin/scim": Door(Need.ROLE),
    "/admin/scim/new": Door(Need.ROLE, Permission.KEYS),
    "/admin/scim/{credential_id}": Door(Need.ROLE, at="/admin/scim/none", shown=False),
    "/admin/scim/{credential_id}/{act}": Door(
        Need.ROLE, Permission.KEYS, at="/admin/scim/none/end", shown=False
    ),
    "/admin/groups": Door(Need.ROLE),
    "/admin/groups/new": Door(Need.ROLE, Permission.USERS),
    "/admin/groups/{group}/edit": Door(
        Need.ROLE, Permission.USERS, at="/admin/groups/none/edit", shown=False
    ),
    "/admin/groups/{group}/api-roles": Door(
        Need.ROLE, Permission.USERS, at="/admin/groups/none/api-roles", shown=False
    ),
    "/admin/users/{uid}/api-roles": Door(
        Need.ROLE, Permission.USERS, at="/admin/users/1001/api-roles", shown=False
    ),
    "/admin/groups/{group}/members": Door(
        Need.ROLE, Permission.USERS, at="/admin/groups/none/members", shown=False
    ),
    "/admin/groups/{group}/{act}": Door(
        Need.ROLE, Permission.USERS, at="/admin/groups/none/delete", shown=False
    ),
    "/admin/webhooks": Door(Need.ROLE),
    "/admin/webhooks/new": Door(Need.ROLE, Permission.SETTINGS),
    **dict.fromkeys(
        ("/admin/webhooks/{webhook_id}/edit", "/admin/webhooks/{webhook_id}/{act}"),
        Door(Need.ROLE, Permission.SETTINGS, at="/admin/webhooks/none/disable", shown=False),
    ),
    "/admin/signal-streams": Door(Need.ROLE),
    "/admin/signal-streams/new": Door(Need.ROLE, Permission.SETTINGS),
    **dict.fromkeys(
        ("/admin/signal-streams/{stream_id}/edit", "/admin/signal-streams/{stream_id}/{act}"),
        Door(Need.ROLE, Permission.SETTINGS, at="/admin/signal-streams/none/disable", shown=False),
    ),
    "/admin/providers/new": Door(Need.ROLE, Permission.SETTINGS),
    "/admin/providers/{provider}": Door(Need.ROLE, at="/admin/providers/none", shown=False),
    **dict.fromkeys(
        ("/admin/providers/{provider}/edit", "/admin/providers/{provider}/{act}"),
        Door(Need.ROLE, Permission.SETTINGS, at="/admin/providers/none/disable", shown=False),
    ),
    "/admin/providers/{provider}/test": Door(
        Need.ROLE, changing=Permission.SETTINGS, at="/admin/providers/none/test", shown=False
    ),
    "/admin/keys/{kid}": Door(Need.ROLE, at="/admin/keys/none", shown=False),
    "/admin/keys/rotate": Door(Need.ROLE, Permission.KEYS),
    "/admin/keys/{kid}/{act}": Door(
        Need.ROLE, Permission.KEYS, at="/admin/keys/none/withdraw", shown=False
    ),
    "/admin/events/export": Door(Need.ROLE),
    "/admin/events/live": Door(Need.ROLE, shown=False),
    "/admin/filters": Door(Need.ROLE),
    **dict.fromkeys(
        ("/admin/settings/{setting}/edit", "/admin/settings/{setting}/{act}"),
        Door(Need.ROLE, Permission.SETTINGS, at="/admin/settings/none/reset", shown=False),
    ),
    "/admin/settings/brand": Door(Need.ROLE, Permission.SETTINGS),
    "/admin/settings/brand/preview/{page}": Door(
        Need.ROLE, Permission.SETTINGS, at="/admin/settings/brand/preview/sign-in"
    ),
    **dict.fromkeys(
        ("/admin/settings/brand/logo", "/admin/settings/brand/logo/remove"),
        Door(Need.ROLE, Permission.SETTINGS),
    ),
    "/admin/registration": Door(Need.ROLE),
    "/admin/registration/new": Door(Need.ROLE, Permission.CLIENTS),
    "/admin/registration/invitations/{invitation_id}/{act}": Door(
        Need.ROLE,
        Permission.CLIENTS,
        at="/admin/registration/invitations/in_1/withdraw",
        shown=False,
    ),
    "/admin/mail": Door(Need.ROLE, changing=Permission.SETTINGS),
    "/admin/tokens/new": Door(Need.ROLE, Permission.KEYS),
    "/admin/tokens/{token_id}": Door(Need.ROLE, at="/admin/tokens/at_1", shown=False),
    "/admin/tokens/{token_id}/{act}": Door(
        Need.ROLE, Permission.KEYS, at="/admin/tokens/at_1/end", shown=False
    ),
    "/admin/api/v1/openapi.json": _ANY,
    "/admin/api/v1/": Door(Need.ANYBODY, shown=False),
    "/admin/api/{+rest}": Door(Need.ANYBODY, at="/admin/api/x", shown=False),
    # Programs.
    "/oauth/jwks": _ANY,
    "/.well-known/ssf-configuration": _ANY,
    "/ssf/streams": Door(Need.BEARER),
    "/ssf/streams/{stream_id}/poll": Door(Need.BEARER, at="/ssf/streams/none/poll"),
    "/ssf/status": Door(Need.BEARER),
    "/ssf/subjects/add": Door(Need.BEARER),
    "/ssf/subjects/remove": Door(Need.BEARER),
    "/ssf/verification": Door(Need.BEARER),
    "/oauth/token": Door(Need.CLIENT),
    "/token": Door(Need.CLIENT),
    "/oauth/device-authorization": Door(Need.CLIENT),
    "/oauth/revoke": Door(Need.CLIENT),
    "/oauth/introspect": Door(Need.CLIENT),
    "/oauth/userinfo": Door(Need.BEARER),
    "/oauth/register": Door(Need.REGISTRATION),
    "/oauth/register/{client_id}": Door(Need.REGISTRATION, at="/oauth/register/web"),
    "/oauth/revocations": Door(Need.RESOURCE_SERVER),
    "/oauth/uses": Door(Need.RESOURCE_SERVER),
    "/oauth/identity": Door(Need.RESOURCE_SERVER),
}
"""The exceptions from what the areas below need, and everything outside of them."""

AREAS = (
    Area("/admin/api/", Door(Need.PROGRAM, shown=False)),
    Area("/admin/", Door(Need.ROLE, shown=False)),
    Area("/developer/apps/{client_id}", Door(Need.MEMBER, shown=False)),
    Area("/developer/", Door(Need.SIGNED_IN, shown=False)),
    Area("/account/", Door(Need.SIGNED_IN, shown=False)),
)
"""Tried in order. What is new in one of them is closed to all but those before it is named."""

ARGUMENTS = {"client_id": "web", "uid": "1001", "reference": "VK-7F3K-9QXM-2RTD"}


def door_of(path: str) -> Door | None:
    """What this route needs; None for one that nobody thought of."""
    if path in DOORS:
        return DOORS[path]
    return next((area.door for area in AREAS if path.startswith(area.prefix)), None)


def concrete(path: str, door: Door) -> str:
    """An address of the route."""
    at = door.at or path
    for name, value in ARGUMENTS.items():
        at = at.replace(f"{{{name}}}", value)
    return at.replace("{", "").replace("}", "")


PROGRAM_NEEDS: Mapping[str, Permission] = {
    "GET /users": Permission.READ,
    "POST /users": Permission.USERS,
    "GET /users/imports": Permission.USERS,
    "POST /users/imports": Permission.USERS,
    "GET /users/imports/{import_id}": Permission.USERS,
    "GET /users/imports/{import_id}/rows": Permission.USERS,
    "POST /users/imports/{import_id}/start": Permission.USERS,
    "POST /users/imports/{import_id}/stop": Permission.USERS,
    "GET /users/{uid}": Permission.READ,
    "PATCH /users/{uid}": Permission.USERS,
    "DELETE /users/{uid}": Permission.USERS,
    "POST /users/{uid}/disable": Permission.USERS,
    "POST /users/{uid}/enable": Permission.USERS,
    "POST /users/{uid}/sign-out": Permission.RESET,
    "POST /users/{uid}/reset-factors": Permission.RESET,
    "POST /users/{uid}/send-reset": Permission.RESET,
    "POST /users/{uid}/secure": Permission.USERS,
    "DELETE /users/{uid}/required-factor": Permission.USERS,
    "POST /users/{uid}/export": Permission.USERS,
    "POST /users/{uid}/password-link": Permission.USERS,
    "POST /users/{uid}/verify-email": Permission.USERS,
    "PUT /users/{uid}/developer": Permission.USERS,
    "DELETE /users/{uid}/developer": Permission.USERS,
    "DELETE /users/{uid}/apps/{client_id}": Permission.USERS,
    "PUT /users/{uid}/role": Permission.ROLES,
    "PUT /users/{uid}/email": Permission.USERS,
    "GET /users/{uid}/groups": Permission.READ,
    "PUT /users/{uid}/groups": Permission.USERS,
    "GET /users/{uid}/attributes": Permission.READ,
    "PATCH /users/{uid}/attributes": Permission.USERS,
    **dict.fromkeys(("GET /providers", "GET /providers/{provider}"), Permission.READ),
    "POST /providers": Permission.SETTINGS,
    "PATCH /providers/{provider}": Permission.SETTINGS,
    "POST /providers/{provider}/disable": Permission.SETTINGS,
    "POST /providers/{provider}/enable": Permission.SETTINGS,
    "DELETE /providers/{provider}": Permission.SETTINGS,
    "POST /providers/{provider}/test": Permission.SETTINGS,
    "GET /settings/{setting}": Permission.READ,
    "PUT /brand/logos/{mode}": Permission.SETTINGS,
    **dict.fromkeys(("PUT /settings/{setting}", "DELETE /settings/{setting}"), Permission.SETTINGS),
    "GET /signal-streams": Permission.READ,
    "POST /signal-streams": Permission.SETTINGS,
    "GET /signal-streams/{stream_id}": Permission.READ,
    "PATCH /signal-streams/{stream_id}": Permission.SETTINGS,
    "DELETE /signal-streams/{stream_id}": Permission.SETTINGS,
    "POST /signal-streams/{stream_id}/verify": Permission.SETTINGS,
    "POST /signal-streams/{stream_id}/enable": Permission.SETTINGS,
    "POST /signal-streams/{stream_id}/pause": Permission.SETTINGS,
    "POST /signal-streams/{stream_id}/disable": Permission.SETTINGS,
    "GET /signal-streams/{stream_id}/failures": Permission.READ,
    "POST /signal-streams/receivers/apple-business-manager": Permission.CLIENTS,
    "GET /webhooks": Permission.READ,
    "POST /webhooks": Permission.SETTINGS,
    "GET /webhooks/{webhook_id}": Permission.READ,
    "PATCH /webhooks/{webhook_id}": Permission.SETTINGS,
    "DELETE /webhooks/{webhook_id}": Permission.SETTINGS,
    "POST /webhooks/{webhook_id}/enable": Permission.SETTINGS,
    "POST /webhooks/{webhook_id}/disable": Permission.SETTINGS,
    "POST /webhooks/{webhook_id}/secret": Permission.SETTINGS,
    "GET /webhooks/{webhook_id}/attempts": Permission.READ,
    "POST /webhooks/{webhook_id}/test": Permission.SETTINGS,
    "POST /webhooks/{webhook_id}/events/{event_id}": Permission.SETTINGS,
    "GET /attributes": Permission.READ,
    "PUT /attributes/{attribute}": Permission.CLIENTS,
    "DELETE /attributes/{attribute}": Permission.CLIENTS,
    "GET /claims": Permission.READ,
    "GET /users/{uid}/claims/{client_id}": Permission.READ,
    "PUT /claims/{claim}": Permission.CLIENTS,
    "DELETE /claims/{claim}": Permission.CLIENTS,
    "GET /apis/{api_id}/roles/{role}": Permission.READ,
    "PUT /apis/{api_id}/roles/{role}/users/{uid}": Permission.USERS,
    "DELETE /apis/{api_id}/roles/{role}/users/{uid}": Permission.USERS,
    "PUT /apis/{api_id}/roles/{role}/groups/{group}": Permission.USERS,
    "DELETE /apis/{api_id}/roles/{role}/groups/{group}": Permission.USERS,
    "GET /groups": Permission.READ,
    "POST /groups": Permission.USERS,
    "GET /groups/{group}": Permission.READ,
    "PATCH /groups/{group}": Permission.USERS,
    "DELETE /groups/{group}": Permission.USERS,
    "GET /groups/{group}/members": Permission.READ,
    "PUT /groups/{group}/members/{uid}": Permission.USERS,
    "DELETE /groups/{group}/members/{uid}": Permission.USERS,
    "GET /apis": Permission.READ,
    "POST /apis": Permission.CLIENTS,
    "GET /apis/{api_id}": Permission.READ,
    "PATCH /apis/{api_id}": Permission.CLIENTS,
    "DELETE /apis/{api_id}": Permission.CLIENTS,
    "POST /apis/{api_id}/disable": Permission.CLIENTS,
    "POST /apis/{api_id}/enable": Permission.CLIENTS,
    "POST /apis/{api_id}/secrets": Permission.CLIENTS,
    "DELETE /apis/{api_id}/secrets/{secret_id}": Permission.CLIENTS,
    "GET /roles": Permission.READ,
    "GET /clients": Permission.READ,
    "POST /clients": Permission.CLIENTS,
    "GET /clients/{client_id}": Permission.READ,
    "PATCH /clients/{client_id}": Permission.CLIENTS,
    "DELETE /clients/{client_id}": Permission.CLIENTS,
    "POST /clients/{client_id}/adopt": Permission.CLIENTS,
    "PUT /clients/{client_id}/owners/{uid}": Permission.CLIENTS,
    "DELETE /clients/{client_id}/owners/{uid}": Permission.CLIENTS,
    "PUT /clients/{client_id}/groups/{group}": Permission.CLIENTS,
    "DELETE /clients/{client_id}/groups/{group}": Permission.CLIENTS,
    "POST /clients/{client_id}/disable": Permission.CLIENTS,
    "POST /clients/{client_id}/enable": Permission.CLIENTS,
    "PUT /clients/{client_id}/verified": Permission.CLIENTS,
    "DELETE /clients/{client_id}/verified": Permission.CLIENTS,
    "PUT /clients/{client_id}/legacy/{grant_type}": Permission.CLIENTS,
    "DELETE /clients/{client_id}/legacy/{grant_type}": Permission.CLIENTS,
    "POST /clients/{client_id}/secrets": Permission.CLIENTS,
    "DELETE /clients/{client_id}/secrets/{secret_id}": Permission.CLIENTS,
    "GET /events": Permission.READ,
    "GET /refusals/{reference}": Permission.READ,
    "POST /events/export": Permission.READ,
    "GET /overview": Permission.READ,
    "GET /keys": Permission.READ,
    "POST /keys/rotate": Permission.KEYS,
    "POST /keys/{kid}/withdraw": Permission.KEYS,
    "GET /settings": Permission.READ,
    "GET /brand": Permission.READ,
    "PATCH /brand": Permission.SETTINGS,
    "GET /registration": Permission.READ,
    "GET /invitations": Permission.READ,
    "POST /invitations": Permission.CLIENTS,
    "DELETE /invitations/{invitation_id}": Permission.CLIENTS,
    "GET /mail": Permission.READ,
    "POST /mail/test": Permission.SETTINGS,
    "GET /token": Permission.READ,
    "GET /tokens": Permission.READ,
    "POST /tokens": Permission.KEYS,
    "DELETE /tokens/{token_id}": Permission.KEYS,
    "GET /scim-credentials": Permission.READ,
    "POST /scim-credentials": Permission.KEYS,
    "POST /scim-credentials/{credential_id}/rotate": Permission.KEYS,
    "DELETE /scim-credentials/{credential_id}": Permission.KEYS,
}
"""What each operation of the admin API needs, written by hand: never read from the operations."""
