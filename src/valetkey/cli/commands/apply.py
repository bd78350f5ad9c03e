"""`valetkey apply`: change the servers to match a declarative file."""

import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from valetkey.authorization.applying import Action, Step
from valetkey.authorization.model.event.event import by_apply
from valetkey.cli import options, say
from valetkey.cli.applying.file import DeclaredObjects, holds_secrets, read_site
from valetkey.cli.applying.plan import Prepared, apply_plan, plan, prepare
from valetkey.cli.register.store import OpenedStore, confirm, confirm_by_typing, with_store
from valetkey.cli.say import Exit
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--prune",
    is_flag=True,
    help="Also remove what FILE owns and no longer declares. FILE needs a name.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Let FILE own what it declares and did not create. FILE needs a name.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan and change nothing.")
@options.yes
@options.config_file
@options.as_json
def command(
    file: Path,
    prune: bool,
    adopt: bool,
    only_plan: bool,
    yes: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Create or change the users, clients, groups, APIs, brand and more that FILE declares.

    Shows the plan and asks. Anything that FILE does not name is left alone, and applying it twice
    changes nothing. Works with the servers running or stopped. Secrets that FILE does not give are
    generated and printed once; a user without a password in FILE has none.

    With --prune, what FILE created or adopted and no longer declares is removed. Users,
    clients, APIs and other objects that can be disabled are, and enabled again when FILE declares
    them again; groups, their members, roles and all else are deleted, and the parts of the brand
    reset to their settings. A terminal asks for the name
    of FILE. Objects created by hand are never removed.

    Exit code 0 if everything is as FILE declares, 2 if the file has errors.

    Example: valetkey apply apply.toml --config valetkey.toml
    """
    settings = options.settings_of(config)
    site = read_site(file)
    _warn_of_readers(file, site)
    if (prune or adopt) and not site.name:
        raise OperatorError(
            f'{file} has no name; write name = "…" at its top to let it own objects'
        )

    async def apply_file(opened: OpenedStore) -> tuple[bool, Sequence[Step]]:
        prepared = await _prepare(opened, file, site, adopts=adopt, prunes=prune)
        steps = await plan(opened, prepared)
        # Adopting an object does not change it.
        if all(step.action is Action.KEEP for step in steps) and not (adopt and not only_plan):
            if not as_json:
                _show_kept(steps)
            return True, steps
        if not as_json:
            _show_plan(steps)
        if only_plan or not _agreed(site, steps, yes=yes, as_json=as_json):
            return False, steps
        return True, await apply_plan(opened, prepared, steps)

    applied, steps = with_store(settings, apply_file, begins=True, acts=by_apply)
    _print_steps(steps, applied=applied, as_json=as_json)
    if not applied and not only_plan:
        raise OperatorError("nothing was changed: add --yes to run without a terminal")
    return Exit.OK


def _print_steps(steps: Sequence[Step], *, applied: bool, as_json: bool) -> None:
    if as_json:
        shown = steps if applied else [_without_secret(step) for step in steps]
        say.as_json({"applied": applied, "steps": [step.as_json() for step in shown]})
    elif applied:
        _show_result(steps)


async def _prepare(
    opened: OpenedStore, file: Path, site: DeclaredObjects, *, adopts: bool, prunes: bool
) -> Prepared:
    with click.progressbar(
        length=len(site.users),
        label="Looking at passwords",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        return await prepare(opened, file, site, bar.update, adopts=adopts, prunes=prunes)


def _agreed(site: DeclaredObjects, steps: Sequence[Step], *, yes: bool, as_json: bool) -> bool:
    if yes or as_json:
        return yes
    removed = sum(step.action is Action.REMOVE for step in steps)
    if removed:
        question = f"{removed} removed. Type the name of the file, {site.name}, to do this"
        confirm_by_typing(question, site.name)
    else:
        confirm("Apply these changes?", yes=False)
    return True


def _show_kept(steps: Sequence[Step]) -> None:
    for step in steps:
        for cost in step.costs:
            say.note(f"{step.kind} {step.name} {cost}")


def _show_plan(steps: Sequence[Step]) -> None:
    colours = {Action.CREATE: "green", Action.CHANGE: "yellow", Action.KEEP: "bright_black"}
    colours[Action.REMOVE] = "red"
    for step in steps:
        say.line(say.coloured(step.line, colours[step.action]))
        for cost in step.costs:
            say.line(f"  ! {cost}")


def _show_result(steps: Sequence[Step]) -> None:
    counts = {action: sum(step.action is action for step in steps) for action in Action}
    if counts[Action.KEEP] == len(steps):
        say.line("Nothing to change.")
        return
    say.line(
        f"Done: {counts[Action.CREATE]} created, {counts[Action.CHANGE]} changed, "
        f"{counts[Action.KEEP]} unchanged"
        + (f", {counts[Action.REMOVE]} removed." if counts[Action.REMOVE] else ".")
    )
    secrets = [step for step in steps if step.secret is not None]
    for step in secrets:
        if step.secret is not None:
            kind = "client_id" if step.secret_name == "client_secret" else step.kind
            say.line(f"{kind} {step.name}  {step.secret_name} {step.secret.reveal()}")
    if secrets:
        say.note("Secrets are shown only now.")


def _without_secret(step: Step) -> Step:
    # A plan that is not applied must not show secrets.
    return replace(step, secret=None)


def _warn_of_readers(file: Path, site: DeclaredObjects) -> None:
    if holds_secrets(site) and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        say.note(f"{file} holds secrets and other users can read it; run: chmod 600 {file}")
