"""Actions: each verb of an object as a request; what the document and the page are made from."""

from collections.abc import Iterator
from dataclasses import dataclass

from valetkey.resource.documentation import examples
from valetkey.resource.resource_object import Home, ResourceObject, Verb
from valetkey.resource.shapes.shape import Document


@dataclass(frozen=True, slots=True)
class Action:
    """One verb of one object: method, path, and an example of what is sent, if anything is."""

    kind: ResourceObject
    verb: Verb
    method: str
    path: str
    summary: str
    example: Document | None = None

    @property
    def name(self) -> str:
        """What programs call it, such as `list_notes`."""
        return f"{self.verb}_{self.kind.name.replace('-', '_')}"

    @property
    def has_id(self) -> bool:
        """Whether the path names one object."""
        return "{id}" in self.path

    @property
    def has_preconditions(self) -> bool:
        """Whether it can say which state it changes."""
        return self.verb in (Verb.REPLACE, Verb.CHANGE, Verb.DELETE)

    @property
    def has_body(self) -> bool:
        """Whether something is sent."""
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
    """All that can be done to it, in the order in which people meet it."""
    example = examples.of_kind(kind) if kind.home is Home.HERE or kind.fields.names else None
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
