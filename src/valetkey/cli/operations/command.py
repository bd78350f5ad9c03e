"""Commands, their arguments and options, derived from the operations of administration."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import click
from msgspec import Struct, field

from valetkey.authorization.actions.account.connected_apps import connected_apps
from valetkey.authorization.actions.admin.search import find_details as look_at_client
from valetkey.authorization.authentication.password import hash_password, password_problem
from valetkey.authorization.features import FEATURES, OPERATIONS
from valetkey.authorization.operations.operation import (
    CURSOR,
    Button,
    Command,
    Done,
    Operation,
)
from valetkey.authorization.operations.table import LOCAL
from valetkey.cli import options, say
from valetkey.cli.operations.inputs import MOST_BYTES, Input, query_option
from valetkey.cli.operations.perform import (
    cell,
    flat,
    perform,
    print_documents,
    print_list,
    print_record,
)
from valetkey.cli.register.store import (
    OpenedStore,
    api_named,
    chosen_user,
    client_named,
    confirm,
    missing_groups,
    user_named,
    with_store,
)
from valetkey.cli.say import Exit
from valetkey.config.catalogue import explain
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import ErrorCode, OperatorError, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret, to_base64url

_PAGING = {"limit", "sort", CURSOR}
"""Query parameters that filter nothing."""


_BYTES = 15  # 120 random bits in twenty characters


@click.command()
@click.option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input."
)
@click.option(
    "--generate-password", "generate", is_flag=True, help="Generate a password and print it once."
)
def _asks(**_: object) -> None: ...


OPTIONS = _asks.params
"""The options of commands that set a password; `obtain` reads them."""


def obtain(parameters: Mapping[str, object]) -> Secret:
    """Return the password given by the options. Raises OperatorError for an invalid one."""
    from_stdin, generate = parameters["from_stdin"], parameters["generate"]
    if from_stdin and generate:
        raise OperatorError("choose one of --password-stdin and --generate-password")
    if generate:
        return Secret(to_base64url(SYSTEM.random(_BYTES)))
    if from_stdin:
        text = sys.stdin.read(MOST_BYTES).removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        text = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise OperatorError(
            "no terminal to enter a password: use --password-stdin or --generate-password"
        )
    if problem := password_problem(text):
        raise OperatorError(f"the password {problem}")
    return Secret(text)


def hash_of(opened: OpenedStore, password: Secret) -> str:
    """Return the hash to store; takes tens of milliseconds, so never inside a transaction."""
    return hash_password(password.reveal(), opened.settings.passwords, opened.runtime.random)


_GROUPS = {
    "roles": "user",
    "invitations": "registration",
    "tokens": "admin-token",
}
"""The group of paths that begin with another word than its plural."""

_METAVARS = {"uid": "USER", "api_id": "API"}
_FOUND = {"uid", "client_id", "api_id"}
"""Arguments of paths that name what is looked up before the operation."""

_VERBS = {"read": "show"}
_USER = "uid:NUMBER, name:USERNAME or email:ADDRESS; the prefix may be left out."
_STATUS = re.compile(r"(?:: | with )[45]\d\d(?=\.)")
"""The status of a refusal, at the end of a sentence about the admin API."""

_EXAMPLES = {
    "uid": "ada",
    "client_id": "printer",
    "secret_id": "cs_aLK10lrmv1k2fsuxsIlNQs",
    "api_id": "https://mcp.example.com/mcp",
    "role": "editor",
    "group": "engineering",
    "setting": "tokens.access_token_lifetime",
    "kid": "aLK10lrmv1k2f-suxsIlNQssqmEt0DuRsaoJoQNh8Bg",
    "token_id": "at_aLK10lrmv1k2fsuxsIlNQs",
    "invitation_id": "in_3q2-7wEjRWeJ1xDVZnQ0tA",
    **{
        argument: value
        for feature in FEATURES
        for group in feature.commands
        for argument, value in group.examples.items()
    },
}


def group(name: str, help: str, *others: click.Command) -> click.Group:
    """Return the group with its derived commands and `others`, which are written by hand."""
    made = click.Group(name, help=help)
    for below, variants in _commands().items():
        if below.partition(" ")[0] == name:
            made.add_command(_Derived(below, tuple(variants)).command())
    for other in others:
        made.add_command(other)
    return made


def names() -> Mapping[str, Sequence[Operation]]:
    """Return every derived command, and the operations that it runs."""
    return {
        name: [variant.operation for variant in variants] for name, variants in _commands().items()
    }


class _Variant(Struct, frozen=True):
    """A command derived from one row of the operations."""

    operation: Operation
    command: Command

    @property
    def summary(self) -> str:
        """The first line of the help."""
        return f"{self.command.summary or self.operation.summary}."

    @property
    def button(self) -> Button | None:
        """The console's button for the same operation, whose texts the command uses."""
        fixed = self.command.path_arguments
        return next(
            (
                console_button
                for console_button in self.operation.buttons
                if console_button.path_arguments == fixed
            ),
            None,
        )

    @property
    def needs_confirmation(self) -> bool:
        """Whether the operator has to confirm."""
        button = self.button
        is_danger = button is not None and button.danger
        return self.command.confirms and bool(self.command.question or is_danger)


def _commands() -> dict[str, list[_Variant]]:
    commands: dict[str, list[_Variant]] = {}
    for operation in (*OPERATIONS, *LOCAL):
        own = (Command(),) if operation.commands is None else operation.commands
        for command in own:
            variants = commands.setdefault(command.name or _name(operation), [])
            # The operation without --off comes first: it describes the command.
            variants.insert(len(variants) if command.off else 0, _Variant(operation, command))
    return commands


def _name(operation: Operation) -> str:
    plural = operation.path.split("/")[1]
    group = _GROUPS.get(plural, plural.removesuffix("s"))
    nouns = {plural, plural.removesuffix("s"), group}
    name = f"_{operation.id}_"
    if plural not in _GROUPS:
        # A name of two words, such as signal-streams.
        for noun in nouns:
            name = name.replace(f"_{noun.replace('-', '_')}_", "_")
    words = [_VERBS.get(word, word) for word in name.split("_") if word and word not in nouns]
    return f"{group} {'-'.join(words)}"


class _CallValues(Struct):
    """The values of a call that its texts may name: path, input, and what ends with it."""

    path: dict[str, str]
    named: dict[str, object]
    ends: str = ""
    body: dict[str, object] = field(default_factory=dict[str, object])


class _Derived(Struct, frozen=True):
    name: str
    variants: tuple[_Variant, ...]

    @property
    def first(self) -> _Variant:
        return self.variants[0]

    def command(self) -> click.Command:
        parameters = [*self._parameters(), *options.EVERY]
        return click.Command(
            self.name.rpartition(" ")[2],
            params=parameters,
            callback=self._run,
            help=self._help(),
            # A key id may begin with a hyphen.
            context_settings={"ignore_unknown_options": "kid" in self._arguments()},
        )

    def _input(self) -> Input:
        return Input(self.first.operation.input, self.first.command.options)

    def _arguments(self) -> list[str]:
        fixed = self.first.command.path_arguments
        return [name for name in self.first.operation.arguments if name not in fixed]

    def _parameters(self) -> Iterator[click.Parameter]:
        chosen = {
            command_option.field: command_option for command_option in self.first.command.options
        }
        for name in self._arguments():
            if (option := chosen.get(name)) is None:
                yield click.Argument([name], metavar=_METAVARS.get(name))
            else:
                text = option.help or (_USER if name == "uid" else "")
                yield click.Option([option.name or f"--{name}", name], required=True, help=text)
        yield from self._input().parameters()
        for parameter in self.first.operation.query:
            if parameter.name not in {"limit", CURSOR}:
                yield query_option(parameter, chosen.get(parameter.name))
        if self.first.command.sets_password:
            yield from OPTIONS
        if len(self.variants) > 1:
            yield click.Option(["--off"], is_flag=True, help=self.variants[1].summary)
        if any(variant.needs_confirmation for variant in self.variants):
            yield click.Option(["--yes"], is_flag=True, help="Do not ask.")

    def _help(self) -> str:
        command, operation = self.first.command, self.first.operation
        text = _STATUS.sub("", command.help or operation.description)
        paragraphs = [self.first.summary, text]
        optional = {option.field for option in command.options}
        positional = [argument for argument in self._arguments() if argument not in optional]
        if "uid" in positional:
            paragraphs.append(f"USER is {_USER}")
        if "api_id" in positional:
            paragraphs.append("API is its identifier, a URL, or its id.")
        words = [self.name, *(_EXAMPLES.get(argument, argument.upper()) for argument in positional)]
        example = " ".join((*words, *([command.example] if command.example else [])))
        return "\n\n".join(
            paragraph for paragraph in (*paragraphs, f"Example: valetkey {example}") if paragraph
        )

    def _run(self, **parameters: object) -> int:
        settings = options.settings_of(cast("Path | None", parameters["config"]))
        variant = self.variants[1 if parameters.get("off") else 0]
        found_input = self._input()
        users = found_input.users(parameters)
        if not users:
            found_input.value(parameters)
        instead = parameters.get(f"input_{variant.command.instead_of_password}")
        query = {
            name.removeprefix("query_"): str(value)
            for name, value in parameters.items()
            if name.startswith("query_") and value is not None
        }
        asks = variant.command.sets_password and (
            instead is None
            or (instead == options.NONE and (parameters["from_stdin"] or parameters["generate"]))
        )
        secret = obtain(parameters) if asks else None

        async def run_operation(opened: OpenedStore) -> tuple[_CallValues, object, Sequence[str]]:
            about = await self._about(opened, variant, parameters)
            arguments = {**parameters}
            for dest, user in users.items():
                arguments[dest] = (await chosen_user(opened, user)).uid
            body = found_input.value(arguments)
            about.body = flat(body)
            if variant.needs_confirmation:
                confirm(_question(variant, about), yes=bool(parameters.get("yes")))
                # The operator may have taken a while to confirm.
                opened = replace(opened, now=SYSTEM.now())
            hashed = None if secret is None else hash_of(opened, secret)
            result = await perform(
                opened,
                variant.operation,
                about.path,
                body,
                query=query,
                password_hash=hashed,
                named=found_input.named,
            )
            remark = variant.command.remark
            required = cast("Sequence[str]", about.body.get("required_groups") or ())
            missing = await opened.store.read(lambda tx: missing_groups(tx, required))
            remarks = [f"It {text}" for text in missing]
            return about, result, [*remarks, remark(opened.settings) if remark else ""]

        try:
            about, value, remarks = with_store(settings, run_operation)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.NOT_FOUND:
                raise
            if not variant.command.missing:
                raise self._not_found(refused, settings, parameters) from None
            say.error(variant.command.missing)
            return Exit.FAILED
        generated = secret.reveal() if secret is not None and parameters["generate"] else ""
        filters = query.keys() - _PAGING
        empty = "Nothing matches." if filters else variant.command.empty or "There are none."
        _print_result(variant, about, value, generated, empty, json=bool(parameters["as_json"]))
        for remark in filter(None, remarks):
            say.note(remark)
        return Exit.OK

    def _not_found(
        self, refused: Refused, settings: Settings, parameters: Mapping[str, object]
    ) -> OperatorError:
        """Return the error with the command that shows what there is.

        Raises OperatorError with the nearest setting for one that does not exist.
        """
        if "setting" in parameters:
            explain(settings, str(parameters["setting"]))
        operation, own = self.first.operation, self.name.partition(" ")[0]
        description = refused.refusal.description
        nouns = [name.removesuffix("_id") for name in operation.arguments if name not in _FOUND]
        if not nouns:
            return OperatorError(description)
        noun = next((noun for noun in nouns if noun in description), nouns[0])
        is_first = operation.arguments[0] not in _FOUND
        choices = (f"{noun} list", f"{own} list" if is_first else f"{own} show")
        see = next((f"; see: valetkey {name}" for name in choices if name in _commands()), "")
        return OperatorError(f"{description}{see}")

    async def _about(
        self, opened: OpenedStore, variant: _Variant, parameters: Mapping[str, object]
    ) -> _CallValues:
        path = {**variant.command.path_arguments}
        path |= {name: str(parameters[name]) for name in self._arguments()}
        about = _CallValues(path, {**path})
        ends = (
            variant.button is not None
            and variant.button.shows_impact
            and variant.needs_confirmation
        )
        if "api_id" in path:
            await _find_api(opened, about)
        if "client_id" in path:
            await _find_client(opened, about, ends=ends)
        if "uid" in path:
            await _find_user(opened, about, reads=variant.operation.method == "GET", ends=ends)
        return about


async def _find_api(opened: OpenedStore, about: _CallValues) -> None:
    """Find the API in the path, named by its id or its identifier. Raises OperatorError."""
    api = await opened.store.read(lambda tx: api_named(tx, about.path["api_id"]))
    about.path["api_id"] = about.named["api_id"] = api.id


async def _find_client(opened: OpenedStore, about: _CallValues, *, ends: bool) -> None:
    """Find the client in the path, and on request what ends with it. Raises OperatorError."""
    client = await opened.store.read(lambda tx: client_named(tx, about.path["client_id"]))
    about.named["name"] = client.name
    if ends:
        held = await opened.store.scan(
            lambda tx: look_at_client(tx, opened.operator, client.id, opened.now)
        )
        about.ends = f"Users: {held.people}, authorizations: {held.authorizations}."


async def _find_user(opened: OpenedStore, about: _CallValues, *, reads: bool, ends: bool) -> None:
    """Find the user of the path, and on request what ends with the account.

    Raises OperatorError.
    """
    username = about.path["uid"]
    if reads:
        user = await opened.store.read(lambda tx: user_named(tx, username))
    else:
        user = await chosen_user(opened, username)
    about.path["uid"] = str(user.uid)
    about.named |= {"uid": user.uid, "username": user.username, "name": user.username}
    if ends:
        apps, orphans = await opened.store.scan(
            lambda tx: (
                len(connected_apps(tx, user.uid, opened.now)),
                [
                    app.id
                    for app in opened.foundation.services.removal.apps_without_other_owner(tx, user)
                ],
            )
        )
        left = f" Apps without another owner: {', '.join(orphans)}." if orphans else ""
        about.ends = f"Connected apps: {apps}.{left}"


def _question(variant: _Variant, about: _CallValues) -> str:
    button = variant.button
    if variant.command.question or button is None:
        return variant.command.question
    words = (f"{button.title}: {about.named['name']}.", button.text, about.ends, "Continue?")
    return " ".join(word for word in words if word)


def _print_result(
    variant: _Variant,
    about: _CallValues,
    value: object,
    generated: str,
    empty: str,
    *,
    json: bool,
) -> None:
    """Print the result of the operation; `generated` is the generated password, or "".

    `empty` is printed for a list without rows.
    """
    items = _items(value)
    if isinstance(value, bytes):
        say.line(value.decode())
    elif items is not None:
        rows = [flat(record) for record in items]
        if json:
            say.as_json(rows)
        else:
            print_list(rows, variant.command.columns, empty)
    elif json:
        members = _members(variant, about, value) | ({"password": generated} if generated else {})
        say.as_json(
            {variant.command.renamed.get(name, name): member for name, member in members.items()}
        )
    else:
        _print_text(variant, about, value)
        if generated:
            say.line(f"password: {generated}")
            say.note("The password is shown only now.")


def _items(value: object) -> Sequence[object] | None:
    """Return the records of a list, or of a page of one; None if the value is no list."""
    if isinstance(value, list):
        return cast("list[object]", value)
    return cast("Sequence[object] | None", getattr(value, "items", None))


def _members(variant: _Variant, about: _CallValues, value: object) -> dict[str, object]:
    arguments = {name: about.named[name] for name in variant.operation.arguments}
    return {**arguments, **(about.body if isinstance(value, Done) else {}), **flat(value)}


def _print_text(variant: _Variant, about: _CallValues, value: object) -> None:
    command, members = variant.command, flat(value)
    named = {
        name: cell(name, member) for name, member in (about.named | about.body | members).items()
    }
    if isinstance(value, Done) and not value.changed:
        say.line(command.unchanged.format(**named) or "No changes.")
        return
    # A button says what is true of an email; a link that is shown is printed instead.
    link = members.get("password_link")
    done = command.done.format(**named)
    if not done and variant.button and not link:
        done = variant.button.done
    has_more = bool(members) and not command.done and not isinstance(value, Done)
    if done or not has_more:
        say.line(done or "Done.")
    if has_more:
        shown = [name for _, name in command.columns] or members.keys() - command.documents
        print_record({name: member for name, member in members.items() if name in shown})
        print_documents({name: members[name] for name in command.documents})
    elif link:
        print_record({"password_link": link})
    if command.note:
        say.note(command.note.format(**named))
