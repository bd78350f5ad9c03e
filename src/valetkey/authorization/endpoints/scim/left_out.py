"""What is left out of a request because it cannot be kept: its names, and what stays instead."""

from collections.abc import Collection
from typing import cast

from valetkey.authorization.endpoints.scim.schema import LeftOut, Resource, is_short
from valetkey.authorization.model.account.scim import ScimGroup, ScimUser

_MOST = 20
"""Maximum number of names that are stored for one resource."""


def left_name(path: tuple[str, ...]) -> str:
    """Return the name of an attribute or part, as events and `valetkey doctor` show it."""
    return path[1] if len(path) > 1 and path[0].startswith("urn:") else ".".join(path)


def left_out_text(left: LeftOut, stays: str = "") -> str:
    """Return the names of what was left out now, with those that `stays` has from before."""
    names = {*map(left_name, left), *_names(stays)}
    return ", ".join(sorted(names)[:_MOST])


def still_left_out(text: str, touched: Collection[str]) -> str:
    """Return the names of what was left out before, without the attributes that are sent again."""
    return ", ".join(name for name in _names(text) if name.partition(".")[0] not in touched)


def restored(wanted: Resource, before: Resource, left: LeftOut) -> Resource:
    """Return the resource with the values from before in place of those that were left out."""
    after = dict(wanted)
    for name, *part in left:
        old = before.get(name)
        if isinstance(old, dict) and part:
            inside = cast("Resource", after.get(name, {}))
            stays = {each: value for each, value in cast("Resource", old).items() if each in part}
            after[name] = {**stays, **inside}
        elif old is not None and name not in after:
            after[name] = old
    return after


def external_id(wanted: Resource, found: ScimUser | ScimGroup, left: LeftOut) -> str:
    """Return the `externalId`; the one before if it cannot be kept."""
    text = str(wanted.get("externalId", ""))
    if is_short(text):
        return text
    left.add(("externalId",))
    return found.external_id


def _names(text: str) -> list[str]:
    return text.split(", ") if text else []
