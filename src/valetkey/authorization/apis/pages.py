"""/admin/apis: list APIs, declare, show, change and protect one, and the operations on it."""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from types import MappingProxyType
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.presets import ConfigurationFile, fill
from valetkey.authorization.apis.operations import (
    ANY,
    CHANGE_API,
    DECLARE_API,
    DELETE_API,
    ISSUE_API_SECRET,
    LIST_APIS,
    ONE,
    ApiList,
    ApiShown,
    no_such_api,
    shown,
)
from valetkey.authorization.apis.operations import APIS as OPERATIONS
from valetkey.authorization.apis.storage import ApiSearch
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.api import API_FIELDS, Api
from valetkey.authorization.model.client import AccessTokenFormat, ClientSecret
from valetkey.authorization.operations.client_records import NewSecret
from valetkey.authorization.operations.operation import Services, call_of, tag_of, value_of
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.clients.client import (
    secret_choices,
    secret_lines,
    secret_page,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.groups.groups import required_group
from valetkey.authorization.site.admin.input_fields import Choices, Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    RecentEvents,
    Related,
    activity_about,
)
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    BY_NAME,
    BY_NAME_DESCENDING,
    DISABLED,
    NAMES,
    NEWEST_FIRST,
    OLDEST_FIRST,
    TIMES,
    Line,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.references import ANY_APP, GROUPS
from valetkey.authorization.site.admin.selected import SelectedEntry, SelectedPages, Selection
from valetkey.authorization.site.page import AnyPage, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.apis import ApiUsage
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name
from valetkey.web.body import Form

APIS = ADDRESSES["admin_apis"]
NEW = "/admin/apis/new"
_FORM = {"name": API_FIELDS["name"], **API_FIELDS}
API_WORDS: Words = {name: (field.rule.label, field.rule.hint) for name, field in _FORM.items()}
"""Labels and hints of the fields of an API."""

API_GROUPS = {name: field.rule.group for name, field in API_FIELDS.items()}
"""The headings of its fields."""

API_CHOICES: Mapping[str, Choices] = {
    name: field.rule.choices for name, field in API_FIELDS.items() if field.rule.choices
}
"""Labels of its choices."""

_DURATIONS = ("access_token_lifetime",)
_REFERENCES = {"clients": ANY_APP, "required_groups": GROUPS}
_TITLE = translatable("APIs")
_LONGEST = 80


def api_address(api_id: str, act: str = "") -> str:
    """Return the URL of the page about an API, or about one operation on it."""
    address = f"{ADDRESSES['admin_apis']}/{path_segment(api_id)}"
    return f"{address}/{act}" if act else address


class Apis(Struct, frozen=True):
    """List the APIs; declare one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the form."""
        return (
            Page(
                APIS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=APPS_AND_APIS,
                docs="how-to/apis/several-apis.html",
            ),
            InputForm(
                NEW,
                administrator(Permission.CLIENTS),
                actor_of,
                self.services,
                DECLARE_API,
                ApiShown,
                API_WORDS,
                translatable("New API"),
                self._new,
                self._made,
                submit=translatable("Create API"),
                choices=API_CHOICES,
                groups=API_GROUPS,
                durations=_DURATIONS,
                references=_REFERENCES,
            ).page(),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the APIs with the text in their name or identifier."""
        list_query = LIST.read(request)
        query = {
            "q": list_query.text,
            "sort": list_query.order,
            "cursor": list_query.after[:_LONGEST],
        }
        call = call_of(self.services, LIST_APIS, request.actor, request.now, query=query)
        api_list = asdict(await value_of(call, ApiList))
        count, saved = await self.services.store.scan(
            lambda tx: (
                ApiSearch(tx.db).count(list_query.text, LIST.most_counted + 1),
                LIST.saved(tx, request, list_query),
            )
        )
        page = LIST.page(
            request,
            list_query,
            [_row(api, request.now) for api in api_list["items"]],
            api_list["next"] or "",
            count,
            saved=saved,
            done=_DELETED if "deleted" in list_query.query else "",
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        return FormSubject(APIS, _TITLE, values={"clients": ANY})

    async def _made(self, _request: AdminRequest, made: Struct) -> Outcome:
        return SeeOther(f"{api_address(asdict(made)['api_id'])}?done=new")


def _state(*, disabled: bool) -> Part:
    return DISABLED if disabled else ACTIVE


def _row(api: Struct, now: Instant) -> Row:
    record = asdict(api)
    scopes = len({*record["scopes"], *record["machine_scopes"]})
    return Row(
        record["api_id"],
        record["name"],
        api_address(record["api_id"]),
        (
            (_state(disabled=record["disabled_at"] is not None),),
            (Part("number", count=scopes),),
            (since(When(Instant(record["created_at"]), now)),),
        ),
        (text(record["identifier"]),),
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    apis = (tx.apis.find(value) for value in values)
    return [
        SelectedEntry(api.id, api.name, api_address(api.id), api.identifier)
        for api in apis
        if api is not None
    ]


SELECTED_APIS = Selection(
    f"{APIS}/selected",
    APIS,
    _TITLE,
    "api",
    "api_id",
    Buttons.below(ONE, ("disable", "enable", "delete"), of=OPERATIONS),
    _selected,
)
"""What is offered for several APIs at once."""

LIST = ListDeclaration(
    APIS,
    ListWords(
        caption=_TITLE,
        new=translatable("New API"),
        none_found=translatable("No API found"),
        show_all=translatable("Show all APIs"),
        empty_title=translatable("No other APIs yet"),
        empty_text=translatable(
            "Create an entry for each API with its own tokens: its identifier, its permissions and"
            " the apps that may use it."
        ),
        selected=translatable("Selected APIs:"),
        search_hint=translatable("Part of the name or of the identifier."),
        lead=translatable(
            "An access token is valid for one API. Apps select it by its identifier; without one,"
            " tokens are for this server's own API."
        ),
    ),
    (
        (_TITLE, NAMES),
        (translatable("State"), None),
        (translatable("Permissions"), None),
        (translatable("Since"), TIMES),
    ),
    "apis",
    _LONGEST,
    orders=(BY_NAME, BY_NAME_DESCENDING, NEWEST_FIRST, OLDEST_FIRST),
    new_url=NEW,
    permission=Permission.CLIENTS,
    selection=SELECTED_APIS,
)
"""The list of APIs."""


API = "/admin/apis/{api_id}"
EDIT = "/admin/apis/{api_id}/edit"
ACT = "/admin/apis/{api_id}/{act}"

_BUTTONS = Buttons.below(ONE, of=OPERATIONS)
_DONE = {
    "new": translatable("The API is created. Issue a secret if it introspects tokens."),
    "edit": translatable("The API is changed."),
}
_DELETED = translatable("API deleted. Every token for it has ended.")
_CHANGE_WORDS = {name: words for name, words in API_WORDS.items() if name != "identifier"}
_SHOWN_APART = frozenset(
    (
        *("identifier", "name", "scopes", "machine_scopes", "shares_scopes", "roles"),
        *("clients", "required_groups", "access_token_lifetime"),
    )
)
"""The fields with a place of their own; others are shown as their label and value."""

_LONGEST_ID = 100
_BAD_REQUEST = 400


class _ApiState(Struct, frozen=True):
    api: Api
    secrets: Sequence[ClientSecret]
    reach: ApiUsage
    activity: RecentEvents
    #: Groups that the API requires and that exist.
    groups: Collection[str]


class ApiPages(Struct, frozen=True):
    """Show one API, its form, and the operations on it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """One API, its form, and the confirmation before an operation."""
        return (
            Page(API, administrator(), self.show),
            InputForm(
                EDIT,
                administrator(Permission.CLIENTS),
                actor_of,
                self.services,
                CHANGE_API,
                ApiShown,
                _CHANGE_WORDS,
                translatable("Edit API"),
                self._edited,
                self._changed,
                choices=API_CHOICES,
                groups=API_GROUPS,
                durations=_DURATIONS,
                references=_REFERENCES,
            ).page(),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the API without its secrets."""
        done = _BUTTONS.done(request.query.get("done"), _DONE)
        return Show(_page(await self._look(request), request, done))

    async def _edited(self, request: AdminRequest) -> FormSubject:
        api = (await self._look(request)).api
        record = shown(api)
        values = {name: as_text(getattr(record, name)) for name in _CHANGE_WORDS}
        return FormSubject(api_address(api.id), api.name, values=values, etag=tag_of(record))

    async def _changed(self, _request: AdminRequest, api: Struct) -> Outcome:
        return SeeOther(f"{api_address(asdict(api)['api_id'])}?done=edit")

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        if isinstance(result, NewSecret):
            return await self._issued(request, result)
        if confirmed.operation is DELETE_API:
            return SeeOther(f"{APIS}?deleted=1")
        return SeeOther(f"{api_address(named(request))}?done={confirmed.button.slug}")

    async def _issued(self, request: AdminRequest, made: NewSecret) -> Outcome:
        seen = await self._look(request)
        page = secret_page(
            api_address(seen.api.id),
            seen.api.name,
            seen.api.id,
            made.client_secret,
            others_end=bool(request.form.get("others_live")) and len(seen.secrets) > 1,
        )
        return Show(page)

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        seen, carries = await self._look(request), confirmed.button.carries
        facts = [seen.api.identifier]
        if carries is not None:
            subject = form.get(carries[0]) or ""
            if all(secret.id != subject for secret in seen.secrets):
                raise page_not_found()
            facts.append(subject)
        secrets = secret_choices(seen.secrets)
        return Subject(
            api_address(seen.api.id),
            seen.api.name,
            tuple(facts),
            Impact(apps=seen.reach.apps, authorizations=seen.reach.authorizations),
            secrets.values,
            secrets.choices,
            consequences=secrets.consequences if confirmed.operation is ISSUE_API_SECRET else (),
        )

    async def _look(self, request: AdminRequest) -> _ApiState:
        api_id, actor, now = named(request), request.actor, request.now

        def read_state(tx: Transaction) -> _ApiState:
            require(tx, actor, Permission.READ)
            api = tx.apis.find(api_id)
            if api is None:
                raise no_such_api()
            credential = tx.clients.find(api.id)
            secrets = () if credential is None else credential.live_secrets(now)
            return _ApiState(
                api,
                secrets,
                tx.apis.usage_of(api.id, now),
                activity_about(tx, f"api:{api.id}", now, self.services.kinds),
                {name for name in api.required_groups if tx.groups.find(name) is not None},
            )

        return await self.services.store.scan(read_state)


def named(request: AdminRequest) -> str:
    """Return the API id in the path. Raises Refused if no API can have it."""
    name = segment_name(request.arguments["api_id"])
    if not name or len(name) > _LONGEST_ID:
        raise no_such_api()
    return name


def _page(seen: _ApiState, request: AdminRequest, done: str) -> ObjectPage:
    api, now, address = seen.api, request.now, api_address(seen.api.id)
    may = request.permissions.allow(Permission.CLIENTS)
    edit = (("edit", translatable("Edit API"), f"{address}/edit"),) if may else ()
    disabled = api.disabled_at is not None
    note = translatable("No tokens are issued for it, and those issued are no longer valid.")
    return ObjectPage(
        APIS,
        _TITLE,
        api.name,
        state=(_state(disabled=disabled),),
        notes=(words(note),) if disabled else (),
        done=done,
        figures=(
            (translatable("Connected apps"), seen.reach.apps),
            (translatable("Authorizations"), seen.reach.authorizations),
        ),
        facts=tuple(_facts(api, seen.groups, now)),
        links=(*edit, ("protect", translatable("Protect this API"), f"{address}/protect")),
        actions=tuple(
            offer
            for offer in _BUTTONS.offers(api, request.permissions, address)
            if offer.slug != "secret"  # beside the list of secrets
        ),
        related=(
            Related(
                "permissions",
                translatable("Permissions"),
                tuple(_scopes(api)),
                translatable("None: tokens for this API only identify the user and the app."),
                add_url=f"{address}/edit" if may else "",
                add_title=translatable("Change permissions"),
            ),
            Related(
                "roles",
                translatable("Roles"),
                tuple(Line(code(role)) for role in api.roles),
                translatable("No roles."),
            ),
            Related(
                "secrets",
                translatable("Credentials"),
                secret_lines(seen.secrets, f"{address}/end-secret" if may else "", now),
                translatable(
                    "No active secret. APIs that verify JWTs with the server's keys need none."
                ),
                translatable(
                    "The API introspects its tokens and reads its revocations with its client ID"
                    " and one of its secrets."
                ),
                add_url=f"{address}/secret" if may else "",
                add_title=translatable("New secret"),
            ),
        ),
        activity=seen.activity,
    )


def _facts(api: Api, existing: Collection[str], now: Instant) -> Iterator[Fact]:
    yield Fact(translatable("Identifier"), (Part("copy", api.identifier, small="identifier"),))
    yield Fact(translatable("Client ID"), (Part("copy", api.id, small="client-id"),))
    for name, field in API_FIELDS.items():
        value = as_text(getattr(api, name))
        if name not in _SHOWN_APART and value:
            label = dict(field.rule.choices).get(value)
            shown_value = words(label, value) if label and label != value else code(value)
            yield Fact(field.rule.label, (shown_value,))
    if api.access_token_lifetime is None:
        lifetime = words(translatable("As set for the server"))
    else:
        lifetime = Part("duration", count=api.access_token_lifetime)
    yield Fact(translatable("Access tokens last"), (lifetime,))
    if api.clients is None:
        apps: tuple[Part, ...] = (words(translatable("every app")),)
    else:
        apps = tuple(
            text(client_id, client_address(client_id)) for client_id in sorted(api.clients)
        )
    yield Fact(translatable("Allowed apps"), apps)
    if api.required_groups:
        parts = (required_group(name, exists=name in existing) for name in api.required_groups)
        yield Fact(translatable("Groups with access"), tuple(chain.from_iterable(parts)))
    if api.shares_scopes:
        shared = words(translatable("shared with other APIs"))
        yield Fact(translatable("Names of permissions"), (shared,))
    times = (
        (translatable("Declared"), api.created_at),
        (translatable("Changed"), api.changed_at),
        (translatable("Disabled"), api.disabled_at),
    )
    yield from (Fact(label, (since(When(at, now)),)) for label, at in times if at is not None)


def _scopes(api: Api) -> Iterator[Line]:
    """Return the scopes, each with the sentence that users see."""
    for name, sentence in api.scopes.items():
        own = name in api.machine_scopes
        beside = (badge(translatable("For client credentials")),) if own else ()
        yield Line(code(name), beside, (text(sentence),))
    for name in api.machine_scopes:
        if name not in api.scopes:
            yield Line(code(name), below=(words(translatable("only for client credentials")),))


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
    folder = files("valetkey.authorization.apis").joinpath("frameworks")
    texts = {name: folder.joinpath(f"{name}.toml").read_text() for name in _ORDER}
    return MappingProxyType(
        {name: msgspec.convert(tomllib.loads(text), Framework) for name, text in texts.items()}
    )


_ORDER = ("fastapi", "flask", "django", "express", "spring", "go", "nginx")

FRAMEWORKS: Mapping[str, Framework] = _read()
"""Every framework by its name, in the order in which they are shown."""


class ProtectPage(Struct, frozen=True):
    """The code for one framework. `tabs` has the address and label of each, and which is shown."""

    template: ClassVar[str] = "apis/protect.html"
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


def protect_page(api: Api, issuer: str, framework: str | None) -> ProtectPage:
    """Return the page for the requested framework, or for the first that fits."""
    fitting = {name: candidate for name, candidate in FRAMEWORKS.items() if candidate.verifies(api)}
    chosen = framework if framework in fitting else next(iter(fitting))
    address = api_address(api.id, "protect")
    return ProtectPage(
        name=api.name,
        back=api_address(api.id),
        tabs=tuple(
            (f"{address}?in={name}", candidate.label, name == chosen)
            for name, candidate in fitting.items()
        ),
        framework=fitting[chosen],
        files=fitting[chosen].code(api, issuer),
        others=tuple(
            candidate.label for name, candidate in FRAMEWORKS.items() if name not in fitting
        ),
    )


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages about declared APIs."""
    return (
        *Apis(services).pages(),
        *ProtectApi(services).pages(),
        *SelectedPages(services, SELECTED_APIS).pages(),
        *ApiPages(services).pages(),
    )
