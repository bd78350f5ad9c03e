"""The page of endpoints: what the two servers really serve, with a sentence for each path."""

import asyncio
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

from valetkey.authorization.actions.admin.permissions import MAY, Permission
from valetkey.authorization.app import build as authorization
from valetkey.authorization.app.foundation import prepare
from valetkey.authorization.endpoints.admin_api.endpoint import OPENAPI
from valetkey.authorization.operations.operation import PREFIX, Operation
from valetkey.authorization.operations.table import AREAS
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.config.load import load
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource import app as resource
from valetkey.resource.objects import OBJECTS
from valetkey.resource.resource_object import Verb
from valetkey.resource.scopes import SCOPES
from valetkey.web.router import Route

ASSETS = "/assets/"
API = "/v2/"
ADMIN_API = "/admin/api/"
SCIM = "/scim/v2/"
# Some routes are there where a provider is.
_PROVIDER = '[{"id": "other", "issuer": "https://other.example", "client_id": "us"}]'

SENTENCES = {
    "/.well-known/openid-configuration": "What this server can do, for programs (Discovery 3).",
    "/.well-known/oauth-authorization-server": "The same document under its other name (RFC 8414).",
    "/oauth/jwks": "The keys that verify its tokens: next, current, retiring (RFC 7517).",
    "/oauth/authorize": "Where an application sends people to ask them (RFC 6749 section 3.1).",
    "/oauth/token": "Tokens for every grant type (RFC 6749 section 3.2).",
    "/token": "Tokens for client credentials alone.",
    "/oauth/device-authorization": "A device asks for the code that it shows (RFC 8628).",
    "/device": "Where users enter the code that a device shows.",
    "/device/{user_code}": "What the device asks for, allowed or denied.",
    "/device/{user_code}/qr.svg": "The QR code of that page, for devices that cannot draw one.",
    "/oauth/revoke": "Ends an access token, or by its refresh token a whole grant (RFC 7009).",
    "/oauth/introspect": "What a token is worth now (RFC 7662); signed, if asked for (RFC 9701).",
    "/oauth/register": "An application registers itself, where that is on (RFC 7591).",
    "/oauth/register/{client_id}": "It reads, changes, removes its registration (RFC 7592).",
    "/oauth/revocations": "What ended before its time: pages or a stream. For the resource server.",
    "/oauth/uses": "Which granted scopes apps used. From the resource server and declared APIs.",
    "/oauth/identity": "Account, client and authorizations of a token. For the resource server.",
    "/oauth/userinfo": "Claims about the person behind an access token (OpenID Connect Core 5.3).",
    "/oauth/sign-in": "The sign-in page.",
    "/oauth/second-factor": "The second step of signing in, where the account has a second factor.",
    "/oauth/consent": "The consent page: who asks for what, allow or deny.",
    "/oauth/switch-account": "Somebody else wants to decide: back to the sign-in page.",
    "/oauth/sign-out": "The sign-out page.",
    "/oauth/logout": "Where an application sends people to sign out (RP-Initiated Logout 1.0).",
    "/oauth/check-session": "A frame in which applications ask about the session, in the browser.",
    "/oauth/start": "Opens an application, which then sends the person here (OpenID Core 4).",
    "/account/profile": "What one says of oneself: names, website, language, time zone, address.",
    "/account/profile/picture": "Upload a picture.",
    "/account/profile/picture/remove": "Remove the uploaded picture.",
    "/account/data": "Everything that is known of one, as one file, for who proved who they are.",
    "/account/delete": "Asks, and plans the end of the account; signing in calls it off.",
    "/account/apps": "Connected apps: who may do what, since when.",
    "/account/apps/app": "One of them: what it may do, what of that it used, and since when.",
    "/account/apps/end": "Asks, and ends the access of one of them.",
    "/account/apps/end-all": "The same for all of them.",
    "/account/sessions": "Where one is signed in; signs out one other browser, or all others.",
    "/account/security": "What opens the account: passkeys, an app, codes, the password.",
    "/account/security/password": "Changes the password; the current one is asked.",
    "/account/security/password/remove": "Asks, and lets passkeys alone open the account.",
    "/account/security/passkeys/new": "The browser makes a passkey.",
    "/account/security/passkeys/{id}": "One passkey: its name, its last use.",
    "/account/security/passkeys/{id}/remove": "Asks, and removes it.",
    "/account/security/authenticator/new": "Sets up an authenticator app, by a code of it.",
    "/account/security/authenticator/remove": "Asks, and removes it.",
    "/account/security/recovery-codes": "How many are left; a new set, shown once.",
    "/account/security/recovery-codes/download": "The set just shown, as a file.",
    "/account/security/devices": "The second factor is asked for again, in one browser or in all.",
    "/account/new": "Makes an account, where one may (`accounts.sign_up`).",
    "/account/new/confirm": "The link in the letter that finishes it.",
    "/account/forgotten": "Sends a link to who forgot their password.",
    "/account/reset": "The link: another password.",
    "/account/email": "The account's address; has it confirmed, or another one sent a link.",
    "/account/email/confirm": "The link to a new address.",
    "/account/email/verify": "The link to the address that the account has.",
    "/account/email/undo": "The link by which the old address takes the account back.",
    "/account/confirm": "Asks again who it is, before something that matters.",
    "/account/activity": "What happened to the account, newest first.",
    "/developer": "The apps that a person registered, or helps to look after.",
    "/developer/new": "Registers an app, where the settings let people do so.",
    "/developer/apps/{client_id}/settings": "Changes it.",
    "/developer/apps/{client_id}/secrets": "Its secrets: when each was used, and one more.",
    "/developer/apps/{client_id}/secrets/end": "Asks, and ends one of them.",
    "/developer/apps/{client_id}/webhooks": "Its webhooks: where events about it are sent.",
    "/developer/apps/{client_id}/webhooks/new": "Creates a webhook, and shows its secret once.",
    "/developer/apps/{client_id}/webhooks/{webhook_id}": "One webhook, and its delivery log.",
    "/developer/apps/{client_id}/webhooks/{webhook_id}/edit": "Changes address and events.",
    "/developer/apps/{client_id}/webhooks/{webhook_id}/{act}": "Asks, and does it: test, replay, "
    "rotate the secret, disable, enable, delete.",
    "/developer/apps/{client_id}/team": "Who looks after it, and who is asked to.",
    "/developer/apps/{client_id}/team/remove": "Asks, and takes somebody out of the team.",
    "/developer/apps/{client_id}/delete": "Says what it breaks, and deletes the app by its name.",
    "/developer/invitations/{invitation_id}": "Come into the team of an app, or stay away.",
    "/developer/apps/{client_id}/legacy": "Asks, and takes a grant type of old from it.",
    "/developer/apps/{client_id}": "One of them: its id, where it stands, what is to be done.",
    "/developer/apps/{client_id}/failures": "What was refused it, newest first.",
    "/developer/apps/{client_id}/quickstart": "A complete app in a stack of choice, by `in`.",
    "/developer/apps/{client_id}/start": "Programs to paste, with its own ids in them.",
    "/developer/apps/{client_id}/try": "Begins a run of the flow, with oneself as the person.",
    "/developer/apps/{client_id}/try/answer": "Shows the answer in an address that was pasted.",
    "/developer/apps/{client_id}/try/exchange": "Exchanges the code at the token endpoint.",
    "/developer/apps/{client_id}/try/userinfo": "Asks userinfo with the token.",
    "/developer/try/callback": "Catches the answer, in the session that began; no client has it.",
    "/developer/apps/{client_id}/health": "What should be mended about it.",
    "/developer/apps/{client_id}/health/{fix}": "Asks, and mends one of these things.",
    "/developer/apps/{client_id}/usage": "What it was used for, day by day.",
    "/developer/apps/{client_id}/people": "Who connected with it, as far as the app may know.",
    "/developer/apps/{client_id}/failures/{reference}": "Why it was refused, and what mends it.",
    "/developer/apps/{client_id}/failures/{reference}/add": "Asks, and adds the URI it wanted.",
    "/developer/failures": "Leads the team of an app to the refusal with this reference.",
    "/developer/failures/{reference}": "The same, for a link.",
    "/oauth/sign-in/with/{provider}": "Leads to another server to sign in at, where one is named.",
    "/oauth/sign-in/with/{provider}/callback": "The way back from there.",
    "/oauth/sign-in/arrived": "For who came from there and has no account here yet.",
    "/account/connections": "The accounts elsewhere from which a person signs in.",
    "/admin": "For people with a role: how it goes, in numbers and charts.",
    "/admin/users": "Everybody who has an account: searched, filtered, page by page.",
    "/admin/users/import": "Uploads a file of users; it is checked before anything is imported.",
    "/admin/users/import/{import_id}": "An import: its progress, the result of the check, the "
    "decision.",
    "/admin/users/import/{import_id}/report": "The outcome of every row of the file, as CSV.",
    "/admin/users/{uid}": "One of them: ways to sign in, sessions, apps, what happened.",
    "/admin/users/{uid}/{act}": "Asks, and does something for them, to them or with them.",
    "/admin/roles": "Who has which role; owners give them.",
    "/admin/owner": "Where the link of `valetkey owner` leads: it makes an owner, once.",
    "/admin/owner/account": "An account for who comes with that link and has none.",
    "/language": "Keeps in which language somebody wants the pages.",
    "/account": "Leads to the front page.",
    "/": "Who runs this; for who is signed in, the front page of their account.",
    "/errors/": "All error codes.",
    "/errors/{code}": "One error code, explained.",
    "/docs/": "The documentation of this version, unless `docs.url` names another copy.",
    "/docs/{+file}": "A page or a file of it.",
    "/logos/{name}": "A copy of an app's logo.",
    "/pictures/{name}": "A picture that a user uploaded.",
    "/notices/query-string": "Why a secret in an address should be replaced, and how.",
    "/.well-known/oauth-protected-resource": "Whom this API trusts, and its scopes (RFC 9728).",
    "/forward-auth": "Who is calling, for a proxy that asks before it passes a request on.",
    "/forward-auth/{+rest}": "The same for proxies that append the path of the request.",
    "/health/live": "200 while the process answers.",
    "/health/started": "200 once the server has started, whatever happens later.",
    "/health/ready": "200 while a write transaction commits, else 503.",
    "/v2/": "This API for people: every object, with requests in curl, Python and JavaScript.",
    "/v2/openapi.json": "This API for programs (OpenAPI 3.1).",
    "/admin/apis": "APIs by identifier.",
    "/admin/apis/new": "Declare an API.",
    "/admin/apis/{api_id}": "One API: scopes, secrets, and what can be done.",
    "/admin/apis/{api_id}/edit": "Change what an API declares.",
    "/admin/apis/{api_id}/protect": "Code that protects an API, by framework.",
    "/admin/apis/{api_id}/{act}": "Asks, and does it: secrets, disable, enable, delete.",
    "/admin/webhooks": "Webhooks: where chosen events are sent.",
    "/admin/webhooks/new": "Creates a webhook, and shows its secret once.",
    "/admin/webhooks/{webhook_id}": "One webhook, and its delivery log.",
    "/admin/webhooks/{webhook_id}/edit": "Changes address, events and description.",
    "/admin/webhooks/{webhook_id}/{act}": "Asks, and does it: test, send again, rotate the secret, "
    "disable, enable, delete.",
    "/admin/users/{uid}/api-roles": "Assign a role at an API to a user, or remove it.",
    "/admin/groups/{group}/api-roles": "Assign a role at an API to a group, or remove it.",
    "/admin/users/{uid}/attributes": "Edit the attributes of a user.",
    "/admin/attributes": "Declared attributes of accounts.",
    "/admin/attributes/new": "Declare an attribute.",
    "/admin/attributes/{attribute}/edit": "Change an attribute.",
    "/admin/attributes/{attribute}/{act}": "Asks, and deletes the attribute.",
    "/admin/claims": "Declared claims of tokens.",
    "/admin/claims/new": "Declare a claim.",
    "/admin/claims/preview": "What the tokens of a user for an app and an API would hold.",
    "/admin/claims/{claim}/edit": "Change a claim.",
    "/admin/claims/{claim}/{act}": "Asks, and deletes the claim.",
    "/admin/scim": "Credentials for provisioning by SCIM.",
    "/admin/scim/new": "Create a credential; its token is shown this once.",
    "/admin/scim/{credential_id}/{act}": "Asks, and does it: rotate the token, revoke.",
    "/admin/groups": "Groups of users: search.",
    "/admin/groups/new": "Create a group.",
    "/admin/groups/{group}": "One group: members, groups in it, apps that require it.",
    "/admin/groups/{group}/edit": "Rename a group, move it, change its description.",
    "/admin/groups/{group}/members": "Add a user to a group.",
    "/admin/groups/{group}/{act}": "Asks, and does it: remove a user, delete.",
    "/admin/clients": "Apps: search, filter.",
    "/admin/clients/new": "Register an app, and show its secret and configuration once.",
    "/admin/clients/{client_id}": "One app: everything but its secrets, and what can be done.",
    "/admin/clients/{client_id}/{act}": "Asks, and does it: verify, secrets, on and off, delete.",
    "/admin/keys": "Signing keys: next, current, retiring.",
    "/admin/keys/rotate": "Asks, and rotates them before their time.",
    "/admin/keys/{kid}/withdraw": "Asks, and refuses everything that this key signed.",
    "/admin/events": "What happened: search, filter.",
    "/admin/events/export": "Asks, and gives a copy as CSV or NDJSON.",
    "/admin/settings": "Every setting, where its value comes from, and why it exists.",
    "/admin/settings/brand": "Changes name, logo, colour and links while the server runs.",
    "/admin/registration": "Who may register apps; makes invitations.",
    "/admin/registration/invitations/{invitation_id}/withdraw": "Takes one back.",
    "/admin/mail": "How the post stands; sends a letter to try it.",
    "/admin/tokens": "Tokens of the admin API.",
    "/admin/tokens/new": "Makes one.",
    "/admin/tokens/{token_id}/end": "Asks, and ends one.",
    ADMIN_API: "What the console does, for programs (OpenAPI 3.1 in `v1/openapi.json`).",
    SCIM: "Directories provision users and groups (RFC 7644), where `scim.enabled` says so.",
    ASSETS: "Stylesheet and icon, under names that change with their content.",
}


def endpoints() -> Iterator[str]:
    """Every path of both servers, every object and every scope."""
    ours, theirs = asyncio.run(_routes())
    yield "# Endpoints"
    yield (
        "Paths match exactly as they are sent. Another method is 405 with `Allow`. Bodies are\n"
        "forms of at most 64 KiB or JSON of at most 1 MiB. Addresses have at most 8 KiB."
    )
    yield "## Authorization server"
    yield _table(ours)
    yield (
        "Clients show who they are in the body, with HTTP Basic, with `private_key_jwt`, or, in\n"
        "the `classic` profile, in the query string. Exactly one of these at a time. The three\n"
        "paths for the resource server take its credential with HTTP Basic and nobody else's.\n"
        "A public client sends `client_id` alone, in the body or with HTTP Basic and no secret."
    )
    yield "## Resource server"
    yield _table([route for route in theirs if not _is_object(route)])
    yield (
        "`Authorization: Bearer …`, and nowhere else. Errors are problem documents (RFC 9457). A\n"
        "POST without a body reads; a POST with a body creates."
    )
    yield "\n".join(
        [
            "| path | methods | to read | to write |",
            "|---|---|---|---|",
            *(_object_row(route) for route in theirs if _is_object(route)),
        ]
    )
    yield "\n".join(
        f"`/v2/{kind.name}` lists the newest {kind.newest:,} {kind.name}; it has no more pages."
        for kind in OBJECTS
        if kind.newest
    )
    yield "## Scopes"
    yield "People read the sentence, never the name."
    yield "\n".join(
        [
            "| scope | sentence |",
            "|---|---|",
            *(
                f"| `{name}` | {text or 'for a client alone, never asked of people'} |"
                for name, text in {**SCOPES, **IDENTITY_SCOPES}.items()
            ),
        ]
    )


def _table(routes: Sequence[Route]) -> str:
    rows = {_path(route): route for route in routes}
    return "\n".join(
        [
            "| path | methods | what it is |",
            "|---|---|---|",
            *(
                f"| `{path}` | {_methods(route)} | {SENTENCES[path]} |"
                for path, route in rows.items()
            ),
        ]
    )


def _path(route: Route) -> str:
    for folder in (ASSETS, ADMIN_API, SCIM):
        if route.path.startswith(folder):
            return folder
    return route.path


def _methods(route: Route) -> str:
    return ", ".join(method for method in route.methods if method != "HEAD")


def _is_object(route: Route) -> bool:
    return route.path.startswith(API) and route.path not in SENTENCES


def _object_row(route: Route) -> str:
    (kind,) = (each for each in OBJECTS if each.name == route.path.split("/")[2])
    reads = " or ".join(f"`{name}`" for name in kind.scopes(Verb.READ))
    writes = " or ".join(f"`{name}`" for name in kind.scopes(Verb.CHANGE))
    return f"| `{route.path}` | {_methods(route)} | {reads} | {writes if kind.writes else ''} |"


async def _routes() -> tuple[Sequence[Route], Sequence[Route]]:
    """What the servers serve: built as they are at a start, on a folder that goes away."""
    with TemporaryDirectory() as folder:
        environment = {
            f"VALETKEY__{server}__DATABASE": f"sqlite:///{folder}/{server}.db"
            for server in ("AUTHORIZATION", "RESOURCE")
        }
        environment["VALETKEY__FEDERATION__PROVIDERS"] = _PROVIDER
        environment["VALETKEY__FEDERATION__SECRETS"] = "other=secret"
        environment["VALETKEY__SCIM__ENABLED"] = "true"
        settings = load(None, environment)
        await prepare(settings, SYSTEM)
        await resource.prepare(settings, SYSTEM)
        ours = await authorization.build(settings, SYSTEM, SCOPES)
        theirs = await resource.build(settings, SYSTEM)
        async with ours.running(), theirs.running():
            return ours.routes, theirs.routes


def admin_api() -> Iterator[str]:
    """Manners, permissions, and a table for each area."""
    yield "# Admin API"
    yield (
        "Manage users, apps and keys from your own programs. Every path begins with\n"
        f"`{PREFIX}`. The document for programs (OpenAPI 3.1) is at\n"
        f"`{OPENAPI}`. How to begin:\n"
        "[automate administration](../how-to/operate/automate-administration.md)."
    )
    yield (
        "- `Authorization: Bearer vka_…`, and nothing else: no cookie opens it.\n"
        "- Bodies are JSON of at most 1 MiB, read strictly: an unknown member is an error.\n"
        "- Errors are problem documents (RFC 9457). `errors` names wrong fields by JSON pointer;\n"
        "  `reference` is what `valetkey explain` takes.\n"
        "- Lists have `limit` and `after`; `next` and the `Link` header lead on.\n"
        "- What has an `ETag` is changed with `If-Match`; 412 if somebody was faster.\n"
        "- What is not there and what nobody may know of is 404 in the same words."
    )
    yield "## Permissions"
    yield (
        "A token has some of these. It allows what both it and the role of its maker allow, asked\n"
        "in the transaction that acts: a maker who loses a role has weaker tokens at once."
    )
    roles = tuple(MAY)
    yield "\n".join(
        [
            f"| permission | {' | '.join(role.value for role in roles)} |",
            f"|---|{'---|' * len(roles)}",
            *(
                f"| `{each.value}` | "
                + " | ".join("yes" if each in MAY[role] else "" for role in roles)
                + " |"
                for each in Permission
            ),
        ]
    )
    for area, operations in AREAS.items():
        yield f"## {area.capitalize()}"
        yield "\n".join(
            [
                "| operation | needs | what it does |",
                "|---|---|---|",
                *map(_operation_row, operations),
            ]
        )


def _operation_row(operation: Operation) -> str:
    said = ". ".join(
        text.removesuffix(".") for text in (operation.summary, operation.description) if text
    )
    query = ", ".join(f"`{each.name}`" for each in operation.query)
    narrowed = f" Query: {query}." if query else ""
    guarded = " With `If-Match`." if operation.guarded else ""
    return (
        f"| `{operation.method} {operation.path}` | `{operation.permission.value}` |"
        f" {said}.{narrowed}{guarded} |"
    )
