"""Two servers: users sign in at one, and the other trusts its identity assertions."""

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from tests.attacks.grants.several_apis import Apis
from tests.support import postgres
from tests.support.live import CODE_GRANT, Answer, LiveServers, live_servers
from tests.support.pages import Page, Pages, pages
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.user import Uid
from valetkey.authorization.providers.rules.identities import ClaimedIdentity, connect
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings, TokenSettings
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TYPES = "urn:ietf:params:oauth:token-type:"
ID_JAG, ID_TOKEN = f"{TYPES}id-jag", f"{TYPES}id_token"
TYP = "oauth-id-jag+jwt"
METADATA = "/.well-known/oauth-authorization-server"
ON = Settings(tokens=TokenSettings(identity_assertions=True, audience_parameter=True))


@dataclass
class Chain:
    """`idp` signs users in, `api` trusts it, and so it does `rogue`, which signs anything."""

    idp: LiveServers
    api: LiveServers
    apis: Apis
    rogue: Pages
    key: SigningKey = field(default_factory=partial(SigningKey.generate, Algorithm.ES256))

    def __post_init__(self) -> None:
        metadata = {
            "issuer": self.rogue.url,
            "authorization_endpoint": f"{self.rogue.url}/authorize",
            "token_endpoint": f"{self.rogue.url}/token",
            "jwks_uri": f"{self.rogue.url}/jwks",
        }
        self.rogue.at["/.well-known/openid-configuration"] = Page(json.dumps(metadata).encode())
        self.rogue.at["/jwks"] = Page(KeySet.of(self.key.public).document())

    def alice(self, world: LiveServers) -> Uid:
        def find(tx: Transaction) -> Uid:
            user = tx.users.find_by_name("alice")
            assert user is not None
            return user.uid

        return world.servers.write(find)

    def link(self, issuer: str, subject: str) -> None:
        """Link alice's account at `api` to this identity."""

        def work(tx: Transaction) -> bool:
            user = tx.users.find_by_name("alice")
            assert user is not None
            return connect(tx, user, ClaimedIdentity(issuer, subject), self.api.servers.clock.now())

        assert self.api.servers.write(work)

    def ask(self, token: str, client_id: str = "agent", **parameters: str) -> Answer:
        """Request an assertion at `idp` for a user's token."""
        form = {
            "requested_token_type": ID_JAG,
            "subject_token": token,
            "subject_token_type": ID_TOKEN,
            "audience": self.api.auth,
            **parameters,
        }
        return self.idp.token(client_id, grant_type=EXCHANGE, **form)

    def jag(self, **parameters: str) -> str:
        """An assertion of `idp` for alice."""
        answer = self.ask(
            self.idp.tokens("agent", scope="openid notes:read")["id_token"], **parameters
        )
        answer.ok()
        return answer.json["access_token"]

    def forge(self, changes: Mapping[str, object] = {}, typ: str = TYP) -> str:
        """An assertion of `rogue` with these `changes`; None leaves a claim out."""
        now = self.api.servers.clock.now()
        content: dict[str, object] = {
            "iss": self.rogue.url,
            "sub": "alice-there",
            "aud": self.api.auth,
            "client_id": "agent-here",
            "jti": self.api.servers.runtime.random(16).hex(),
            "iat": now,
            "exp": now + 300,
            "scope": "notes:read",
            **changes,
        }
        kept = {name: value for name, value in content.items() if value is not None}
        return jwt.sign(kept, self.key, typ=typ)

    def present(self, assertion: str, client_id: str = "agent-here", **parameters: str) -> Answer:
        """Present an assertion at `api`."""
        return self.api.token(client_id, grant_type=JWT_BEARER, assertion=assertion, **parameters)


@contextmanager
def chained(folder: Path, engine: str) -> Generator[Chain]:
    """Both, running; the second one on this engine."""
    for name in ("idp", "api"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database()) if engine == "postgres" else ""
        two = tuple(Algorithm)[:2]
        idp = stack.enter_context(
            live_servers(folder / "idp", resource=False, settings=ON, algorithms=two)
        )
        rogue = stack.enter_context(pages())
        providers = tuple(
            ProviderSettings(name, name, ProviderKind.OPENID, at, "us", identity_assertions=trusted)
            for name, at, trusted in (
                ("idp", idp.auth, True),
                ("rogue", rogue.url, True),
                ("login", f"{rogue.url}/login-only", False),
            )
        )
        settings = replace(
            ON,
            features=(FederationSettings(providers, Secret("idp=x,rogue=x,login=x")),),
            fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
        )
        api = stack.enter_context(
            live_servers(folder / "api", url, settings=settings, algorithms=two)
        )
        chain = Chain(idp, api, Apis(api), rogue)
        here = f"{api.auth} agent-here notes:read notes:write calendar:read"
        grants = (*CODE_GRANT, EXCHANGE)
        scopes = ("openid", "notes:read", "offline_access")
        for name, algorithm in (("agent", ""), ("other", ""), ("hmac", "HS256")):
            openid = replace(idp_openid(here), id_token_signed_response_alg=algorithm)
            idp.client(name, grant_types=grants, scopes=scopes, openid=openid)
        for name in ("agent-here", "other-here"):
            own = ("notes:read", "account:read")
            api.client(name, grant_types=(JWT_BEARER,), redirect_uris=(), scopes=own)
        chain.link(idp.auth, str(chain.alice(idp)))
        chain.link(rogue.url, "alice-there")
        yield chain


def idp_openid(*audiences: str) -> OpenIdRegistration:
    """The registration of a client that gets assertions for these audiences."""
    return OpenIdRegistration(assertion_audiences=audiences)
