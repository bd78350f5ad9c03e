"""The objects under /v2/: each is one file and one line here."""

from valetkey.resource.objects import account, authorizations, client, notes
from valetkey.resource.resource_object import ResourceObject

OBJECTS: tuple[ResourceObject, ...] = (
    account.OBJECT,
    client.OBJECT,
    authorizations.OBJECT,
    notes.OBJECT,
)
"""In the order in which people meet them."""
