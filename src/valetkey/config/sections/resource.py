"""The settings of the resource server."""

# ruff: noqa: RUF009 - `seconds(5)` is a number: nothing that two settings could share and change

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, cast

from valetkey.config import rules
from valetkey.config.rules import Group, InvalidValue, Network, quoted, whole
from valetkey.kernel.moment import Lifetime, seconds
from valetkey.kernel.secret import Secret

_LONGEST_SENTENCE = 200
_SCOPE = re.compile(r"([!$-<>-\[\]-~]{1,100})=(.*)")


def _described(written: str) -> tuple[str, str]:
    match = _SCOPE.fullmatch(written)
    if match is None or len(match[2]) > _LONGEST_SENTENCE or not match[2].isprintable():
        raise InvalidValue(
            f"{quoted(written)} is not a scope followed by an equals sign and up to "
            f"{_LONGEST_SENTENCE} characters of description"
        )
    return match[1], match[2].strip()


def _show_described(value: object) -> object:
    return "=".join(cast("tuple[str, str]", value))


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """The resource server: the API and its data."""

    GROUP: ClassVar = Group.NETWORK

    enabled: Annotated[bool, rules.FLAG, "Run the resource server"] = True
    """Whether there is a resource server. Without it `serve` runs the authorization server alone:
    clients get tokens for declared APIs, and for the one at `url` if that is set. The other
    settings of this section have no effect then, except `scopes` and the credential."""

    url: Annotated[str, rules.SERVER_URL, "Public URL of the resource server"] = (
        "http://localhost:8401"
    )
    """The public URL of the API, and the audience of its tokens (RFC 9068). Without a resource
    server, an API of your own for requests without `resource`; if this is not set, their tokens are
    for userinfo alone, with `authorization.url` as audience."""

    scopes: Annotated[
        tuple[tuple[str, str], ...],
        rules.texts(
            'a list such as ["orders:read=see your orders"], each a scope and its description',
            _described,
            _show_described,
        ),
        "Permissions of the API",
    ] = ()
    """Scopes of your own API at `url`, only without a resource server; others have theirs from
    their objects. The text after the equals sign is shown on the consent page. A scope without
    text is for clients' own access: ["orders:read=see your orders", "orders:sync="]."""

    listen: Annotated[str, rules.LISTEN, "Address and port of the resource server"] = (
        "127.0.0.1:8401"
    )
    """The address and port to listen on; see `authorization.listen`."""

    database: Annotated[str, rules.DATABASE, "Database of the resource server"] = field(
        default="sqlite:///valetkey/resource.db", repr=False
    )
    """The database of the users' objects. A relative path starts at the folder of this file. It
    must not be the authorization server's database, which has the keys."""

    tls_certificate: Annotated[str, rules.PATH, "TLS certificate of the resource server"] = ""
    """PEM file with the certificate and its chain, for TLS without a proxy."""

    tls_key: Annotated[str, rules.PATH, "Key of the certificate of the resource server"] = ""
    """PEM file with the certificate's private key, readable by the server's account only."""

    tls_proxy: Annotated[bool, rules.FLAG, "A proxy provides TLS for the resource server"] = False
    """Declares that a proxy with TLS is the only way to reach this server (RFC 6750 section
    5.3)."""

    trusted_proxies: Annotated[
        tuple[Network, ...], rules.NETWORKS, "Trusted proxies of the resource server"
    ] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is trusted. Setting it also declares
    that they use TLS."""

    workers: Annotated[
        int, whole(1, 64, "processes"), "Worker processes of the resource server"
    ] = 1
    """Worker processes. More than the number of cores is not faster."""

    authorization_url: Annotated[
        str, rules.OPTIONAL_SERVER_URL, "Internal URL of the authorization server"
    ] = ""
    """The URL of the authorization server if this file does not configure it. Empty:
    `authorization.url`."""

    credential: Annotated[str, rules.PATH, "File with the credential of the resource server"] = ""
    """File with the secret with which this server authenticates to the authorization server. Empty:
    `resource-server.credential` beside the database, or beside this file with PostgreSQL. It is
    created at the first start if both servers run on one machine."""

    credential_text: Annotated[
        Secret | None, rules.SECRET, "Credential of the resource server from the environment"
    ] = None
    """The credential itself, to pass it through the environment."""

    introspection_cache: Annotated[
        Lifetime, rules.lifetime("1s", "1m"), "Time for which a checked token is remembered"
    ] = seconds(5)
    """How long an introspection response is cached. Revocations arrive within 5 seconds regardless;
    the cache saves a request to the authorization server per API call."""

    revocations_max_age: Annotated[
        int, whole(0, 3_600, "seconds"), "Longest time without news of revocations"
    ] = 0
    """Seconds for which JWTs are accepted while the authorization server does not say what was
    revoked; then requests get 503 with Retry-After. With 5, a revocation takes effect within 5
    seconds even if the authorization server or its database fails at that moment; with less,
    requests are refused at each reconnection. 0: for as long as it takes, so that the API outlives
    an outage of the authorization server."""

    objects: Annotated[str, rules.FOLDER, "Folder of resource objects"] = ""
    """Directory of your own objects, one file each. Both servers read it: the authorization server
    shows their descriptions on the consent page. Python files in it run inside both servers, so
    no other user may be able to write there."""

    cors_origins: Annotated[tuple[str, ...], rules.ORIGINS, "Websites that may call the API"] = ()
    """Origins whose web pages may call this API from a browser, with a token and never with
    cookies. Exact origins only. Empty: none."""

    requests_per_minute: Annotated[
        int,
        whole(0, 1_000_000, "requests a minute"),
        "Requests of one app for one user",
        Group.LIMITS,
    ] = 0
    """Requests that one client may send for one user before it gets 429, over all workers of a
    machine; sent in RateLimit headers. 0: no limit."""
