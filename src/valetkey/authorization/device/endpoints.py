"""POST /oauth/device-authorization: begin a device authorization (RFC 8628 section 3.1)."""

from functools import partial

from msgspec import Struct

from valetkey.authorization.device.model import (
    DEVICE_AUTHORIZATION,
    DEVICE_CODE,
    USER_CODE,
    DeviceCode,
    DeviceCodeIssued,
    fresh_user_code,
    shown_user_code,
)
from valetkey.authorization.device.rules import client_limit
from valetkey.authorization.device.settings import DeviceSettings
from valetkey.authorization.device.storage import DeviceCodes
from valetkey.authorization.endpoints.client.request import (
    NOT_STORED,
    require_query_allowed,
    require_registered,
)
from valetkey.authorization.feature import EndpointParts
from valetkey.authorization.layout.addresses import DEVICE
from valetkey.authorization.model.api import Api, generations
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.event import by_client
from valetkey.authorization.model.grant import liveness_of, require_live
from valetkey.authorization.protocol.authorization_request import requested_scope
from valetkey.authorization.protocol.client_authentication.method import not_proven
from valetkey.authorization.protocol.resource import AUDIENCE, RESOURCE, joined
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.router import Body, Route
from valetkey.web.security_headers import ANY_ORIGIN, any_origin

_DRAWS = 3
"""Attempts to find an unused user code: with 20,000 open codes, one fails once in a million."""


def device_authorization_route(parts: EndpointParts) -> Route:
    """Return the route of the device authorization endpoint."""
    return Route(
        DEVICE_AUTHORIZATION,
        {"POST": DeviceAuthorizationEndpoint(parts)},
        parts.refuse,
        Body.FORM,
        hides_query=True,
        cors=any_origin,
    )


class DeviceAuthorizationEndpoint(Struct, frozen=True):
    """Issues device codes to clients that have the grant type, for the APIs they name."""

    parts: EndpointParts

    @property
    def settings(self) -> DeviceSettings:
        """The limits and lifetimes of codes."""
        return self.parts.services.settings.section(DeviceSettings)

    async def __call__(self, request: Request) -> Response:
        """Return the device code, the user code and where users enter it (section 3.2)."""
        client_id, server = None, self.parts.server
        try:
            client_request = self.parts.client_auth.read(request)
            claimed_id = client_request.parameters.get("client_id")
            await server.documents.update_from_document(claimed_id, request.address, request.at)
            proven = await self.parts.client_auth.authenticate(request, client_request)
            client_id = proven.client.id
            require_query_allowed(client_request, proven)
            require_registered(proven.client, GrantTypeName.DEVICE_CODE)
            parameters = client_request.parameters
            resources = joined(parameters.all(RESOURCE))
            targets = server.apis.named(resources, parameters.get(AUDIENCE))
            apis = await server.apis.requested(targets, proven.client)
            if isinstance(apis, Refusal):
                raise Refused(apis)
            scope = requested_scope(parameters.get("scope") or "", proven.client, apis)
            device_code, user_code = await self._issue(request, proven.client, apis, scope)
        except Refused as refused:
            return self.parts.refuse(request, refused.refusal, client_id)
        shown = shown_user_code(user_code)
        body: dict[str, object] = {
            "device_code": device_code.reveal(),
            "user_code": shown,
            "verification_uri": f"{server.issuer}{DEVICE}",
            "verification_uri_complete": f"{server.issuer}{DEVICE}/{shown}",
            "expires_in": self.settings.code_lifetime,
            "interval": self.settings.interval,
        }
        return json_response(body, 200, (*NOT_STORED, *ANY_ORIGIN))

    async def _issue(
        self, request: Request, client: Client, apis: tuple[Api, ...], scope: Scope
    ) -> tuple[Secret, str]:
        services, now = self.parts.services, request.at
        random, key = services.random, services.fingerprints
        network = key.fingerprint("throttle", network_of(request.address))
        for _ in range(_DRAWS):
            device_code = fresh_secret(Prefix.DEVICE_CODE, random)
            user_code = fresh_user_code(random)
            code = DeviceCode(
                fingerprint=key.fingerprint(DEVICE_CODE, device_code.reveal()),
                user_code=key.fingerprint(USER_CODE, user_code),
                client_id=client.id,
                client_generation=client.generation,
                scope=scope,
                apis=generations(apis),
                address=request.address,
                grant_id=fresh_id("gr", random),
                created_at=now,
                expires_at=later(now, self.settings.code_lifetime),
                poll_interval=self.settings.interval,
                counted=f"device_codes_from:{network}",
            )
            if await services.store.write(partial(self._store, code), done_by=by_client(client.id)):
                return device_code, user_code
        raise Refused(_too_many(self.settings.interval, "user codes in use"))

    def _store(self, code: DeviceCode, tx: Transaction) -> bool:
        now, settings = code.created_at, self.settings
        few = Limit(settings.codes_per_address, settings.code_lifetime)
        if wait := tx.throttles.begin(code.counted, few, now):
            raise Refused(_too_many(wait, f"more than {few.attempts}"))
        many = Limit(settings.codes_per_client, settings.code_lifetime)
        if wait := tx.throttles.take(client_limit(code.client_id), many, now):
            raise Refused(_too_many(wait, f"more than {many.attempts}"))
        # The client may have been disabled since authentication.
        client = tx.clients.find(code.client_id)
        if client is None:
            raise Refused(not_proven("unknown"))
        if problem := require_live(liveness_of(client), now):
            raise Refused(problem)
        address = code.address if self.parts.services.store.records_addresses else ""
        fresh = replace(code, client_generation=client.generation, address=address)
        if not DeviceCodes.of(tx).issue(fresh):
            return False
        tx.events.add(DeviceCodeIssued(code.client_id, code.grant_id), now)
        return True


def _too_many(wait: int, received: str) -> Refusal:
    return Refusal(
        ErrorCode.SLOW_DOWN,
        "too many device codes were requested that no user allowed; wait for the time in "
        "Retry-After, or enter the codes that devices show",
        "device_authorization.throttled",
        "fewer device codes",
        received,
        retry_after=wait,
    )
