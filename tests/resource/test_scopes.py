"""The scopes that this API asks for."""

import asyncio
import re
from pathlib import Path

from tests.resource.api import api
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.kernel.scope import Scope
from valetkey.resource.objects import OBJECTS
from valetkey.resource.resource_object import Verb
from valetkey.resource.scopes import SCOPES


def test_every_scope_of_an_object_has_a_description() -> None:
    scopes = {scope for kind in OBJECTS for verb in kind.verbs for scope in kind.scopes(verb)}
    assert scopes == set(SCOPES)


def test_scope_sentences_complete_this_app_wants_to() -> None:
    for name, sentence in SCOPES.items():
        assert Scope.parse(name).names == (name,)
        if name.startswith("client:"):
            assert sentence == "", "no person is asked for what is a client's own"
            continue
        assert re.fullmatch(r"(?:read|change|see|revoke) [a-z].*[a-z]", sentence), name


def test_identity_scopes_are_not_scopes_of_the_resource_server() -> None:
    assert not set(IDENTITY_SCOPES) & set(SCOPES)
    assert not {
        name for kind in OBJECTS for verb in kind.verbs for name in kind.scopes(verb)
    } & set(IDENTITY_SCOPES)


def test_token_with_identity_scopes_only_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token(" ".join(IDENTITY_SCOPES))
            for path in ("/v2/account", "/v2/notes", "/v2/authorizations"):
                assert (await call("GET", path, token=token)).status == 403
            answer = await call("GET", "/.well-known/oauth-protected-resource")
            assert not set(IDENTITY_SCOPES) & set(answer.json["scopes_supported"])

    asyncio.run(story())


def test_only_writable_objects_have_a_write_scope() -> None:
    for kind in OBJECTS:
        writable = any(verb.writes for verb in kind.verbs)
        assert (f"{kind.name}:write" in SCOPES) is writable
        assert Verb.READ in kind.verbs
