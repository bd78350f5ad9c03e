"""Which version of an app a form was made from, so that nobody undoes what another just did."""

import hashlib
import re
from collections.abc import Mapping

from valetkey.authorization.model.register.client import Client

_FORM = re.compile(r"[0-9a-f]{8}(?:\.[0-9a-f]{8}){6}")


def version_of(client: Client) -> str:
    """What the form carries: one short digest for each of its parts."""
    return ".".join(_digests(client).values())


def changed_since(client: Client, version: str) -> tuple[str, ...]:
    """The parts of the form that are not what they were: all of them for what is no version."""
    now = _digests(client)
    if _FORM.fullmatch(version) is None:
        return tuple(now)
    then = dict(zip(now, version.split("."), strict=True))
    return tuple(name for name, digest in now.items() if then[name] != digest)


def _digests(client: Client) -> Mapping[str, str]:
    parts: Mapping[str, object] = {
        "name": client.name,
        "description": client.description,
        "redirect_uris": client.redirect_uris,
        "scopes": client.scope.names,
        "profile": client.profile_name.value,
        "links": (client.logo_uri, client.openid.client_uri, client.policy_uri, client.tos_uri),
        "other": (sorted(client.grant_types), client.requires_pkce),
    }
    return {
        name: hashlib.sha256(repr(value).encode()).hexdigest()[:8] for name, value in parts.items()
    }
