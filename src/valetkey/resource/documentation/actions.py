"""Each operation of an object as an example request, for the OpenAPI document and the page."""

from collections.abc import Iterator

from msgspec import Struct

from valetkey.kernel.shapes.shape import Document
from valetkey.resource.documentation.schemas import of_kind
from valetkey.resource.resource_object import Home, ResourceObject, Verb


class Action(Struct, frozen=True):
    """One operation of one object: method, path, and an example body if it has one."""

    kind: ResourceObject
    verb: Verb
    method: str
    path: str
    summary: str
    example: Document | None = None

    @property
    def name(self) -> str:
        """Return its operationId, such as `list_notes`."""
        return f"{self.verb}_{self.kind.name.replace('-', '_')}"

    @property
    def has_id(self) -> bool:
        """Return whether the path contains an id."""
        return "{id}" in self.path

    @property
    def has_preconditions(self) -> bool:
        """Return whether it takes preconditions."""
        return self.verb in (Verb.REPLACE, Verb.CHANGE, Verb.DELETE)

    @property
    def has_body(self) -> bool:
        """Return whether it has a body."""
        return self.verb in (Verb.CREATE, Verb.REPLACE, Verb.CHANGE)


_METHODS = (
    (Verb.LIST, "GET", "List {name}"),
    (Verb.CREATE, "POST", "Create one of {name}"),
    (Verb.READ, "GET", "Read one of {name}"),
    (Verb.REPLACE, "PUT", "Replace one of {name}"),
    (Verb.CHANGE, "PATCH", "Change some fields of one of {name}"),
    (Verb.DELETE, "DELETE", "Delete one of {name}"),
)


def actions(kind: ResourceObject) -> Iterator[Action]:
    """Return all operations of an object, in display order."""
    example = of_kind(kind) if kind.home is Home.HERE or kind.fields.names else None
    for verb, method, summary in _METHODS:
        if verb not in kind.verbs:
            continue
        several = verb in (Verb.LIST, Verb.CREATE) or kind.singleton
        path = f"/v2/{kind.name}" if several else f"/v2/{kind.name}/{{id}}"
        said = summary.replace("one of ", "") if kind.singleton else summary
        yield Action(kind, verb, method, path, said.format(name=kind.name), _sent(example, verb))


def _sent(example: Document | None, verb: Verb) -> Document | None:
    if example is None or verb not in (Verb.CREATE, Verb.REPLACE, Verb.CHANGE):
        return None
    if verb is Verb.CHANGE:
        return dict(list(example.items())[:1])
    return example
