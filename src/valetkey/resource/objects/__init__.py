"""The objects under /v2/: one file and one line here for each."""

from valetkey.resource.objects import identity, notes
from valetkey.resource.resource_object import ResourceObject

OBJECTS: tuple[ResourceObject, ...] = (
    identity.ACCOUNT,
    identity.CLIENT,
    identity.AUTHORIZATIONS,
    notes.OBJECT,
)
"""The objects in display order."""
