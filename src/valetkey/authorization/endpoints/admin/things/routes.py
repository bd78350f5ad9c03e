"""The routes about things: which address is whose. What is not here does not exist."""

from valetkey.authorization.deeds.foundation import Foundation
from valetkey.authorization.endpoints.admin.things import addresses
from valetkey.authorization.endpoints.admin.things.client import ClientEndpoint
from valetkey.authorization.endpoints.admin.things.clients import ClientsEndpoint
from valetkey.authorization.endpoints.admin.things.events import EventsEndpoint
from valetkey.authorization.endpoints.admin.things.keys import KeysEndpoint
from valetkey.authorization.endpoints.admin.things.mail import MailEndpoint
from valetkey.authorization.endpoints.admin.things.registration import RegistrationEndpoint
from valetkey.authorization.endpoints.admin.things.settings import SettingsEndpoint
from valetkey.authorization.endpoints.admin.things.tokens import TokensEndpoint
from valetkey.authorization.site.site import Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route

DOOR = "admin"


def routes(site: Site, foundation: Foundation, refuse: Refuse) -> tuple[Route, ...]:
    """All of them; each asks for its permission, and its deeds ask again."""
    settings = foundation.settings
    clients = ClientsEndpoint(site)
    client = ClientEndpoint(site, foundation.registrar(DOOR))
    keys = KeysEndpoint(site, foundation.keys, settings.tokens)
    events, tokens = EventsEndpoint(site), TokensEndpoint(site)
    registration = RegistrationEndpoint(site, settings)
    shown, mail = SettingsEndpoint(site, settings), MailEndpoint(site, foundation.mailroom)

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    return (
        page(addresses.CLIENTS, clients.get),
        page(addresses.CLIENT, client.get),
        form(addresses.CLIENT_ACT, client.ask, client.do),
        page(addresses.KEYS, keys.get),
        form(addresses.KEYS_ROTATE, keys.ask_rotate, keys.rotate),
        form(addresses.KEY_WITHDRAW, keys.ask_withdraw, keys.withdraw),
        page(addresses.EVENTS, events.get),
        form(addresses.EXPORT, events.ask, events.export),
        page(addresses.SETTINGS, shown.get),
        form(addresses.BRAND, shown.ask, shown.change),
        form(addresses.REGISTRATION, registration.get, registration.invite),
        Route(addresses.INVITATION, {"POST": registration.withdraw}, refuse, Body.FORM),
        form(addresses.MAIL, mail.get, mail.test),
        page(addresses.TOKENS, tokens.get),
        form(addresses.NEW_TOKEN, tokens.ask, tokens.make),
        form(addresses.END_TOKEN, tokens.ask_end, tokens.end),
    )
