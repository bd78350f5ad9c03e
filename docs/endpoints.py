"""Generate the endpoint reference from the routes of both servers."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

from valetkey.authorization.app import build as authorization
from valetkey.authorization.app.foundation import prepare
from valetkey.authorization.endpoints.admin_api import OPENAPI
from valetkey.authorization.features import AREAS
from valetkey.authorization.operations.operation import PREFIX, Operation
from valetkey.authorization.operations.table import title_of
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
# Routes of upstream sign-in exist only if a provider is configured.
_PROVIDER = '[{"id": "other", "issuer": "https://other.example", "client_id": "us"}]'

_SENTENCE = re.compile(r"[^\n]+?\.(?=\s|$)")

# A page is described by the docstrings of its handlers, unless it shares them with others.
SENTENCES = {
    "/.well-known/openid-configuration": "Provider metadata (OpenID Connect Discovery 1.0).",
    "/.well-known/oauth-authorization-server": "The same metadata at its OAuth path (RFC 8414).",
    "/oauth/jwks": "Public signing keys: next, current, retiring (RFC 7517).",
    "/.well-known/jwks.json": "The same keys, for software that looks for them here.",
    "/oauth/authorize": "Authorization endpoint (RFC 6749, section 3.1).",
    "/oauth/token": "Token endpoint, for every grant type (RFC 6749, section 3.2).",
    "/token": "Token endpoint for the client credentials grant only.",
    "/oauth/device-authorization": "Device authorization endpoint (RFC 8628).",
    "/device/{user_code}/qr.svg": "QR code of that page, for devices that cannot draw one.",
    "/oauth/revoke": "Revoke an access token, or a grant by its refresh token (RFC 7009).",
    "/oauth/introspect": "Token introspection (RFC 7662), signed on request (RFC 9701).",
    "/oauth/register": "Dynamic client registration, if enabled (RFC 7591).",
    "/oauth/register/{client_id}": "Read, update or delete such a registration (RFC 7592).",
    "/oauth/revocations": "Revocations, paged or as a stream. For the resource server.",
    "/oauth/uses": "Reports of scopes that apps used. For the resource server and declared APIs.",
    "/oauth/identity": "Account, client and authorizations of a token. For the resource server.",
    "/oauth/userinfo": "Claims about the user of an access token (OpenID Connect Core 5.3).",
    "/oauth/logout": "End session endpoint (OpenID Connect RP-Initiated Logout 1.0).",
    "/oauth/check-session": "Session iframe (OpenID Connect Session Management 1.0).",
    "/oauth/start": "Start sign-in at an app (OpenID Connect Core 4).",
    "/language": "Remember the preferred language of the pages.",
    "/account": "Redirect to the front page.",
    "/docs/": "Documentation of this version, unless `docs.url` names another copy.",
    "/docs/{+file}": "A page or file of the documentation.",
    "/logos/{name}": "Copy of an app's logo.",
    "/pictures/{name}": "Picture that a user uploaded.",
    "/.well-known/oauth-protected-resource": "Trusted issuer and scopes of the API (RFC 9728).",
    "/forward-auth": "Authenticate a request for a proxy (forward authentication).",
    "/forward-auth/{+rest}": "The same, for proxies that append the request's path.",
    "/health/live": "200 while the process responds.",
    "/health/started": "200 once the server has started.",
    "/health/ready": "200 while a write transaction commits, otherwise 503.",
    "/v2/": "Reference of this API, with requests in curl, Python and JavaScript.",
    "/v2/openapi.json": "OpenAPI 3.1 document of this API.",
    "/developer/apps/{client_id}/webhooks/new": "Create a webhook; its secret is shown once.",
    "/developer/apps/{client_id}/webhooks/{webhook_id}/edit": "Change its URL and events.",
    "/developer/apps/{client_id}/webhooks/{webhook_id}/{act}": "Confirm and run an action: test, "
    "replay, rotate the secret, disable, enable, delete.",
    "/admin/users/{uid}/{act}": "Confirm and run an action on a user.",
    "/admin/groups/new": "Create a group.",
    "/admin/groups/{group}/edit": "Rename or move a group, or change its description.",
    "/admin/groups/{group}/{act}": "Confirm and remove a member, or delete the group.",
    "/admin/attributes/{attribute}": "An attribute and the claims that use it.",
    "/admin/attributes/{attribute}/{act}": "Confirm and delete an attribute.",
    "/admin/scim/new": "Create a credential; its token is shown once.",
    "/admin/scim/{credential_id}/{act}": "Confirm and rotate its token, or revoke it.",
    "/admin/clients/{client_id}/{act}": "Confirm and run an action: verify, secrets, disable, "
    "enable, delete.",
    "/admin/apis/new": "Declare an API.",
    "/admin/apis/{api_id}/edit": "Change an API.",
    "/admin/apis/{api_id}/{act}": "Confirm and run an action: secrets, disable, enable, delete.",
    "/admin/claims/{claim}": "A claim: its source, and the tokens that contain it.",
    "/admin/claims/{claim}/{act}": "Confirm and delete a claim.",
    "/admin/webhooks/new": "Create a webhook; its secret is shown once.",
    "/admin/webhooks/{webhook_id}/edit": "Change URL, events and description.",
    "/admin/webhooks/{webhook_id}/{act}": "Confirm and run an action: test, replay, rotate the "
    "secret, disable, enable, delete.",
    "/admin/keys/{kid}": "A signing key: its state, its dates, and the events about it.",
    "/admin/keys/rotate": "Confirm and rotate the signing keys now.",
    "/admin/keys/{kid}/{act}": "Confirm and reject every token that this key signed.",
    "/admin/tokens/{token_id}": "An API token: what it may do, who created it, until when.",
    "/admin/tokens/{token_id}/{act}": "Confirm and revoke an API token.",
    ADMIN_API: "Admin API (OpenAPI 3.1 in `v1/openapi.json`).",
    SCIM: "Provisioning of users and groups (SCIM, RFC 7644), if `scim.enabled` is set.",
    ASSETS: "Stylesheets, scripts and icons; their names change with their content.",
}


def endpoints() -> Iterator[str]:
    """Every path of both servers, every object and every scope."""
    ours, theirs = asyncio.run(_routes())
    yield "# Endpoints"
    yield (
        "Paths match exactly as they are sent. Other methods return 405 with `Allow`. Bodies are\n"
        "forms of at most 64 KiB or JSON of at most 1 MiB. URLs have at most 8 KiB. Where a page\n"
        "accepts a form, GET shows it and the purpose is that of the form."
    )
    yield "## Authorization server"
    yield _table(ours)
    yield (
        "Clients authenticate in the body, with HTTP Basic, with `private_key_jwt`, or, in the\n"
        "`classic` profile, in the query string: exactly one of these per request. The three\n"
        "paths for the resource server accept only its own credential, with HTTP Basic. A public\n"
        "client sends `client_id` alone, in the body or with HTTP Basic and an empty secret."
    )
    yield "## Resource server"
    yield _table([route for route in theirs if not _is_object(route)])
    yield (
        "Tokens are accepted in `Authorization: Bearer …` only. Errors are problem documents\n"
        "(RFC 9457). A POST without a body reads; a POST with a body creates."
    )
    yield "\n".join(
        [
            "| path | methods | to read | to write |",
            "|---|---|---|---|",
            *(_object_row(route) for route in theirs if _is_object(route)),
        ]
    )
    yield "\n".join(
        f"`/v2/{kind.name}` lists the newest {kind.newest:,} {kind.name}; it has no further pages."
        for kind in OBJECTS
        if kind.newest
    )
    yield "## Scopes"
    yield "The consent page shows the description, never the name."
    yield "\n".join(
        [
            "| scope | description |",
            "|---|---|",
            *(
                f"| `{name}` | {text or 'client credentials only; never shown to users'} |"
                for name, text in {**SCOPES, **IDENTITY_SCOPES}.items()
            ),
        ]
    )


def _table(routes: Sequence[Route]) -> str:
    rows = {_path(route): route for route in routes}
    return "\n".join(
        [
            "| path | methods | purpose |",
            "|---|---|---|",
            *(
                f"| `{path}` | {_methods(route)} | {SENTENCES.get(path) or _purpose(route)} |"
                for path, route in rows.items()
            ),
        ]
    )


def _purpose(route: Route) -> str:
    """Return the first sentence about a page, or about what is sent to it if it is a form."""
    sentences: dict[str, None] = {}
    sends = route.methods.keys() - {"GET", "HEAD"}
    for method, endpoint in route.methods.items():
        match = _SENTENCE.match(endpoint.__doc__ or "")
        if match is None:
            message = f"{route.path} is no page of a feature: write its purpose in SENTENCES"
            raise ValueError(message)
        if method in sends or (method == "GET" and not sends):
            sentences[match[0]] = None
    return " ".join(sentences)


def _path(route: Route) -> str:
    for folder in (ASSETS, ADMIN_API, SCIM):
        if route.path.startswith(folder):
            return folder
    # SCIM is also answered below its base URL as people type it.
    return SCIM if route.path.lower().startswith("/scim/") else route.path


def _methods(route: Route) -> str:
    return ", ".join(method for method in route.methods if method != "HEAD")


def _is_object(route: Route) -> bool:
    return route.path.startswith(API) and route.path not in SENTENCES


def _object_row(route: Route) -> str:
    (kind,) = (candidate for candidate in OBJECTS if candidate.name == route.path.split("/")[2])
    reads = " or ".join(f"`{name}`" for name in kind.scopes(Verb.READ))
    writes = " or ".join(f"`{name}`" for name in kind.scopes(Verb.CHANGE))
    return f"| `{route.path}` | {_methods(route)} | {reads} | {writes if kind.writes else ''} |"


async def _routes() -> tuple[Sequence[Route], Sequence[Route]]:
    """Return the routes of both servers, built on temporary databases."""
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
    """Conventions, permissions, and a table for each area."""
    yield "# Admin API"
    yield (
        "Manage users, apps and keys from your own programs. Every path begins with\n"
        f"`{PREFIX}`, where an administrator's browser shows each\n"
        "operation with programs and a form that sends it. The OpenAPI 3.1 document is at\n"
        f"`{OPENAPI}`. To get started, see\n"
        "[automate administration](../how-to/operate/automate-administration.md)."
    )
    yield (
        "- Authenticate with `Authorization: Bearer vka_…`. Cookies are ignored.\n"
        "- Bodies are JSON of at most 1 MiB. Unknown members are an error.\n"
        "- Errors are problem documents (RFC 9457). `errors` lists invalid fields by JSON\n"
        "  pointer; pass `reference` to `valetkey explain`.\n"
        "- Lists accept `limit` and `cursor`: send `next` of a page as the `cursor` of the\n"
        "  following one, until it is null, or follow the `Link` header.\n"
        "- To change a resource that has an `ETag`, send it as `If-Match`. The response is 412 if\n"
        "  the resource has changed since.\n"
        "- A missing resource and one that the token may not see return the same 404."
    )
    yield "## Permissions"
    yield (
        "A token has some of these permissions, limited to those of the role of the user who\n"
        "created it. Both are checked in the transaction of each request, so a user who loses a\n"
        "role loses the permissions of their tokens at once. [Roles](roles.md) lists what each\n"
        "permission allows."
    )
    for area, operations in AREAS.items():
        yield f"## {title_of(area)}"
        yield "\n".join(
            [
                "| operation | permission | description |",
                "|---|---|---|",
                *map(_operation_row, operations),
            ]
        )


def _operation_row(operation: Operation) -> str:
    explanation = ". ".join(
        text.removesuffix(".") for text in (operation.summary, operation.description) if text
    )
    query = ", ".join(f"`{parameter.name}`" for parameter in operation.query)
    narrowed = f" Query: {query}." if query else ""
    guarded = " With `If-Match`." if operation.requires_if_match else ""
    event = f" Event: `{operation.event.name}`." if operation.event else ""
    return (
        f"| `{operation.method} {operation.path}` | `{operation.permission.value}` |"
        f" {explanation}.{narrowed}{guarded}{event} |"
    )
