"""POST /oauth/register: dynamic client registration (RFC 7591 section 3)."""

from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.actions.registrations import (
    FreshRegistration,
    Registered,
    SelfRegistrar,
    invitation_print,
    refuse_token,
)
from valetkey.authorization.actions.sectors import Sectors
from valetkey.authorization.endpoints.registration.answer import (
    RegistrationAnswers,
    bearer,
    read_members,
)
from valetkey.authorization.model.event.actor import ANONYMOUS
from valetkey.authorization.protocol.register.self_registration import refuse_registration
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import RegistrationMode
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import (
    Fingerprint,
    Prefix,
    fresh_id,
    fresh_secret,
    well_formed,
)
from valetkey.web.client_address import neighbourhood
from valetkey.web.exchange import Request, Response
from valetkey.web.rate_limit import Buckets


@dataclass(frozen=True, slots=True)
class RegisterEndpoint:
    """Registers clients as the operator's registration mode and rate limits allow."""

    store: Store
    registrar: SelfRegistrar
    sectors: Sectors
    mode: str
    tries: Buckets
    answers: RegistrationAnswers
    random: Callable[[int], bytes]

    async def __call__(self, request: Request) -> Response:
        """Return 201 with the registration once it is committed."""
        try:
            return await self._register(request)
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)

    async def _register(self, request: Request) -> Response:
        now = request.at
        count_attempt_to_register(self.tries, request)
        invitation = await self._invitation(request)
        members = read_members(request)
        said = await self.store.read(lambda tx: self.registrar.without_apis(tx, members))
        metadata = self.registrar.read(said)
        if faults := await self.sectors.faults(metadata):
            refuse_registration(faults)
        fresh = draw(self.random)

        def register_client(tx: Transaction) -> Registered:
            tx.clients.hold_all()
            if invitation is not None and not tx.invitations.spend(invitation, now):
                refuse_token("registration.spent", "an initial access token with a use left")
            return self.registrar.register(tx, metadata, fresh, now)

        registered = await self.store.write(register_client, done_by=ANONYMOUS)
        return self.answers.told(registered, fresh.token.reveal(), 201)

    async def _invitation(self, request: Request) -> Fingerprint | None:
        """Return the initial access token to spend; None if registration is open."""
        if self.mode == RegistrationMode.OPEN:
            return None
        token = bearer(request)
        if self.mode != RegistrationMode.TOKEN or not well_formed(Prefix.INVITATION, token):
            refuse_token("registration.closed", "an initial access token")
        print_ = invitation_print(self.registrar.fingerprints, token)
        # Unauthorized callers learn nothing about their metadata and cause no fetches.
        if not await self.store.read(lambda tx: tx.invitations.is_live(print_, request.at)):
            refuse_token("registration.unknown", "an initial access token with a use left")
        return print_


def count_attempt_to_register(tries: Buckets, request: Request) -> None:
    """Count an attempt; refused with `slow_down` after too many from one address."""
    if wait := tries.take(neighbourhood(request.address), request.at):
        raise Refused(
            Refusal(
                ErrorCode.SLOW_DOWN,
                "too many registrations from this address; try again later",
                "registration.rate",
                retry_after=wait,
            )
        )


def draw(random: Callable[[int], bytes]) -> FreshRegistration:
    """Generate the random values of one registration."""
    return FreshRegistration(
        fresh_id("client", random),
        fresh_secret(Prefix.CLIENT_SECRET, random),
        fresh_secret(Prefix.REGISTRATION, random),
    )
