"""Assembly of the authorization server."""

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlsplit

from valetkey.authorization.actions.inspection.inspector import Inspector
from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.app.clients import (
    browser_routes,
    client_routes,
    health_routes,
    metadata_routes,
    registration_routes,
    resource_server_routes,
    userinfo_route,
)
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.app.pages import PageDependencies, page_routes
from valetkey.authorization.app.parts import (
    geo_database_of,
    make_apis,
    make_assertions,
    make_audit_exports,
    make_client_auth,
    make_documents,
    make_heartbeats,
    make_logo_fetcher,
    make_logout_delivery,
    make_mail_delivery,
    make_reader,
    make_server,
    make_token_responses,
    make_watch,
)
from valetkey.authorization.app.settings import FollowedSettings, with_stored
from valetkey.authorization.authentication.password import PasswordSignIn
from valetkey.authorization.authentication.places import PLACES
from valetkey.authorization.background.audit import AuditJob
from valetkey.authorization.background.logos import BATCH as LOGOS_AT_ONCE
from valetkey.authorization.background.maintenance import (
    DatabaseGauges,
    Maintenance,
    ResponseTimeCounter,
    RevocationLogWriter,
    address_sweep,
)
from valetkey.authorization.client_authentication import ClientDirectory, SecretUses
from valetkey.authorization.endpoints.admin_api import routes as admin_api_routes
from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.feature import EndpointParts, Memory, Parts
from valetkey.authorization.features import CHECKS, FEATURES, TABLE
from valetkey.authorization.model.event.chain import checkpoint_key
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.account.profile import UPLOADS_WAITING
from valetkey.authorization.site.errors.refuse import (
    RefuseUnknownPath,
    RefuseWithPage,
    is_page,
)
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.authorization.tokens.signing_keys import NoSigningKey
from valetkey.config.paths import revocation_log_path
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.bounded_threads import NoThread
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime
from valetkey.web.offload import Busy, Offload
from valetkey.web.paths import ServerAddress
from valetkey.web.router import Route, RoutedApp

_UNAVAILABLE = (DatabaseUnavailable, Overloaded, Busy, NoSigningKey, NoThread)


async def build(
    settings: Settings,
    runtime: Runtime,
    scopes: Mapping[str, str],
    reload: Callable[[], None] | None = None,
    number: int = 0,
    node: str = "",
) -> RoutedApp:
    """Build the server. `prepare` has run before, in this process or another.

    `reload` is called when stored settings change, by worker `number` later than by the first one.
    With an id for the `node`, the first worker records its heartbeats.

    Raises OperatorError if the keyring cannot decrypt what the database keeps sealed.
    """
    PLACES.use(geo_database_of(settings))
    foundation = await with_stored(build_foundation(settings, runtime, scopes, begins=False))
    settings, store, keyring = foundation.settings, foundation.store, foundation.keyring
    decisions = ClientDecisionQueue(runtime.random)
    refuse = ClientRefusal(foundation.issuer, decisions)
    directory = ClientDirectory(store)
    offload = Offload(os.cpu_count() or 1, settings.passwords.queue, "passwords")
    # A thread of its own, so that no sign-in waits for an image.
    images = Offload(1, LOGOS_AT_ONCE + UPLOADS_WAITING, "images")
    uses = SecretUses()
    documents = make_documents(foundation, directory)
    apis = make_apis(foundation, directory)
    claims = foundation.token_claims()
    client_auth = make_client_auth(foundation, directory, documents, uses)
    minter = make_token_responses(foundation)
    foundation.check(settings)
    maintenance = Maintenance(
        store.acting(SYSTEM),
        decisions,
        foundation.keys,
        runtime,
        foundation.keep_events,
        (
            *foundation.self_registrar().sweeps,
            foundation.removal.sweep,
            address_sweep(settings.privacy),
            *(sweep for feature in FEATURES for sweep in feature.sweeps),
        ),
        foundation.samples,
    )
    logout_delivery = make_logout_delivery(foundation)
    answer_clock = ResponseTimeCounter()
    try:
        foundation.outgoing.prepare()
        services = foundation.services
        memory = await _memory(services)
        parts = Parts(
            store,
            keyring,
            foundation.outgoing,
            runtime,
            foundation.notices,
            foundation.keys,
            foundation.accounts(),
            settings,
            services.kinds,
            Inspector(settings, store, keyring, services.roles, CHECKS),
            memory,
        )
        assertions = make_assertions(foundation, parts)
        await foundation.keep_keys(runtime.now())
    except BaseException:
        offload.close()
        images.close()
        await store.engine.close()
        raise

    async def close() -> None:
        await logout_delivery.close()
        with contextlib.suppress(*_UNAVAILABLE):
            await maintenance.flush()
            await maintenance.flush_samples()
            await uses.flush(store)
            await answer_clock.flush(store)
        offload.close()
        images.close()
        await foundation.close()

    passwords = PasswordSignIn(
        store=store,
        offload=offload,
        key=keyring.fingerprint_key,
        passwords=settings.passwords,
        limits=settings.limits,
        random=runtime.random,
    )
    server = make_server(foundation, directory, documents, apis, claims, decisions)
    sign_out = SignOut(foundation.issuer, store, server.subjects, logout_delivery.at_once)
    reader = make_reader(foundation)
    refuse_with_page = RefuseWithPage(decisions, server.brands, foundation.issuer)
    clients = client_routes(
        foundation,
        client_auth,
        directory,
        apis,
        claims,
        assertions,
        reader,
        replace(passwords, channel="password_grant").authenticate,
        minter,
        refuse,
    )
    userinfo = userinfo_route(foundation, directory, claims, reader, minter, refuse)
    site = PageDependencies(
        foundation,
        server,
        passwords,
        sign_out,
        parts,
        refuse_with_page,
        images,
        clients[0],
        userinfo,
    )
    routes = (
        *browser_routes(server, minter, refuse_with_page),
        *page_routes(site),
        *clients,
        userinfo,
        *_of_features(
            EndpointParts(foundation.services, server, client_auth, refuse, refuse_with_page)
        ),
        *registration_routes(foundation, refuse),
        *admin_api_routes(site.renderer, foundation.services, decisions, TABLE),
        *resource_server_routes(foundation, client_auth, apis, reader, refuse),
        *health_routes(foundation, refuse, _UNAVAILABLE),
    )
    return RoutedApp(
        (*metadata_routes(foundation, routes, server, assertions, refuse), *routes),
        runtime=runtime,
        refuse=RefuseUnknownPath(
            replace(refuse_with_page, keeps_path=False), replace(refuse, keeps_path=False)
        ),
        hosts=frozenset({urlsplit(foundation.issuer).netloc, settings.authorization.listen}),
        unavailable=_UNAVAILABLE,
        trusted_proxies=settings.authorization.trusted_proxies,
        traced_peers=settings.traces.continue_from,
        tls_proxy=settings.authorization.tls_proxy,
        hsts=foundation.issuer.startswith("https://"),
        background=(
            make_watch(foundation).run,
            RevocationLogWriter(store, revocation_log_path(settings), runtime).run,
            AuditJob(
                store, foundation.keep_events, checkpoint_key(keyring.fingerprint_key), runtime
            ).run,
            *make_audit_exports(foundation),
            maintenance.write_decisions,
            partial(uses.run, store),
            maintenance.count_usage,
            maintenance.sweep,
            maintenance.keep_keys,
            *make_heartbeats(
                foundation, node if number == 0 else "", supervised=reload is not None
            ),
            partial(server.brands.follow_changes, store),
            *(partial(kept.follow_changes, store) for kept in memory),
            logout_delivery.deliver,
            *(job for feature in FEATURES for job in feature.jobs(parts)),
            make_logo_fetcher(foundation, images).fetch,
            partial(answer_clock.run, store),
            DatabaseGauges(
                store,
                runtime,
                settings.tokens.signing_key_lifetime,
                settings.audit.export,
                [gauges for feature in FEATURES for gauges in feature.gauges],
            ).run,
            *make_mail_delivery(foundation, server.brands),
            *(
                (partial(FollowedSettings(foundation, reload, number).follow_changes, store),)
                if reload
                else ()
            ),
        ),
        on_close=close,
        observe=answer_clock.count,
        elsewhere=ServerAddress(foundation.issuer, is_page),
    )


async def _memory(services: Services) -> tuple[Memory, ...]:
    """Return what features keep in memory, read for the first time."""
    memory = tuple(kept for feature in FEATURES for kept in feature.memory(services))
    for kept in memory:
        await kept.refresh(services.store)
    return memory


def _of_features(parts: EndpointParts) -> tuple[Route, ...]:
    """Return the endpoints of all features."""
    return tuple(route for feature in FEATURES for route in feature.endpoints(parts))
