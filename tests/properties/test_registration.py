"""Whatever is sent to register with, it is registered or refused; what is stored is told."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.authorization.endpoints.registration.registering import JSON, PLAIN, Registry
from tests.support.asgi import Answer
from tests.support.harness import CALLBACK, harness
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import Editor, OpenIdRegistration
from valetkey.config.settings import (
    RegistrationMode,
    RegistrationSettings,
)
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey

_EVERYTHING = RegistrationSettings(
    mode=RegistrationMode.OPEN,
    grant_types=tuple(
        name for name, rules in GRANT_RULES.items() if Editor.CLIENT in rules.editors
    ),
    scopes=("notes:read",),
    registrations_per_hour=1_000_000,
)
_KEYS = json.loads(KeySet.of(SigningKey.generate(Algorithm.ES256).public).document())
_MEMBERS = (
    *OpenIdRegistration.__struct_fields__,
    "redirect_uris",
    "grant_types",
    "application_type",
    "client_name",
    "scope",
    "logo_uri",
    "policy_uri",
    "tos_uri",
    "jwks",
    "software_statement",
    "client_id",
    "client_secret",
    "client_name#de",
)
# What is right somewhere, and so gets further in than noise.
_WORDS = st.sampled_from(
    (
        "code",
        "id_token",
        "token id_token",
        "authorization_code",
        "implicit",
        "client_credentials",
        "refresh_token",
        "native",
        "web",
        "none",
        "client_secret_jwt",
        "private_key_jwt",
        "ES256",
        "HS256",
        "RS256",
        "RSA-OAEP-256",
        "ECDH-ES",
        "A128GCM",
        "pairwise",
        "public",
        "openid",
        "openid notes:read",
        "https://app.example/x",
        "http://127.0.0.1/cb",
        "com.example.app:/cb",
        CALLBACK,
    )
)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | _WORDS
_SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT
_VALUE = st.recursive(
    _SCALAR | st.lists(_WORDS, max_size=3) | st.just(_KEYS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)
_ASKED = st.dictionaries(st.sampled_from(_MEMBERS) | _TEXT, _VALUE, max_size=6)


class World:
    """One server for all examples, in one event loop."""

    def __init__(self, runner: asyncio.Runner, registry: Registry) -> None:
        self.runner = runner
        self.registry = registry

    def send(self, body: bytes, content_type: str = JSON) -> Answer:
        return self.runner.run(self.registry.raw(body, content_type=content_type))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    algorithms = (Algorithm.ES256, Algorithm.EDDSA)
    made = harness(tmp_path_factory.mktemp("any"), "", algorithms, registration=_EVERYTHING)
    with asyncio.Runner() as runner:
        it = runner.run(made.__aenter__())
        yield World(runner, Registry(it))
        runner.run(made.__aexit__(None, None, None))


def _judge(world: World, answer: Answer) -> None:
    assert answer.status in {201, 400, 413, 415}, answer.body
    assert answer.headers["cache-control"] == "no-store"
    document = answer.json
    if answer.status != 201:
        assert document["error_description"]
        return
    read = world.runner.run(world.registry.manage(document))
    assert read.json == {name: document[name] for name in document if name != "client_secret"}


@given(body=st.binary(max_size=200))
def test_any_bytes_as_body_are_answered_without_a_server_error(world: World, body: bytes) -> None:
    _judge(world, world.send(body))


@given(value=_VALUE)
def test_any_json_body_is_answered_without_a_server_error(world: World, value: object) -> None:
    _judge(world, world.send(json.dumps(value).encode()))


@settings(max_examples=300)
@given(said=_ASKED)
def test_any_members_are_answered_and_read_back_as_registered(
    world: World, said: dict[str, object]
) -> None:
    _judge(world, world.send(json.dumps({**PLAIN, **said}).encode()))


@given(kind=st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20))
def test_any_media_type_is_answered_without_a_server_error(world: World, kind: str) -> None:
    _judge(world, world.send(json.dumps(PLAIN).encode(), kind))


def test_too_large_body_is_refused_with_413(world: World) -> None:
    assert world.send(b'{"x": "' + b"x" * 1_048_576 + b'"}').status == 413
