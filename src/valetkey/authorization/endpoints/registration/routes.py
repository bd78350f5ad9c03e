"""Paths of registration (RFC 7591, RFC 7592): served in every mode, announced in two of them."""

from valetkey.authorization.actions.foundation import Foundation
from valetkey.authorization.actions.sectors import Sectors
from valetkey.authorization.endpoints.client.answer import ClientRefusal, preflight
from valetkey.authorization.endpoints.registration.answer import RegistrationAnswers
from valetkey.authorization.endpoints.registration.manage import ManageEndpoint
from valetkey.authorization.endpoints.registration.register import RegisterEndpoint
from valetkey.kernel.moment import hours
from valetkey.web.rate_limit import Buckets
from valetkey.web.router import Body, Route


def routes(foundation: Foundation, refuse: ClientRefusal) -> tuple[Route, ...]:
    """Return both routes. Raises Mistake if the settings name a scope that no user can grant."""
    settings = foundation.settings.registration
    registrar, store = foundation.self_registrar(), foundation.store
    answers = RegistrationAnswers(foundation.issuer, refuse)
    sectors, random = Sectors(foundation.outgoing), foundation.runtime.random
    tries = Buckets(settings.registrations_per_hour, hours(1))
    register = RegisterEndpoint(store, registrar, sectors, settings.mode, tries, answers, random)
    manage = ManageEndpoint(store, registrar, sectors, tries, answers, random)
    one = {"GET": manage.read, "PUT": manage.replace, "DELETE": manage.remove}
    return (
        Route(
            "/oauth/register",
            {"POST": register, "OPTIONS": preflight(("POST",))},
            answers.refuse,
            Body.JSON,
        ),
        Route(
            "/oauth/register/{client_id}",
            {**one, "OPTIONS": preflight(one)},
            answers.refuse,
            Body.JSON,
        ),
    )
