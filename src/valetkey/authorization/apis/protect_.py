"""/admin/apis/{api_id}/protect: code that protects an API, for each framework."""

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.developer.presets import ConfigurationFile, fill
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import AccessTokenFormat
from valetkey.authorization.operations.apis import no_such_api
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.apis.api import API, named
from valetkey.authorization.site.admin.apis.apis import api_address
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.words import translatable

PROTECT = f"{API}/protect"


class Framework(Struct, frozen=True):
    """Code for one framework that accepts only tokens for the API.

    `install` and `run` are commands or, for Maven, a dependency. Only tokens of the formats and
    algorithms listed are verified; with `secret`, the environment variable API_SECRET is needed.
    """

    label: str
    install: str
    run: str
    files: Mapping[str, str]
    secret: bool = False
    formats: tuple[AccessTokenFormat, ...] = tuple(AccessTokenFormat)
    algorithms: tuple[Algorithm, ...] = tuple(Algorithm)

    def verifies(self, api: Api) -> bool:
        """Return whether the code verifies tokens of this API."""
        return api.access_token_format in self.formats and (
            api.signing_algorithm in self.algorithms
        )

    def code(self, api: Api, issuer: str) -> tuple[ConfigurationFile, ...]:
        """Return the files for this API. They require its first scope, if it declares any.

        Values are filled into double-quoted strings; a line with `{scope}` is left out without one.
        """
        scope = next(iter((*api.scopes, *api.machine_scopes)), "")
        places = {
            "issuer": _inside(issuer),
            "identifier": _inside(api.identifier),
            "api_id": _inside(api.id),
            "algorithm": api.signing_algorithm.value,
            "scope": _inside(scope),
            "scopes": json.dumps(scope) if scope else "",
        }
        return tuple(
            ConfigurationFile(name, fill(_lines(text, scope).lstrip("\n"), places))
            for name, text in self.files.items()
        )


def _inside(value: str) -> str:
    return json.dumps(value)[1:-1]


def _lines(text: str, scope: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if scope or "{scope}" not in line)


def _read() -> Mapping[str, Framework]:
    folder = files("valetkey.authorization.site.admin").joinpath("frameworks")
    texts = {name: folder.joinpath(f"{name}.toml").read_text() for name in _ORDER}
    return MappingProxyType(
        {name: msgspec.convert(tomllib.loads(text), Framework) for name, text in texts.items()}
    )


_ORDER = ("fastapi", "flask", "django", "express", "spring", "go", "nginx")

FRAMEWORKS: Mapping[str, Framework] = _read()
"""Every framework by its name, in the order in which they are shown."""


class ProtectPage(Struct, frozen=True):
    """The code for one framework. `tabs` has the address and label of each, and which is shown."""

    template: ClassVar[str] = "admin/apis/protect.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    name: str
    back: str
    tabs: tuple[tuple[str, str, bool], ...]
    framework: Framework
    files: tuple[ConfigurationFile, ...]
    #: Frameworks whose code does not verify tokens of this API.
    others: tuple[str, ...] = ()


class ProtectApi(Struct, frozen=True):
    """Show the code that protects an API."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Protect this API")
        return (Page(PROTECT, administrator(), self.show, title=title),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the code for the framework `in`, or for the first one."""
        api_id, actor = named(request), request.actor

        def read_state(tx: Transaction) -> Api | None:
            require(tx, actor, Permission.READ)
            return tx.apis.find(api_id)

        api = await self.services.store.read(read_state)
        if api is None:
            raise no_such_api()
        return Show(
            protect_page(api, self.services.settings.authorization.url, request.query.get("in"))
        )


def protect_page(api: Api, issuer: str, asked: str | None) -> ProtectPage:
    """Return the page for the requested framework, or for the first that fits."""
    fitting = {name: each for name, each in FRAMEWORKS.items() if each.verifies(api)}
    chosen = asked if asked in fitting else next(iter(fitting))
    place = api_address(api.id, "protect")
    return ProtectPage(
        name=api.name,
        back=api_address(api.id),
        tabs=tuple(
            (f"{place}?in={name}", each.label, name == chosen) for name, each in fitting.items()
        ),
        framework=fitting[chosen],
        files=fitting[chosen].code(api, issuer),
        others=tuple(each.label for name, each in FRAMEWORKS.items() if name not in fitting),
    )
