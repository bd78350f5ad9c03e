"""Every setting: its name, its type, its default, its bounds, and under it the reason it exists."""

# ruff: noqa: RUF009 - `hours(1)` is a number: nothing that two settings could share and change

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import Network, whole
from valetkey.config.sections.accounts import AccountSettings
from valetkey.config.sections.administration import AdministrationSettings
from valetkey.config.sections.brand import BrandSettings
from valetkey.config.sections.database import DatabaseSettings
from valetkey.config.sections.device import DeviceSettings
from valetkey.config.sections.factors import FactorSettings
from valetkey.config.sections.federation import FederationSettings
from valetkey.config.sections.fetch import FetchSettings
from valetkey.config.sections.mail import MailSettings
from valetkey.config.sections.monitoring import LogSettings, MetricsSettings
from valetkey.config.sections.portal import PortalSettings
from valetkey.config.sections.serving import ServingSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Lifetime, days, hours, minutes, seconds
from valetkey.kernel.secret import Secret


class Profile(StrEnum):
    """One word instead of forty switches: what a client may do (specification section 9)."""

    CLASSIC = "classic"
    MODERN = "modern"


class RegistrationMode(StrEnum):
    """Who may register an application through the registration endpoint."""

    OFF = "off"
    TOKEN = "token"
    OPEN = "open"


class Origin(StrEnum):
    """Where a value comes from; a later one wins."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """The server that signs people in and issues tokens."""

    url: Annotated[str, rules.SERVER_URL] = "http://localhost:8400"
    """The address under which browsers and clients reach it, and the issuer in every token. It
    comes from here only, never from a request. https, except on loopback (RFC 8414 section 2).
    There `localhost` is better than `127.0.0.1`: passkeys belong to a name, not to a number."""

    listen: Annotated[str, rules.LISTEN] = "127.0.0.1:8400"
    """Where it waits for connections. Off loopback it needs a certificate or a declared proxy.
    With `localhost` in `url`, either loopback address stands for both, because programs resolve
    the name to either: a server on 127.0.0.1 also listens on [::1], at the same port."""

    database: Annotated[str, rules.DATABASE] = field(
        default="sqlite:///valetkey/authorization.db", repr=False
    )
    """Users, clients, grants and keys. A relative path starts at the folder of this file. Nothing
    else may use this database; the resource server has its own."""

    tls_certificate: Annotated[str, rules.PATH] = ""
    """PEM file with the certificate and its chain, to speak TLS itself."""

    tls_key: Annotated[str, rules.PATH] = ""
    """PEM file with the certificate's private key, readable by this server alone."""

    tls_proxy: Annotated[bool, rules.FLAG] = False
    """Promises that a proxy which speaks TLS is the only way in. Without certificate or promise a
    server does not start off loopback: tokens must not travel in clear (RFC 6749 section 10.9)."""

    trusted_proxies: Annotated[tuple[Network, ...], rules.NETWORKS] = ()
    """Proxies whose X-Forwarded-For is believed. Naming them also declares that they speak TLS.
    Empty: no header is believed, or anybody could invent an address."""

    workers: Annotated[int, whole(1, 64, "processes")] = 1
    """Processes that answer. More than the machine has cores brings nothing."""

    keyring: Annotated[str, rules.PATH] = ""
    """File with the keys that seal and fingerprint what is stored. Empty: `valetkey.keyring` beside
    the database, or beside this file where the database is PostgreSQL. Lose it, and every secret
    in the database is lost: `valetkey key backup` keeps a copy."""

    keyring_text: Annotated[Secret | None, rules.SECRET] = None
    """The keyring itself, for places where secrets come by the environment instead of a file."""


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """The server that holds what users let clients read and change."""

    url: Annotated[str, rules.SERVER_URL] = "http://localhost:8401"
    """The address under which clients reach it, and the audience of their tokens (RFC 9068)."""

    listen: Annotated[str, rules.LISTEN] = "127.0.0.1:8401"
    """Where it waits for connections, by the same rules as `authorization.listen`."""

    database: Annotated[str, rules.DATABASE] = field(
        default="sqlite:///valetkey/resource.db", repr=False
    )
    """The users' data. A relative path starts at the folder of this file. Never the database of the
    authorization server: who reads the data must not read the keys."""

    tls_certificate: Annotated[str, rules.PATH] = ""
    """PEM file with the certificate and its chain, to speak TLS itself."""

    tls_key: Annotated[str, rules.PATH] = ""
    """PEM file with the certificate's private key, readable by this server alone."""

    tls_proxy: Annotated[bool, rules.FLAG] = False
    """Promises that a proxy which speaks TLS is the only way in (RFC 6750 section 5.3)."""

    trusted_proxies: Annotated[tuple[Network, ...], rules.NETWORKS] = ()
    """Proxies whose X-Forwarded-For is believed. Naming them also declares that they speak TLS."""

    workers: Annotated[int, whole(1, 64, "processes")] = 1
    """Processes that answer. More than the machine has cores brings nothing."""

    authorization_url: Annotated[str, rules.OPTIONAL_SERVER_URL] = ""
    """Where the authorization server is, if this file does not describe it. Empty:
    `authorization.url`."""

    credential: Annotated[str, rules.PATH] = ""
    """File with the secret by which the authorization server knows this one. Empty:
    `resource-server.credential` beside the database, or beside this file where the database is
    PostgreSQL. Made by itself at first start where both servers share a machine."""

    credential_text: Annotated[Secret | None, rules.SECRET] = None
    """The credential itself, for places where secrets come by the environment."""

    introspection_cache: Annotated[Lifetime, rules.lifetime("1s", "1m")] = seconds(5)
    """How long the answer about a token by reference is remembered. Revocations reach this server
    within 5 seconds in any case; what this spares is one question per request."""

    objects: Annotated[str, rules.FOLDER] = ""
    """Directory of the objects that this API has beside its own, each declared by one file. Both
    servers read it, the authorization server for the sentences of the consent page; Python files in
    it run inside both, so nobody else may write there."""

    cors_origins: Annotated[tuple[str, ...], rules.ORIGINS] = ()
    """Web pages of these origins may call this API from a browser, with a token and never with
    cookies. Exact names only. Empty: no page of another origin can read an answer."""

    requests_per_minute: Annotated[int, whole(0, 1_000_000, "requests a minute")] = 0
    """Requests of one client for one user before they are answered with 429, all workers of a
    machine together; told in RateLimit headers. 0: as many as they like."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """How long things work."""

    access_token_lifetime: Annotated[Lifetime, rules.lifetime("1s", "1d")] = hours(1)
    """How long an access token works. A JWT cannot be called back from those who check it by
    themselves, so keep it short (RFC 9068 section 5)."""

    implicit_token_lifetime: Annotated[Lifetime, rules.lifetime("1s", "10m")] = minutes(10)
    """How long tokens of the implicit grant work, which pass through the address bar; at most
    `access_token_lifetime` (RFC 9700 section 2.1.2)."""

    id_token_lifetime: Annotated[Lifetime, rules.lifetime("1s", "1d")] = hours(1)
    """How long an app may take an ID token for news of a sign-in (OpenID Connect Core section 2).
    It says nothing about how long anybody stays signed in."""

    refresh_token_idle_lifetime: Annotated[Lifetime, rules.lifetime("1s", "3650d")] = days(30)
    """A refresh token that nobody used for so long ends (RFC 9700 section 4.14.2)."""

    refresh_token_lifetime: Annotated[Lifetime, rules.lifetime("1s", "3650d")] = days(180)
    """After so long the user is asked again, however often the token was used."""

    refresh_reuse_window: Annotated[Lifetime, rules.lifetime("1s", "5m")] = seconds(30)
    """A second use this soon returns the same successor: two tabs, or a lost answer. Later it is
    theft, and the whole grant ends."""

    authorization_code_lifetime: Annotated[Lifetime, rules.lifetime("1s", "10m")] = seconds(60)
    """How long a client may take to redeem a code; ten minutes at most (RFC 6749 section 4.1.2)."""

    signing_key_lifetime: Annotated[Lifetime, rules.lifetime("1h", "730d")] = days(90)
    """How long one key signs before the next takes over, by itself."""

    key_publication: Annotated[Lifetime, rules.lifetime("5m", "30d")] = days(1)
    """How long a new key is published before it signs, so that everybody who caches keys has met
    it by then."""

    signing_algorithms: Annotated[
        tuple[Algorithm, ...], rules.choices(Algorithm, Algorithm.ES256)
    ] = tuple(Algorithm)
    """With which algorithms keys are kept, for clients to choose among. ID tokens are signed with
    RS256 where a client chose nothing, with ES256 if RS256 is not here. Access tokens are signed
    with ES256 whatever is here."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What holds for clients that do not say otherwise."""

    default_profile: Annotated[Profile, rules.choice(Profile)] = Profile.CLASSIC
    """The profile of a new client: `classic` is RFC 6749 as it was written, `modern` is RFC 9700
    and OAuth 2.1."""


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """Applications that register themselves (RFC 7591, OpenID Connect Registration)."""

    mode: Annotated[RegistrationMode, rules.choice(RegistrationMode)] = RegistrationMode.OFF
    """`off`: nobody. `token`: who has a token of `valetkey registration invite`. `open`: anybody;
    nobody has checked such an app, and the consent page says so."""

    grant_types: Annotated[tuple[str, ...], rules.GRANT_TYPES] = (
        "authorization_code",
        "refresh_token",
    )
    """Grant types that such an app may register: any except `password`. Enable `implicit` only for
    clients that cannot use another one."""

    scopes: Annotated[tuple[str, ...], rules.SCOPE_NAMES] = ()
    """What such an app may ask people for, beyond who they are: scopes of your API."""

    unused_lifetime: Annotated[Lifetime, rules.lifetime("1h", "3650d")] = days(30)
    """Such an app is removed when nobody used it for so long."""

    registrations_per_hour: Annotated[int, whole(1, 1_000_000, "registrations an hour")] = 300
    """How many one address may try; a family of IPv6 addresses counts as one."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How long a person stays signed in."""

    idle: Annotated[Lifetime, rules.lifetime("1m", "30d")] = hours(8)
    """A session that nobody used for so long ends."""

    lifetime: Annotated[Lifetime, rules.lifetime("1m", "365d")] = days(30)
    """After so long the person signs in again, however busy they were."""


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """What one guess at a password costs (Argon2id, RFC 9106)."""

    memory: Annotated[int, whole(19, 1_024, "MiB")] = 19
    """Memory for one hash. 19 MiB with two passes is the floor that OWASP names; stored hashes are
    renewed at the next sign-in after a change."""

    passes: Annotated[int, whole(2, 20, "passes")] = 2
    """How often the memory is filled."""

    queue: Annotated[int, whole(1, 1_000, "sign-ins")] = 32
    """Sign-ins that may wait for a free core in each worker. More are refused at once, with 503:
    a queue that nobody leaves helps nobody."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How much one caller may ask."""

    sign_in_failures: Annotated[int, whole(3, 1_000, "failures")] = 20
    """Wrong passwords for one account from one address (/24 or /56) in `sign_in_window` before the
    next must wait. From everywhere together it is five times as many: one stranger alone cannot
    keep a person from signing in."""

    sign_in_failures_per_address: Annotated[int, whole(3, 100_000, "failures")] = 300
    """Wrong passwords from one address in `sign_in_window` before it must wait, on any account."""

    sign_in_window: Annotated[Lifetime, rules.lifetime("1m", "1d")] = minutes(15)
    """How long a wrong password is remembered against account and address."""

    client_failures: Annotated[int, whole(3, 100_000, "failures a minute")] = 300
    """Wrong credentials for one client from one address (/24 or /56) before only 429 is answered;
    ten times as many for all clients together. Right credentials are never refused for it."""

    connections: Annotated[int, whole(16, 100_000, "connections")] = 2_000
    """Connections open at one time in each worker; the next is closed at once."""

    connections_per_address: Annotated[int, whole(4, 100_000, "connections")] = 500
    """Connections open at once from one address; trusted proxies are not counted."""

    requests: Annotated[int, whole(16, 100_000, "requests")] = 128
    """Complete requests that wait for their answers in each worker; streams do not count. The next
    is answered at once with 503 and `Retry-After`, because a longer queue delays everybody and
    serves nobody more. Requests that have not arrived completely are bounded by `connections`
    instead, one each, and by 64 MiB in each worker for what bodies have beyond 64 KiB. A connection
    that repeats a refused request within half a second is not read for a second, except those of
    trusted proxies."""

    patience: Annotated[Lifetime, rules.lifetime("1s", "5m")] = seconds(10)
    """How long a request may wait for its turn at the database. Then it is answered with 503 and
    changes nothing: its client has probably given up, and would find its code spent. A client that
    closes its connection has given up at once, also what it pipelined; one that closes only its own
    half is answered for one more second."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where settings come from. `directory` is where relative paths start."""

    file: Path | None = None
    directory: Path = Path()
    origins: Mapping[str, Origin] = field(
        default_factory=lambda: MappingProxyType[str, Origin]({}), compare=False
    )

    def origin(self, path: str) -> Origin:
        """Where the value of `path`, such as `tokens.access_token_lifetime`, comes from."""
        return self.origins.get(path, Origin.DEFAULT)


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them. `Settings()` is a pair of servers on loopback with every default."""

    authorization: AuthorizationSettings = AuthorizationSettings()
    resource: ResourceSettings = ResourceSettings()
    tokens: TokenSettings = TokenSettings()
    clients: ClientSettings = ClientSettings()
    registration: RegistrationSettings = RegistrationSettings()
    portal: PortalSettings = PortalSettings()
    accounts: AccountSettings = AccountSettings()
    sessions: SessionSettings = SessionSettings()
    administration: AdministrationSettings = AdministrationSettings()
    passwords: PasswordSettings = PasswordSettings()
    factors: FactorSettings = FactorSettings()
    limits: LimitSettings = LimitSettings()
    device: DeviceSettings = DeviceSettings()
    database: DatabaseSettings = DatabaseSettings()
    serving: ServingSettings = ServingSettings()
    fetch: FetchSettings = FetchSettings()
    mail: MailSettings = MailSettings()
    federation: FederationSettings = FederationSettings()
    brand: BrandSettings = BrandSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    source: Source = Source()


ServerSettings = AuthorizationSettings | ResourceSettings
"""What both servers have: url, listen, database, TLS, proxies, workers."""
