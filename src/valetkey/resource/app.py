"""The composition root of the resource server: the only place that wires its parts."""

import contextlib
import ssl
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from valetkey.config.installation import connect_to, lag, open_tested, require_file
from valetkey.config.paths import (
    certificate_files,
    credential_path,
    last_seen_path,
    monitoring_token,
)
from valetkey.config.settings import Settings
from valetkey.database.decisions import DecisionQueue
from valetkey.database.engine import Connection, Engine
from valetkey.database.identity import Readiness, Watch
from valetkey.kernel.keyring import create_or_read_secret_file
from valetkey.kernel.moment import Instant, Lifetime, seconds
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import Secret, from_base64url, to_base64url
from valetkey.kernel.tracing import RequestSamples
from valetkey.resource.backends.identity import Identity, IdentityRecords
from valetkey.resource.backends.records import LocalRecords
from valetkey.resource.documentation.openapi import ApiIdentity
from valetkey.resource.documentation.page import routes as documentation
from valetkey.resource.forward_auth import ForwardAuth
from valetkey.resource.objects.declared import objects_of
from valetkey.resource.operations import Operations
from valetkey.resource.problem import Cors, Problems
from valetkey.resource.requests.allowance import Allowances, CallerCounters
from valetkey.resource.requests.paging import Pages
from valetkey.resource.resource_object import Backend, ResourceObject
from valetkey.resource.scopes import scopes_of
from valetkey.resource.storage.events import UNAVAILABLE, Maintenance, Revocations, tolerate_outage
from valetkey.resource.storage.objects import KEY_SET, PAGE_KEY, StoredValues, bring_up_to_date
from valetkey.sdk import (
    Credential,
    Issuer,
    Memory,
    Protection,
    metadata_document,
    metadata_path,
    metadata_url,
)
from valetkey.sdk.fetch import Fetcher
from valetkey.sdk.upstream.uses import Uses
from valetkey.web import log
from valetkey.web.exchange import Request, Response
from valetkey.web.health import Health
from valetkey.web.paths import ServerAddress
from valetkey.web.router import Route, RoutedApp
from valetkey.web.security_headers import ANY_ORIGIN, any_origin

CLIENT_ID = "resource-server"
"""This server's client id at the authorization server."""

_SCHEMA = "valetkey.resource.storage.schema"


async def prepare(settings: Settings, runtime: Runtime) -> None:
    """Create the tables and the cursor key; safe to repeat and to run concurrently.

    Raises OperatorError and DatabaseUnavailable.
    """
    require_file(settings, settings.resource, begins=True)
    engine = connect_to(settings, settings.resource)
    try:
        await open_tested(settings, settings.resource, engine, _SCHEMA, runtime)
        fresh = to_base64url(runtime.random(32))
        await engine.write(lambda db: StoredValues(db).set_if_absent(PAGE_KEY, fresh))
        for kind in objects_of(settings):
            await bring_up_to_date(engine, kind.name, kind.orders)
    finally:
        await engine.close()


async def build(
    settings: Settings, runtime: Runtime, ledger: CallerCounters | None = None
) -> RoutedApp:
    """Build the server after `prepare`; the authorization server may be unreachable.

    With a `ledger` that workers share, they share each caller's allowance too.

    Raises OperatorError if the credential is missing, and DatabaseUnavailable.
    """
    objects = objects_of(settings)
    credential = Credential(CLIENT_ID, _secret(settings))
    require_file(settings, settings.resource, begins=False)
    engine = connect_to(settings, settings.resource, begins=False)
    now = runtime.now()
    try:
        page_key, memory = await engine.scan(lambda db: _remember(db, engine, now))
    except BaseException:
        # The start is tried again each second.
        await engine.close()
        raise
    auth_url = issuer_url(settings)
    url = settings.resource.url.rstrip("/")
    tls = _trust(settings, auth_url)
    protection = Protection(
        Issuer.valetkey(auth_url),
        audience=settings.resource.url,
        credential=credential,
        memory=memory,
        remembered=settings.resource.introspection_cache,
        tls=tls,
        resource_metadata=metadata_url(settings.resource.url),
        revocations_max_age=_max_age(settings),
    )
    decisions = DecisionQueue(runtime.random)
    cors = Cors(frozenset(settings.resource.cors_origins))
    problems = Problems(auth_url, protection.challenge, decisions, cors)
    quota = settings.resource.requests_per_minute
    allowances = Allowances(quota, ledger) if quota else None
    # Separate connections: revocations arrive in time however slow records are.
    fetch = Fetcher(tls)
    identity = Identity(f"{auth_url}/oauth/identity", fetch, credential)
    watched = tuple(scopes_of(settings))
    samples = RequestSamples(settings.sample_requests)
    uses = Uses(f"{auth_url}/oauth/uses", fetch, credential, lambda: watched, samples)
    pages = Pages(page_key, runtime)

    def operations(kind: ResourceObject) -> Operations:
        records = (
            LocalRecords(engine, kind, runtime.random)
            if kind.home is Backend.HERE
            else IdentityRecords(identity, kind)
        )
        base = f"{url}/v2/{kind.name}"
        return Operations(
            kind, records, protection, problems, pages, base, uses, samples, allowances
        )

    maintenance = Maintenance(engine, runtime, decisions, settings.log.keep_events)
    watch = Watch(
        engine,
        last_seen_path(settings, settings.resource),
        runtime.now,
        log.database,
        lag(settings, settings.resource),
    )

    async def close() -> None:
        await uses.close(runtime.now())
        await protection.close()
        await fetch.close()
        with contextlib.suppress(*UNAVAILABLE):
            await maintenance.write_decisions()
        await engine.close()

    routes = [route for kind in objects for route in operations(kind).routes()]
    site = ApiIdentity(settings.brand.name, url, auth_url, settings.brand.accent)
    routes += documentation(site, objects, problems)
    return RoutedApp(
        [
            *routes,
            *ForwardAuth(protection, problems).routes(),
            _metadata(settings, problems),
            *Health(
                {"database": Readiness(engine, runtime.random).check_writable},
                UNAVAILABLE,
                monitoring_token(settings),
            ).routes(problems.refuse_at),
        ],
        runtime=runtime,
        refuse=problems.refuse,
        hosts=_hosts(settings),
        unavailable=UNAVAILABLE,
        trusted_proxies=settings.resource.trusted_proxies,
        traced_peers=settings.traces.continue_from,
        tls_proxy=settings.resource.tls_proxy,
        hsts=url.startswith("https://"),
        background=(
            partial(protection.follow, runtime.now),
            partial(uses.run, runtime.now),
            maintenance.run,
            watch.run,
        ),
        on_close=close,
        elsewhere=ServerAddress(settings.resource.url, lambda path: path == "/v2/"),
    )


def issuer_url(settings: Settings) -> str:
    """Return the issuer this resource server trusts; also the `iss` of its tokens."""
    return (settings.resource.authorization_url or settings.authorization.url).rstrip("/")


def _secret(settings: Settings) -> Secret:
    secret = settings.resource.credential_text
    if secret is not None:
        return secret
    path = credential_path(settings)

    def missing() -> str:
        message = f"{path} is missing: start the authorization server once, or copy it from there"
        raise OperatorError(message, "resource.credential")

    return Secret(create_or_read_secret_file(path, missing).strip())


def _trust(settings: Settings, auth_url: str) -> ssl.SSLContext | None:
    """Return a TLS context that also trusts `fetch.ca_file` and our own authorization server.

    None if there is nothing to trust besides the public and the system's authorities. Raises
    OperatorError for a file without a certificate.
    """
    files = certificate_files(settings, settings.authorization)
    trusted: dict[str, Path] = {}
    if files is not None and not settings.resource.authorization_url:
        trusted["authorization.tls_certificate"] = files[0]
    if settings.fetch.ca_file:
        trusted["fetch.ca_file"] = settings.source.directory / settings.fetch.ca_file
    if not trusted or not auth_url.startswith("https://"):
        return None
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for setting, file in trusted.items():
        try:
            context.load_verify_locations(file)
        except (OSError, ssl.SSLError) as error:
            raise OperatorError(f"cannot use this certificate: {error}", setting) from None
    return context


def _max_age(settings: Settings) -> Lifetime | None:
    limit = settings.resource.revocations_max_age
    return seconds(limit) if limit else None


def _hosts(settings: Settings) -> frozenset[str]:
    return frozenset({urlsplit(settings.resource.url).netloc, settings.resource.listen})


def _remember(db: Connection, engine: Engine, now: Instant) -> tuple[bytes, Memory]:
    kept = StoredValues(db)
    key = from_base64url(kept.find(PAGE_KEY))
    if not key:
        message = "the resource server's database was not prepared"
        raise OperatorError(message, "resource.database")
    return key, Memory(
        keys=kept.find(KEY_SET).encode(),
        revocations=Revocations(db).read(now),
        keep_keys=tolerate_outage(
            engine, lambda db, document: StoredValues(db).set(KEY_SET, document.decode())
        ),
        keep_revocations=tolerate_outage(engine, lambda db, page: Revocations(db).save(page)),
    )


def _metadata(settings: Settings, problems: Problems) -> Route:
    """Return the protected resource metadata: its issuer and scopes (RFC 9728)."""
    resource = settings.resource.url
    document = metadata_document(resource, [issuer_url(settings)], scopes_of(settings))

    async def answer(_: Request) -> Response:
        return Response(200, document, (("content-type", "application/json"), *ANY_ORIGIN))

    path = metadata_path(resource)
    return Route(path, {"GET": answer}, problems.refuse_at(path), cors=any_origin)
