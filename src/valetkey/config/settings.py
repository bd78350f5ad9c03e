"""Every setting: its name, its type, its default, its bounds, and under it the reason it exists."""

# ruff: noqa: RUF009 - `hours(1)` is a number: nothing that two settings could share and change

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, TypeVar, cast

from valetkey.config import rules
from valetkey.config.features import feature_sections
from valetkey.config.rules import Network, SettingsGroup, whole
from valetkey.config.sections.people import (
    AccountSettings,
    AdministrationSettings,
    BrandSettings,
    DocumentationSettings,
    FactorSettings,
    MailSettings,
    PrivacySettings,
)
from valetkey.config.sections.serving import (
    AuditSettings,
    DatabaseSettings,
    FetchSettings,
    LogSettings,
    MetricsSettings,
    ResourceSettings,
    ServingSettings,
    TlsSettings,
    TraceSettings,
)
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Lifetime, days, hours, minutes, seconds
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import translatable

Section = TypeVar("Section")


class ClientProfile(StrEnum):
    """The profiles: what a client may do."""

    CLASSIC = "classic"
    MODERN = "modern"


class RegistrationMode(StrEnum):
    """Who may register apps through the registration endpoint."""

    OFF = "off"
    TOKEN = "token"
    OPEN = "open"


class Origin(StrEnum):
    """The sources of a value; a later one wins."""

    DEFAULT = "default"
    STORED = "stored"
    FILE = "file"
    ENVIRONMENT = "environment"

    @property
    def word(self) -> str:
        """Return the source as messages name it."""
        return _ORIGINS[self.value]


_ORIGINS = {
    "default": "defaults",
    "stored": "database",
    "file": "configuration file",
    "environment": "environment",
}


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """The authorization server: sign-in, consent and tokens."""

    GROUP: ClassVar = SettingsGroup.NETWORK

    url: Annotated[str, rules.SERVER_URL, "Public URL"] = "http://localhost:8400"
    """The public URL of the authorization server, and the issuer in every token. It is never taken
    from a request. It must be https, except on loopback (RFC 8414 section 2). On loopback prefer
    `localhost` to `127.0.0.1`: passkeys need a host name."""

    listen: Annotated[str, rules.LISTEN, "Address and port to listen on"] = "127.0.0.1:8400"
    """The address and port to listen on. Other than loopback requires a certificate or `tls_proxy`.
    If `url` has `localhost`, a server on 127.0.0.1 also listens on [::1] at the same port, because
    programs resolve the name to either."""

    database: Annotated[str, rules.DATABASE, "Database"] = field(
        default="sqlite:///valetkey/authorization.db", repr=False
    )
    """The database of users, clients, grants and keys. A relative path starts at the folder of this
    file. The resource server needs a database of its own."""

    replicas: Annotated[tuple[str, ...], rules.REPLICAS, "Replicas of the database"] = field(
        default=(), repr=False
    )
    """URLs of streaming replicas of a PostgreSQL database, at most 8. Introspection and userinfo
    are answered by a replica that has replayed every revocation that was confirmed before the
    request; otherwise by the primary. Each worker opens up to `database.connections` to each."""

    tls_certificate: Annotated[str, rules.PATH, "TLS certificate"] = ""
    """PEM file with the certificate and its chain, for TLS without a proxy."""

    tls_key: Annotated[str, rules.PATH, "Key of the TLS certificate"] = ""
    """PEM file with the certificate's private key, readable by the server's account only."""

    tls_proxy: Annotated[bool, rules.FLAG, "A proxy provides TLS"] = False
    """Declares that a proxy with TLS is the only way to reach this server. Without this or a
    certificate, a server listens on loopback only: tokens must not be sent without TLS (RFC 6749
    section 10.9)."""

    trusted_proxies: Annotated[tuple[Network, ...], rules.NETWORKS] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is trusted. Setting it also declares
    that they use TLS. Empty: the header is ignored, because any client could send it."""

    workers: Annotated[int, whole(1, 64, "processes"), "Worker processes"] = 1
    """Worker processes. More than the number of cores is not faster."""

    keyring: Annotated[str, rules.PATH, "File of the keyring"] = ""
    """File with the keys that encrypt and fingerprint stored secrets. Empty: `valetkey.keyring`
    beside the database, or beside this file with PostgreSQL. Without it every secret in the
    database is lost: back it up with `valetkey key backup`."""

    keyring_text: Annotated[Secret | None, rules.SECRET, "Keyring from the environment"] = None
    """The keyring itself, to pass it through the environment instead of a file."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Lifetimes of tokens and keys."""

    GROUP: ClassVar = SettingsGroup.TOKENS

    access_token_lifetime: Annotated[
        Lifetime, rules.lifetime("1s", "1d"), "Lifetime of access tokens"
    ] = hours(1)
    """Lifetime of an access token. An API that verifies JWTs by itself does not notice a
    revocation, so keep it short (RFC 9068 section 5)."""

    implicit_token_lifetime: Annotated[
        Lifetime, rules.lifetime("1s", "10m"), "Lifetime of access tokens of the implicit grant"
    ] = minutes(10)
    """Lifetime of access tokens of the implicit grant, which are exposed in the address bar; at
    most `access_token_lifetime` (RFC 9700 section 2.1.2)."""

    id_token_lifetime: Annotated[Lifetime, rules.lifetime("1s", "1d"), "Lifetime of ID tokens"] = (
        hours(1)
    )
    """Lifetime of an ID token (OpenID Connect Core section 2). It does not limit how long a user
    stays signed in."""

    refresh_token_idle_lifetime: Annotated[
        Lifetime, rules.lifetime("1s", "3650d"), "Refresh tokens expire when unused for"
    ] = days(30)
    """A refresh token that was unused for this long expires (RFC 9700 section 4.14.2)."""

    refresh_token_lifetime: Annotated[
        Lifetime, rules.lifetime("1s", "3650d"), "Refresh tokens expire in any case after"
    ] = days(180)
    """Maximum lifetime of a grant with refresh tokens, however often they are used. Then the user
    must authorize the app again."""

    refresh_reuse_window: Annotated[
        Lifetime, rules.lifetime("1s", "5m"), "A refresh may be repeated for"
    ] = minutes(2)
    """Time in which a public client that uses a refresh token again gets the same successor, for
    concurrent requests and lost responses, if the successor was not used yet. A later use counts as
    theft and revokes the grant. A client that authenticates has until the successor expires."""

    authorization_code_lifetime: Annotated[
        Lifetime, rules.lifetime("1s", "10m"), "Lifetime of authorization codes"
    ] = seconds(60)
    """Lifetime of an authorization code; at most ten minutes (RFC 6749 section 4.1.2)."""

    signing_key_lifetime: Annotated[
        Lifetime, rules.lifetime("1h", "730d"), "Signing keys are rotated after"
    ] = days(90)
    """Time for which a key signs before the next one replaces it automatically."""

    key_publication: Annotated[
        Lifetime, rules.lifetime("5m", "30d"), "New signing keys are published ahead by"
    ] = days(1)
    """Time for which a new key is published before it signs, so that APIs which cache the keys have
    fetched it."""

    signing_algorithms: Annotated[
        tuple[Algorithm, ...], rules.choices(Algorithm, Algorithm.ES256), "Signing algorithms"
    ] = tuple(Algorithm)
    """Algorithms for which signing keys are kept. ID tokens use RS256 unless a client chooses
    another one, or ES256 if RS256 is not in the list. Access tokens use ES256 unless their API
    chooses another one."""

    identity_assertions: Annotated[
        bool, rules.FLAG, "Accept identity assertions of other servers"
    ] = False
    """Whether identity assertion grants (ID-JAG) are on. Apps get assertions for the authorization
    servers in their `assertion_audiences`, and the providers with `identity_assertions = true` are
    trusted: their assertions give access to linked accounts without the user's consent."""

    audience_parameter: Annotated[bool, rules.FLAG, "Accept the parameter audience"] = False
    """Whether `audience` names an API as `resource` does (RFC 8707), for clients written for
    servers that use that name. Otherwise it is ignored, except at token exchange, where it is RFC
    8693's."""

    claims_file: Annotated[str, rules.PATH, "Program that adds claims"] = ""
    """Python file with a function `claims(user, client, api, scopes)` that returns further claims
    of a token. It runs in a process of its own; the limit is one second, and 8 KiB together with
    all other claims. If it fails, no token is issued. Empty: none."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Defaults for clients."""

    GROUP: ClassVar = SettingsGroup.APPS

    default_profile: Annotated[
        ClientProfile,
        rules.choice(
            ClientProfile,
            classic=translatable("Classic (OAuth 2.0)"),
            modern=translatable("Modern (OAuth 2.1)"),
        ),
        "Profile of new apps",
    ] = ClientProfile.CLASSIC
    """The profile of a new client without one: `classic` follows RFC 6749, `modern` follows RFC
    9700 and OAuth 2.1."""


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """Dynamic client registration (RFC 7591, OpenID Connect Registration)."""

    GROUP: ClassVar = SettingsGroup.APPS

    mode: Annotated[
        RegistrationMode,
        rules.choice(
            RegistrationMode,
            off=translatable("No apps"),
            token=translatable("Apps with a registration token"),
            open=translatable("Any app"),
        ),
        "Apps that may register themselves",
    ] = RegistrationMode.OFF
    """Who may register: `off` no app, `token` apps with a token of `valetkey registration invite`,
    `open` any app. The consent page says that such an app is not verified."""

    grant_types: Annotated[
        tuple[str, ...],
        rules.GRANT_TYPES_AND_IMPLICIT,
        "Grant types of apps that register themselves",
    ] = (
        "authorization_code",
        "refresh_token",
    )
    """Grant types that such an app may register. Enable `implicit` only for clients that cannot use
    another one."""

    scopes: Annotated[
        tuple[str, ...], rules.SCOPE_NAMES, "Permissions of apps that register themselves"
    ] = ()
    """Scopes of your API that such an app may request, beyond the identity scopes."""

    metadata_documents: Annotated[bool, rules.FLAG, "Allow apps that are known by a URL"] = False
    """Whether an app may use the https URL of its metadata as `client_id` (Client ID Metadata
    Documents) without being registered. `mode` does not matter; the rules are the same."""

    metadata_document_hosts: Annotated[
        tuple[str, ...], rules.HOSTS, "Hosts of apps that are known by a URL"
    ] = ()
    """Hosts of such URLs. Empty: any."""

    most_metadata_documents: Annotated[
        int, whole(10, 1_000_000, "apps"), "Most apps that are known by a URL"
    ] = 10_000
    """Maximum number of apps known by such a URL. Beyond it, the oldest unused app is removed."""

    unused_lifetime: Annotated[
        Lifetime, rules.lifetime("1h", "3650d"), "Delete apps that are unused for"
    ] = days(30)
    """An app that was unused for this long is deleted."""

    registrations_per_hour: Annotated[
        int, whole(1, 1_000_000, "registrations an hour"), "Registrations from one network"
    ] = 300
    """Registrations that one address (/24 or /56) may make per hour of apps that no user signs in
    to. An app stops counting at its first sign-in, and with a token of `valetkey registration
    invite` none counts; ten times as many may be registered in all. Each worker fetches as many
    metadata documents of unknown apps for one address."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Lifetimes of sessions."""

    GROUP: ClassVar = SettingsGroup.SESSIONS

    idle: Annotated[Lifetime, rules.lifetime("1m", "30d"), "Sign users out when idle for"] = hours(
        8
    )
    """A session that was idle for this long ends."""

    lifetime: Annotated[
        Lifetime, rules.lifetime("1m", "365d"), "Sign users out in any case after"
    ] = days(30)
    """Maximum lifetime of a session, however active it is."""


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """Cost of a password hash (Argon2id, RFC 9106)."""

    GROUP: ClassVar = SettingsGroup.PASSWORDS

    memory: Annotated[int, whole(19, 1_024, "MiB"), "Memory of a password hash"] = 19
    """Memory of one hash. 19 MiB with two passes is the minimum that OWASP recommends. After a
    change, a stored hash is renewed at the next sign-in."""

    passes: Annotated[int, whole(2, 20, "passes"), "Passes of a password hash"] = 2
    """Passes over the memory."""

    queue: Annotated[
        int, whole(1, 1_000, "sign-ins"), "Sign-ins that may wait", SettingsGroup.LIMITS
    ] = 32
    """Sign-ins that may wait for a free core in each worker. Further ones are refused immediately
    with 503."""


OTHER_DESCRIPTORS = 128
"""Files that a worker opens beside `limits.connections`: databases, logs, outbound requests."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Rate limits and connection limits."""

    GROUP: ClassVar = SettingsGroup.LIMITS

    sign_in_failures: Annotated[
        int, whole(3, 1_000, "failures"), "Failed sign-ins for one account"
    ] = 20
    """Failed sign-ins for one account from one address (/24 or /56) within `sign_in_window` before
    further attempts are delayed. For all addresses together the limit is five times as high, so
    that a single attacker cannot lock out a user."""

    sign_in_failures_per_address: Annotated[
        int, whole(3, 100_000, "failures"), "Failed sign-ins from one network"
    ] = 300
    """Failed sign-ins from one address within `sign_in_window`, for all accounts, before further
    attempts are delayed."""

    sign_in_window: Annotated[
        Lifetime, rules.lifetime("1m", "1d"), "A failed sign-in counts for"
    ] = minutes(15)
    """Time for which a failed sign-in counts."""

    unopened_links_per_address: Annotated[
        int, whole(3, 100_000, "links an hour"), "Sign-ups and password resets from one network"
    ] = 30
    """Sign-ups, and password resets, that one address (/24 or /56) may begin per hour without the
    link in the email being used. One whose link was used stops counting; ten times as many may be
    begun in all. An email that is sent again counts again."""

    client_failures: Annotated[
        int, whole(3, 100_000, "failures a minute"), "Failed authentications of one app"
    ] = 300
    """Failed client authentications per minute for one client from one address (/24 or /56) before
    the response is 429; ten times as many for all clients together. Valid credentials are never
    refused."""

    connections: Annotated[
        int, whole(16, 100_000, "connections"), "Open connections of a worker"
    ] = 2_000
    """Open connections in each worker. Further ones are closed immediately."""

    connections_per_address: Annotated[
        int, whole(4, 100_000, "connections"), "Open connections from one address"
    ] = 500
    """Open connections from one address. Trusted proxies are not counted."""

    requests: Annotated[int, whole(16, 100_000, "requests"), "Requests that wait in a worker"] = 128
    """Complete requests waiting for a response in each worker, without streams. Further ones get
    503 with `Retry-After` immediately, because a longer queue delays every client and serves none
    faster. Incomplete requests are limited by `connections`, one each, and by 64 MiB per worker for
    what bodies have beyond 64 KiB. A connection that repeats a refused request within half a second
    is not read for one second, except those of trusted proxies."""

    patience: Annotated[
        Lifetime, rules.lifetime("1s", "5m"), "A request may wait for the database for"
    ] = seconds(10)
    """Time for which a request may wait for the database. Then it gets 503 and changes nothing: its
    client has probably timed out, and would lose its code without receiving the tokens. A client
    that closes its connection cancels its request and what it pipelined; after a half-close the
    server responds for one more second."""


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """The sources of the settings. Relative paths start at `directory`."""

    file: Path | None = None
    directory: Path = Path()
    origins: Mapping[str, Origin] = field(
        default_factory=lambda: MappingProxyType[str, Origin]({}), compare=False
    )
    lines: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType[str, int]({}), compare=False
    )
    """The line of the file that sets a setting, by its path."""

    def origin(self, path: str) -> Origin:
        """Return the source of `path`, such as `tokens.access_token_lifetime`."""
        return self.origins.get(path, Origin.DEFAULT)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `Settings()` is a pair of servers on loopback with every default."""

    authorization: AuthorizationSettings = AuthorizationSettings()
    resource: ResourceSettings = ResourceSettings()
    tokens: TokenSettings = TokenSettings()
    clients: ClientSettings = ClientSettings()
    registration: RegistrationSettings = RegistrationSettings()
    accounts: AccountSettings = AccountSettings()
    sessions: SessionSettings = SessionSettings()
    administration: AdministrationSettings = AdministrationSettings()
    privacy: PrivacySettings = PrivacySettings()
    passwords: PasswordSettings = PasswordSettings()
    factors: FactorSettings = FactorSettings()
    limits: LimitSettings = LimitSettings()
    database: DatabaseSettings = DatabaseSettings()
    serving: ServingSettings = ServingSettings()
    tls: TlsSettings = TlsSettings()
    fetch: FetchSettings = FetchSettings()
    mail: MailSettings = MailSettings()
    brand: BrandSettings = BrandSettings()
    docs: DocumentationSettings = DocumentationSettings()
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    metrics: MetricsSettings = MetricsSettings()
    traces: TraceSettings = TraceSettings()
    features: tuple[object, ...] = ()
    """The sections of features that are not at their defaults; `section` returns one."""
    source: SettingsSource = SettingsSource()

    def section(self, kind: type[Section]) -> Section:
        """Return the section of a feature, with its defaults if nothing is set."""
        return (
            next((feature for feature in self.features if isinstance(feature, kind)), None)
            or kind()
        )

    @property
    def sample_requests(self) -> int:
        """Seconds in which one successful request is recorded; 0 if no feature shows them."""
        sections = (cast("object", self.section(kind)) for kind in feature_sections().values())
        return max((int(getattr(feature, "sample_requests", 0)) for feature in sections), default=0)

    @property
    def audience(self) -> str:
        """Return the identifier of the default API: this server itself where there is none."""
        has_api = self.resource.enabled or self.resource.url != ResourceSettings().url
        return self.resource.url if has_api else self.authorization.url

    @property
    def api_url(self) -> str:
        """The URL of the default API; "" if there is none but userinfo."""
        return "" if self.audience == self.authorization.url else self.audience


ServerSettings = AuthorizationSettings | ResourceSettings
"""What both servers have: url, listen, database, TLS, proxies, workers."""
