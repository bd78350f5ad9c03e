"""A server for browsers: two users with a password, two apps, no background jobs."""

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.harness import CREDENTIAL, NOON, Harness
from tests.support.harness import run as run_harness
from tests.support.plain_browser import PASSWORD
from valetkey.authorization.authentication.password import hash_password
from valetkey.authorization.model.client import (
    ApplicationType,
    AuthenticationMethod,
    Client,
    ClientType,
    ProfileName,
)
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.testing.server import QUICK_PASSWORDS

ISSUER = "https://auth.example"
API = "https://api.example"
SCOPES = {
    "read": "read everything of yours",
    "write": "change everything of yours",
    "notes:read": "read your notes",
    "notes:write": "change your notes",
    **IDENTITY_SCOPES,
    "client:read": "read its own record",
    "client:write": "change its own record",
}
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636 appendix B
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}

WEB = Client(
    id="web1",
    name="Notes Printer",
    description="Prints your notes",
    profile_name=ProfileName.CLASSIC,
    redirect_uris=("https://app.example/cb",),
    grant_types=frozenset({"authorization_code", "refresh_token"}),
    scope=Scope.of("read", "write", "notes:read", "client:read"),
    default_scope=Scope.of("notes:read"),
    requires_pkce=False,
    created_at=NOON,
    changed_at=NOON,
)
NATIVE = replace(
    WEB,
    id="nat1",
    name="Pocket Printer",
    type=ClientType.PUBLIC,
    application_type=ApplicationType.NATIVE,
    authentication_method=AuthenticationMethod.NONE,
    redirect_uris=("http://127.0.0.1/cb",),
)
ALICE = User(
    uid=Uid(1001),
    username="alice",
    email="alice@example.com",
    email_verified_at=None,
    name="Alice Liddell",
    created_at=NOON,
    changed_at=NOON,
    disabled_at=None,
)
BOB = replace(ALICE, uid=Uid(1002), username="bob", email="bob@example.com", name="Bob")


@cache
def _password_hash() -> str:
    return hash_password(PASSWORD, QUICK_PASSWORDS, SYSTEM.random)


async def _populate(it: Harness) -> None:
    for user in (ALICE, BOB):
        assert await it.store.write(lambda tx, user=user: tx.users.register(user))  # type: ignore[misc]
        await it.store.write(
            lambda tx, user=user: tx.users.set_password_hash(  # type: ignore[misc]
                user.uid, f"cr_{user.uid}", _password_hash(), NOON
            )
        )
    for client in (WEB, NATIVE):
        await it.register(client)


def run(
    directory: Path,
    story: Callable[[Harness], Awaitable[None]],
    database: str = "",
    *,
    issuer: str = ISSUER,
    **more: Any,
) -> None:
    """Run an asynchronous test with alice, bob, web1 and nat1.

    `more` replaces whole sections of the settings.
    """
    resource = replace(Settings().resource, url=API, credential_text=Secret(CREDENTIAL))
    portal = more.pop("portal", PortalSettings(who=Registrants.EVERYONE))
    sections = (portal, *more.pop("features", ()))
    usual: dict[str, Any] = {"resource": resource, "features": sections}
    run_harness(
        directory,
        story,
        database,
        url=issuer,
        scopes=SCOPES,
        populate=_populate,
        ignored_events=("signing_key.",),
        background=False,
        **{**usual, **more},
    )
