"""Which version of an app a form was made from, so that nobody undoes what another just did."""

import hashlib
import re
from collections.abc import Mapping

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.model.register.fields import Editor
from valetkey.authorization.protocol.register.client_metadata import FIELDS, fields_of

_FIELDS = (*fields_of(Editor.DEVELOPER), FIELDS["grant_types"])
_FORM = re.compile(rf"[0-9a-f]{{8}}(?:\.[0-9a-f]{{8}}){{{len(_FIELDS) - 1}}}")


def version_of(client: Client) -> str:
    """Return what the form carries: one short digest for each field that it can change."""
    return ".".join(_digests(client).values())


def changed_since(client: Client, version: str) -> tuple[str, ...]:
    """Return the labels of the fields that changed; all of them for what is no version."""
    now = _digests(client)
    if _FORM.fullmatch(version) is None:
        return tuple(now)
    then = dict(zip(now, version.split("."), strict=True))
    return tuple(name for name, digest in now.items() if then[name] != digest)


def _digests(client: Client) -> Mapping[str, str]:
    metadata = metadata_of(client)
    return {
        field.rule.label: hashlib.sha256(repr(field.of(metadata)).encode()).hexdigest()[:8]
        for field in _FIELDS
    }
