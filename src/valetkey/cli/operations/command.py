"""Commands derived from the operations of administration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import click
from msgspec import Struct, field

from valetkey.authorization.actions.account.connected_apps import connected_apps
from valetkey.authorization.actions.admin.clients import find_details as look_at_client
from valetkey.authorization.features import FEATURES, OPERATIONS
from valetkey.authorization.operations.command import Command
from valetkey.authorization.operations.operation import CURSOR, Button, Operation
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.table import LOCAL
from valetkey.cli import options, say
from valetkey.cli.operations import inputs
from valetkey.cli.operations.inputs import Input, query_option
from valetkey.cli.operations.perform import (
    cell,
    flat,
    perform,
    print_documents,
    print_list,
    print_record,
)
from valetkey.cli.register.services import chosen_user, client_named, confirm, user_named
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.cli.say import Exit
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

_GROUPS = {
    "roles": "user",
    "invitations": "registration",
    "tokens": "admin-token",
}
"""The group of paths that begin with another word than its plural."""

_VERBS = {"read": "show"}
_USER = "uid:NUMBER, name:USERNAME or email:ADDRESS; the prefix may be left out."
_STATUS = re.compile(r"(?:: | with )[45]\d\d(?=\.)")
"""The status of a refusal, at the end of a sentence about the admin API."""

_EXAMPLES = {
    "uid": "ada",
    "client_id": "printer",
    "secret_id": "cs_aLK10lrmv1k2fsuxsIlNQs",
    "api_id": "api_aLK10lrmv1k2fsuxsIlNQs",
    "role": "editor",
    "group": "engineering",
    "setting": "tokens.access_token_lifetime",
    "kid": "aLK10lrmv1k2f-suxsIlNQssqmEt0DuRsaoJoQNh8Bg",
    "token_id": "at_aLK10lrmv1k2fsuxsIlNQs",
    "invitation_id": "in_3q2-7wEjRWeJ1xDVZnQ0tA",
    **{
        argument: value
        for each in FEATURES
        for group in each.commands
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
    return {name: [each.operation for each in found] for name, found in _commands().items()}


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
        return next((each for each in self.operation.buttons if each.path_arguments == fixed), None)

    @property
    def needs_confirmation(self) -> bool:
        """Whether the operator has to confirm."""
        button = self.button
        is_danger = button is not None and button.danger
        return self.command.confirms and bool(self.command.question or is_danger)


def _commands() -> dict[str, list[_Variant]]:
    found: dict[str, list[_Variant]] = {}
    for operation in (*OPERATIONS, *LOCAL):
        own = (Command(),) if operation.commands is None else operation.commands
        for command in own:
            variants = found.setdefault(command.name or _name(operation), [])
            # The operation without --off comes first: it describes the command.
            variants.insert(len(variants) if command.off else 0, _Variant(operation, command))
    return found


def _name(operation: Operation) -> str:
    plural = operation.path.split("/")[1]
    group = _GROUPS.get(plural, plural.removesuffix("s"))
    nouns = {plural, plural.removesuffix("s"), group}
    said = f"_{operation.id}_"
    if plural not in _GROUPS:
        # A name of two words, such as signal-streams.
        for noun in nouns:
            said = said.replace(f"_{noun.replace('-', '_')}_", "_")
    words = [_VERBS.get(word, word) for word in said.split("_") if word and word not in nouns]
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
        chosen = {each.field: each for each in self.first.command.options}
        for name in self._arguments():
            if (option := chosen.get(name)) is None:
                yield click.Argument([name], metavar="USER" if name == "uid" else None)
            else:
                text = option.help or (_USER if name == "uid" else "")
                yield click.Option([option.name or f"--{name}", name], required=True, help=text)
        yield from self._input().parameters()
        for parameter in self.first.operation.query:
            if parameter.name not in {"limit", CURSOR}:
                yield query_option(parameter, chosen.get(parameter.name))
        if self.first.command.sets_password:
            yield from inputs.OPTIONS
        if len(self.variants) > 1:
            yield click.Option(["--off"], is_flag=True, help=self.variants[1].summary)
        if any(each.needs_confirmation for each in self.variants):
            yield click.Option(["--yes"], is_flag=True, help="Do not ask.")

    def _help(self) -> str:
        command, operation = self.first.command, self.first.operation
        text = _STATUS.sub("", command.help or operation.description)
        paragraphs = [self.first.summary, text]
        optional = {each.field for each in command.options}
        positional = [each for each in self._arguments() if each not in optional]
        if "uid" in positional:
            paragraphs.append(f"USER is {_USER}")
        words = [self.name, *(_EXAMPLES.get(each, each.upper()) for each in positional)]
        example = " ".join((*words, *([command.example] if command.example else [])))
        return "\n\n".join(each for each in (*paragraphs, f"Example: valetkey {example}") if each)

    def _run(self, **given: object) -> int:
        settings = options.settings_of(cast("Path | None", given["config"]))
        variant = self.variants[1 if given.get("off") else 0]
        found_input = self._input()
        users = found_input.users(given)
        if not users:
            found_input.value(given)
        without = given.get(f"input_{variant.command.instead_of_password}") not in {None, "none"}
        asks = variant.command.sets_password and not without
        secret = inputs.obtain(given) if asks else None

        async def run_operation(opened: OpenedStore) -> tuple[_CallValues, object]:
            about = await self._about(opened, variant, given)
            said = {**given}
            for dest, user in users.items():
                said[dest] = (await chosen_user(opened, user)).uid
            body = found_input.value(said)
            about.body = flat(body)
            if variant.needs_confirmation:
                confirm(_question(variant, about), yes=bool(given.get("yes")))
                # The operator may have taken a while to confirm.
                opened = replace(opened, now=SYSTEM.now())
            hashed = None if secret is None else inputs.hashed(opened, secret)
            query = {
                name.removeprefix("query_"): str(value)
                for name, value in given.items()
                if name.startswith("query_") and value is not None
            }
            return about, await perform(
                opened,
                variant.operation,
                about.path,
                body,
                query=query,
                password_hash=hashed,
                named=found_input.named,
            )

        try:
            about, value = with_store(settings, run_operation)
        except Refused as refused:
            if not variant.command.missing or refused.refusal.code is not ErrorCode.NOT_FOUND:
                raise
            say.error(variant.command.missing)
            return Exit.FAILED
        generated = secret.reveal() if secret is not None and given["generate"] else ""
        _print_result(variant, about, value, generated, json=bool(given["as_json"]))
        if variant.command.remark is not None and (remark := variant.command.remark(settings)):
            say.note(remark)
        return Exit.OK

    async def _about(
        self, opened: OpenedStore, variant: _Variant, given: Mapping[str, object]
    ) -> _CallValues:
        path = {**variant.command.path_arguments}
        path |= {name: str(given[name]) for name in self._arguments()}
        about = _CallValues(path, {**path})
        ends = (
            variant.button is not None
            and variant.button.shows_impact
            and variant.needs_confirmation
        )
        if "client_id" in path:
            await _find_client(opened, about, ends=ends)
        if "uid" in path:
            await _find_user(opened, about, reads=variant.operation.method == "GET", ends=ends)
        return about


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
    said = about.path["uid"]
    if reads:
        user = await opened.store.read(lambda tx: user_named(tx, said))
    else:
        user = await chosen_user(opened, said)
    about.path["uid"] = str(user.uid)
    about.named |= {"uid": user.uid, "username": user.username, "name": user.username}
    if ends:
        apps, orphans = await opened.store.scan(
            lambda tx: (
                len(connected_apps(tx, user.uid, opened.now)),
                [
                    each.id
                    for each in opened.foundation.services.removal.apps_without_other_owner(
                        tx, user
                    )
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
    variant: _Variant, about: _CallValues, value: object, generated: str, *, json: bool
) -> None:
    """Print the result of the operation; `generated` is the generated password, or ""."""
    items = _items(value)
    if isinstance(value, bytes):
        say.line(value.decode())
    elif items is not None:
        found = [flat(each) for each in items]
        if json:
            say.as_json(found)
        else:
            print_list(found, variant.command.columns, variant.command.empty or "There are none.")
    elif json:
        told = _members(variant, about, value) | ({"password": generated} if generated else {})
        say.as_json({variant.command.renamed.get(name, name): each for name, each in told.items()})
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
    named = {name: cell(name, each) for name, each in (about.named | about.body | members).items()}
    if isinstance(value, Done) and not value.changed:
        say.line(command.unchanged.format(**named) or "No changes.")
        return
    done = command.done.format(**named) or (variant.button.done if variant.button else "")
    has_more = bool(members) and not command.done and not isinstance(value, Done)
    if done or not has_more:
        say.line(done or "Done.")
    if has_more:
        shown = [name for _, name in command.columns] or members.keys() - command.documents
        print_record({name: each for name, each in members.items() if name in shown})
        print_documents({name: members[name] for name in command.documents})
    if command.note:
        say.note(command.note.format(**named))
