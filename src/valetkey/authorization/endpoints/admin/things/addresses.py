"""Where the pages about things are."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

CLIENTS = "/admin/clients"
CLIENT = "/admin/clients/{client_id}"
CLIENT_ACT = "/admin/clients/{client_id}/{act}"
KEYS = "/admin/keys"
KEYS_ROTATE = "/admin/keys/rotate"
KEY_WITHDRAW = "/admin/keys/{kid}/withdraw"
EVENTS = "/admin/events"
EXPORT = "/admin/events/export"
SETTINGS = "/admin/settings"
BRAND = "/admin/settings/brand"
REGISTRATION = "/admin/registration"
INVITATION = "/admin/registration/invitations/{invitation_id}/withdraw"
MAIL = "/admin/mail"
TOKENS = "/admin/tokens"
NEW_TOKEN = "/admin/tokens/new"
END_TOKEN = "/admin/tokens/{token_id}/end"


def client_address(client_id: str, act: str = "") -> str:
    """The page about this app, or about one thing that can be done with it."""
    place = f"{CLIENTS}/{quote(client_id, safe='')}"
    return f"{place}/{act}" if act else place


def with_query(address: str, said: Mapping[str, str]) -> str:
    """The address with what is not empty of this."""
    query = urlencode({name: value for name, value in said.items() if value})
    return f"{address}?{query}" if query else address
