"""The objects under /v2/: one file and one line here for each."""

from valetkey.resource.objects import account, authorizations, client, notes
from valetkey.resource.resource_object import ResourceObject

OBJECTS: tuple[ResourceObject, ...] = (
    account.OBJECT,
    client.OBJECT,
    authorizations.OBJECT,
    notes.OBJECT,
)
"""The objects in display order."""
