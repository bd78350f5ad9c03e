"""Generate the reference pages from the code they describe: `make docs`.

An outdated page fails `tests/documents/test_reference.py`.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from inspect import getdoc
from pathlib import Path
from typing import get_type_hints

import click

from docs.badges import badges
from docs.catalogue import catalogue as commands_catalogue
from docs.diagrams import DIAGRAMS
from docs.endpoints import admin_api, endpoints
from docs.site import NOTICE
from valetkey.authorization.actions.admin.permissions import MAY, PERMISSIONS, Permission
from valetkey.authorization.actions.presets import PRESETS
from valetkey.authorization.apis.pages import FRAMEWORKS
from valetkey.authorization.features import EVENTS
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import Editor, FieldRule, FieldType, UnusableValue
from valetkey.authorization.model.email import every_kind
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Role
from valetkey.authorization.portal.rules.quickstart import STACKS
from valetkey.authorization.protocol.register.client_metadata import FIELDS
from valetkey.authorization.site.errors.refuse import TEXTS, Remedy
from valetkey.cli.catalogue import FILE
from valetkey.cli.main import COMMANDS, valetkey
from valetkey.cli.register.clients import field_texts
from valetkey.config.catalogue import Setting, catalogue, group_of, reasons, sections
from valetkey.kernel.metrics import CATALOGUE, PREFIX, Metric
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode
from valetkey.resource.storage.events import EVENTS as OBJECT_EVENTS
from valetkey.resource.storage.events import Event as ObjectEvent

FOLDER = Path(__file__).parent / "reference"


def settings() -> Iterator[str]:
    """Return the overview of the settings, with the page of each area."""
    yield "# Settings"
    yield (
        "Settings are read from one TOML file. Environment variables override it:\n"
        "`tokens.access_token_lifetime` is also `VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME`.\n"
        "Durations are written `90s`, `10m`, `1h` or `30d`. Relative paths start at the folder of\n"
        "the file. `valetkey config explain` shows the values in effect and where each comes from."
    )
    for area, names in _areas().items():
        yield f"## [{area}](settings/{_file(area)})"
        rows = (
            f"- {_place(setting.path)}[`{setting.path}`]"
            f"(settings/{_file(area)}#{_anchor(setting.path)})"
            for setting in catalogue().values()
            if setting.section in names
        )
        yield "\n".join(rows)


def _settings_pages() -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
    for area, names in _areas().items():
        yield f"settings/{_file(area)}", partial(_settings_of, area, names)


def _settings_of(area: str, names: Collection[str]) -> Iterator[str]:
    """Return the settings of some sections with defaults, allowed values and reasons."""
    yield f"# Settings: {area.lower()}"
    before: dict[str, str] = {}
    for section, kind in sections().items():
        if section in names:
            yield f"## [{section}]"
            yield getdoc(kind) or ""
            for setting in catalogue().values():
                if setting.section == section:
                    yield f"### `{setting.path}`"
                    text = f"{_allowed(setting)}\n\n{reasons()[setting.path]}"
                    first = before.setdefault(text, setting.path)
                    same = f"As [`{first}`](#{_anchor(first)})."
                    yield text if first == setting.path else same


_AREAS: Mapping[str, tuple[str, ...]] = {
    "Servers": ("authorization", "resource", "serving", "tls", "fetch"),
    "Database": ("database",),
    "Accounts": ("accounts", "privacy", "scim", "federation"),
    "Sign-in": ("sessions", "administration", "passwords", "factors", "device"),
    "Tokens": ("tokens", "clients"),
    "Registration of apps": ("registration", "portal"),
    "Email": ("mail",),
    "Limits": ("limits",),
    "Monitoring": ("alerts", "log", "audit", "metrics", "traces"),
    "Look and documentation": ("brand", "docs"),
}
"""Pages of the settings and their sections; another section is on the page of its group."""


@cache
def _areas() -> Mapping[str, Collection[str]]:
    """Return the sections of each page, those of features that `_AREAS` does not list last."""
    kinds = sections()
    listed = {name: area for area, names in _AREAS.items() for name in names if name in kinds}
    of_groups = {group_of(kinds[name]): area for name, area in reversed(listed.items())}
    areas = {area: list(names) for area, names in _AREAS.items()}
    for name, kind in kinds.items():
        if name not in listed:
            areas[of_groups.get(group_of(kind), "Servers")].append(name)
    return areas


def _file(area: str) -> str:
    return f"{area.lower().replace(' ', '-')}.md"


def _anchor(heading: str) -> str:
    return heading.replace(".", "").replace(" ", "-")


def _place(heading: str) -> str:
    """Return an anchor for links to the page as it was before it had parts."""
    return f'<span id="{_anchor(heading)}"></span>'


def _allowed(setting: Setting) -> str:
    if setting.rule.only_by_environment:
        return f"Environment variable only: `{setting.variable}`."
    default = setting.shown(setting.default)
    # A length of time has its unit in the value.
    unit = f" {setting.rule.unit}" if setting.rule.unit and isinstance(default, int) else ""
    sentence = f"Default `{json.dumps(default)}`{unit}."
    if isinstance(default, bool):
        return sentence
    # Durations have their units, which the overview explains.
    expected = setting.rule.expected.removeprefix("a whole number with s, m, h or d, from ")
    return f"{sentence} Allowed: {expected.replace(_NONE, '')}."


_NONE = " for none, or for the usual one"
"""What the text of each such setting says of an empty path."""


def events() -> Iterator[str]:
    """Return the events with their meaning and fields."""
    yield "# Events"
    yield (
        "Every change writes one event in its own transaction. Together they are the audit log.\n"
        "`done_by` names the actor, such as `user 17` or `cli root`: see\n"
        "[who did what](../how-to/operate/who-did-what.md). Events contain\n"
        "no secrets and no free text that a client sent. `valetkey events` shows them.\n"
        "`log.keep_events` sets how long they are kept: see\n"
        "[audit log and export](../how-to/operate/audit-log.md)."
    )
    yield (
        "The `subject` of an event is the object that it is about, such as `webhook:wh_1`: a\n"
        "kind and a field of the event. Other events are about the user or app that they name."
    )
    kinds = {event.subject: event.subject_kind() for event in EVENTS if event.subject}
    subjects = (
        f"| `{kind}` | `{field.partition('{')[2].rstrip('}')}` |"
        for field, kind in sorted(kinds.items())
    )
    yield "\n".join(["| kind | field |", "|---|---|", *subjects])
    yield "## Authorization server"
    yield _events(EVENTS)
    yield "## Resource server"
    yield (
        "Changes of declared objects: one event for each version of an object. Objects stored at\n"
        "the authorization server (`account`, `client`, `authorizations`) have their events there."
    )
    yield _events(OBJECT_EVENTS)
    yield "## Kinds of email"
    yield "The `kind` of `mail.dispatched` and `mail.given_up`, and its name in the console."
    emails = (f"| `{kind.value}` | {kind.label} |" for kind in every_kind())
    yield "\n".join(["| kind | name |", "|---|---|", *emails])


def _events(events: Iterable[type[Event | ObjectEvent]]) -> str:
    rows = (f"| `{e.name}` | {_line(getdoc(e))} | {_carried(e)} |" for e in events)
    return "\n".join(["| event | meaning | fields |", "|---|---|---|", *rows])


def _carried(event: type[Event | ObjectEvent]) -> str:
    hints = get_type_hints(event)
    return ", ".join(
        f"`{name}`" + (" or none" if _optional(hints[name]) else "")
        for name in event.__struct_fields__
    )


def _optional(hint: object) -> bool:
    return "None" in str(hint)


def metrics() -> Iterator[str]:
    """Return the metrics with their types, labels and meaning."""
    yield "# Metrics"
    yield (
        "`GET /metrics` at [`metrics.listen`](settings/monitoring.md#metricslisten) returns these\n"
        "metrics: see [monitor your servers](../how-to/operate/monitor.md). Every series has the\n"
        "label `server`; series of a single process also have `worker`. Add them up with\n"
        "`sum without (worker)`. No label contains a value chosen by a caller. Names of counters\n"
        "end in `_total`, names of histograms in `_bucket`, `_count` and `_sum`. Where a process\n"
        "serves [several issuers](../how-to/operate/many-issuers.md), every series has the label\n"
        "`issuer`, which is empty for the process itself."
    )
    yield (
        "`valetkey_database_size_bytes` has the tables of SQLite as far as measuring them is\n"
        "cheap, because that reads the whole file: in files of up to 1 GiB, for at most a\n"
        "thousandth of the time, and at most once a minute. The write-ahead log of PostgreSQL is\n"
        "that of the whole server, and is only visible to roles such as `pg_monitor`:\n"
        "`GRANT pg_monitor TO valetkey`."
    )
    rows = (
        f"| `{PREFIX}{metric.name}` | {metric.kind} | {_labels(metric)} | {metric.help} |"
        for metric in CATALOGUE.values()
    )
    yield "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows])


def _labels(metric: Metric) -> str:
    names = (*(() if metric.shared else ("worker",)), *metric.labels)
    return ", ".join(f"`{name}`" for name in names)


def errors() -> Iterator[str]:
    """Return the error codes with their status, meaning and remedies."""
    yield "# Errors"
    yield (
        "An error has a code, a description and a reference. The `error_uri` of the\n"
        "authorization server links to one of these texts; the resource server returns a problem\n"
        "document (RFC 9457) with the same code. How to use the reference:\n"
        "[read an error response](../how-to/apps/read-a-refusal.md). The status is that of a\n"
        "response which is not a redirect."
    )
    yield "\n".join(
        [
            "| code | status |",
            "|---|---|",
            *(f"| [`{c}`](#{c}) | {c.status} |" for c in ErrorCode),
        ]
    )
    for code in ErrorCode:
        text = TEXTS[code]
        yield f"## {code}"
        yield text.meaning
        yield "Causes:"
        yield "\n".join(f"- {cause}" for cause in text.causes)
        yield "Remedies:"
        yield "\n".join(_remedy(remedy) for remedy in text.remedies)
        yield f"Defined in [{text.specification}]({text.specification_url})."


def _remedy(remedy: Remedy) -> str:
    command = f" `valetkey {remedy.command}`" if remedy.command else ""
    return f"- {remedy.reader.capitalize()}: {remedy.advice}{command}"


def commands() -> Iterator[str]:
    """Return the overview of the commands, with the page of each."""
    yield "# Commands"
    yield (
        "Every command accepts `--help`, and every command that needs the configuration accepts\n"
        "`--config FILE`: without it, the file is `./valetkey.toml`, or the one that\n"
        "`VALETKEY_CONFIG` names. Commands that print data accept `--json`. These options are not\n"
        "repeated on the pages. The exit code is 0 on\n"
        "success, 1 if the command failed, and 2 if its arguments or the configuration are\n"
        "invalid."
    )
    for heading in dict.fromkeys(listed.heading for listed in COMMANDS):
        yield f"## {heading}"
        yield "\n".join(
            [
                "| command | purpose |",
                "|---|---|",
                *(
                    f"| {''.join(map(_place, _paths(listed.name)))}"
                    f"[`valetkey {listed.name}`](commands/{listed.name}.md) | {listed.purpose} |"
                    for listed in COMMANDS
                    if listed.heading == heading
                ),
            ]
        )


def _command_pages() -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
    for listed in COMMANDS:
        yield f"commands/{listed.name}.md", partial(_command, listed.name)


def _command(name: str) -> Iterator[str]:
    """Return the help of a command and of those below it."""
    yield f"# valetkey {name}"
    root = click.Context(valetkey, info_name="valetkey", color=False, **valetkey.context_settings)
    command = valetkey.get_command(root, name)
    if command is not None:
        (_, first), *others = _helps(command, root, name)
        yield f"```\n{first}\n```"
        repeated = _repeated(help_text for _, help_text in others)
        yield from (
            re.sub(r"^\w+", r"`\g<0>`", " ".join(paragraph.split())) for paragraph in repeated
        )
        options: dict[str, set[str]] = {}
        for path, help_text in others:
            shown = help_text
            for paragraph in repeated:
                shown = shown.replace(f"\n\n  {paragraph}", "")
            shown, options[path] = _without_options(shown, options)
            yield f"## {path}"
            yield f"```\n{shown}\n```"


def _repeated(helps: Iterable[str]) -> list[str]:
    """Return the paragraphs that explain an argument in several helps."""
    paragraphs = Counter(_ARGUMENT.findall("\n".join(helps)))
    return [paragraph for paragraph, times in paragraphs.items() if times > 1]


def _without_options(help_text: str, before: Mapping[str, set[str]]) -> tuple[str, set[str]]:
    """Name the options that an earlier command has, if they are many; return all options."""
    text, heading, listed = help_text.partition("\nOptions:\n")
    entries = re.split(r"\n(?=  -)", listed.rstrip())
    for path, others in before.items():
        same = [entry for entry in entries if entry in others]
        if len(same) > 7:  # noqa: PLR2004
            names = ", ".join(entry.split()[0] for entry in same)
            remark = textwrap.fill(
                f"Also, as for {path}: {names}",
                92,
                initial_indent="  ",
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
            kept = [entry for entry in entries if entry not in same]
            return "\n".join([text + heading.rstrip(), *kept, "", remark]), set(entries)
    return help_text, set(entries)


def _paths(name: str) -> Iterator[str]:
    root = click.Context(valetkey, info_name="valetkey", color=False, **valetkey.context_settings)
    command = valetkey.get_command(root, name)
    if command is not None:
        yield from (path for path, _ in _helps(command, root, name))


def _helps(command: click.Command, parent: click.Context, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the help of a command and of those below it."""
    context = click.Context(
        command,
        parent=parent,
        info_name=name,
        terminal_width=92,
        color=False,
        help_option_names=valetkey.context_settings["help_option_names"],
    )
    help_text = _COMMON_OPTION.sub("", context.get_help()).rstrip().removesuffix("\n\nOptions:")
    help_text = help_text.replace("Options:\n\n", "").partition("\n\nCommands:\n")[0]
    help_text = help_text.replace(" [OPTIONS]", "", 1)
    yield context.command_path, help_text
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            subcommand = command.get_command(context, below)
            if subcommand is not None and not subcommand.hidden:
                yield from _helps(subcommand, context, below)


_COMMON_OPTION = re.compile(
    r"\n  (?:--config FILE +The configuration file\.|-h, --help +Show this|--json +Print JSON, for)"
    r".*(?:\n {8,}.*)*$",
    re.MULTILINE,
)
"""What the overview says for all commands."""

_ARGUMENT = re.compile(r"^  ([A-Z_]{3,} is .*(?:\n  \S.*)*)$", re.MULTILINE)
"""A paragraph that explains an argument of a command."""


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def client_fields() -> Iterator[str]:
    """Return the fields of a client with their names, editors, defaults and meaning."""
    yield "# Fields of a client"
    yield (
        "A field has the same name in commands, in the file of `valetkey apply` and in the admin\n"
        "API. Its name in client registration is given where it differs. A `client` sets fields\n"
        "by dynamic registration, a `developer` in the portal, an `administrator` through the\n"
        "admin API, an `operator` by commands and the file: all of them, unless the field says\n"
        "otherwise. A field that an editor cannot set keeps its value. What cannot be kept of a\n"
        "value that a program sends is left out, unless the field says that it is refused."
    )
    texts = field_texts()
    for field in FIELDS.values():
        rule = field.rule
        yield f"## `{field.name}`"
        yield texts[field.name]
        facts = [
            f"In client registration: `{rule.member}`" if rule.member else "",
            f"Type: {_kind(rule)}",
            f"Default: `{json.dumps(field.default)}`" if not rule.shortest else "Required",
            _editors(rule.editors),
            f"Defined in: {rule.source}" if rule.source else "",
            _unusable(rule.unusable),
        ]
        yield "\n".join(f"- {fact}" for fact in facts if fact)


def _editors(editors: Editor) -> str:
    names = [str(editor.name).lower() for editor in editors]
    return "" if len(names) == len(Editor) else f"Set by: {', '.join(names)}"


def _unusable(what: UnusableValue) -> str:
    """Return what is done with a value that cannot be kept, unless it is the usual."""
    return "" if what is UnusableValue.LEFT_OUT else f"What cannot be kept: {what.value}"


def _kind(rule: FieldRule) -> str:
    if rule.choices:
        return ", ".join(f"`{choice}`" for choice in rule.choices)
    if rule.kind is FieldType.LINE:
        return f"{rule.kind.value}, at most {rule.longest} characters"
    return str(rule.kind.value)


def roles() -> Iterator[str]:
    """Return the roles with their permissions."""
    yield "# Roles"
    yield (
        "A role applies to the console under `/admin` and to the admin API, for API tokens that\n"
        "its user created. No role can change a user with a higher role. How to assign roles:\n"
        "[run it with a team](../how-to/operate/run-it-with-a-team.md)."
    )
    head = " | ".join(role.value for role in Role)
    rows = (
        f"| `{permission}` | {meaning} | {' | '.join(_may(role, permission) for role in Role)} |"
        for permission, meaning in PERMISSIONS.items()
    )
    yield "\n".join(
        [f"| permission | what it allows | {head} |", "|---|---|" + "---|" * len(Role), *rows]
    )


def _may(role: Role, permission: Permission) -> str:
    return "yes" if permission in MAY[role] else ""


def clients() -> Iterator[str]:
    """Return the clients that have a preset, with what each needs and its test."""
    yield "# Tested clients"
    yield (
        "What each client requires, and why. Its [preset](../how-to/apps/presets.md) configures\n"
        "all of it. `make interop` runs every week; other tests run with each change."
    )
    for preset in PRESETS.values():
        yield f"## {preset.label}"
        facts = [
            f"Preset: `{preset.name}`",
            f"Client: {preset.client}",
            f"Redirect URI: path of `{preset.redirect_uri}`" if preset.redirect_uri else "",
            f"Scopes: {', '.join(f'`{name}`' for name in preset.scopes)}" if preset.scopes else "",
            f"Tested by: {preset.run}",
        ]
        yield "\n".join(f"- {fact}" for fact in facts if fact)
        yield "Requires:\n\n" + "\n".join(f"- {need}" for need in preset.needs)
    yield "## Quickstarts"
    yield (
        "The portal's [quickstarts](../how-to/apps/presets.md#quickstarts), and how each is\n"
        "tested."
    )
    rows = [f"| {stack.label} | {stack.title} | {stack.tested} |" for stack in STACKS.values()]
    yield "\n".join(["| stack | built with | tested |", "|---|---|---|", *rows])


def protect() -> Iterator[str]:
    """Return the code that the console shows for an API, for an example API."""
    yield "# Protect your API"
    yield "Your API accepts only access tokens that were issued for it."
    yield (
        "Declare the API ([how to](several-apis.md)), then paste the code for its framework. The\n"
        "console shows it under **APIs**, on the API's page, with the identifiers of your server:\n"
        "**Protect this API**. Here the issuer is `https://auth.example.com` and the API\n"
        "`https://calendar.example.com`.\n\n"
        "The Python code needs a secret of the API, issued on its page or with `valetkey api\n"
        "issue-secret API_ID`: it follows revocations and accepts tokens of both formats. The\n"
        "others verify JWTs with the issuer's public keys: a revoked token works until it expires."
        "\nInstall the SDK, `./release/sdk`, in a clone: it has no release yet."
    )
    api = Api(
        identifier="https://calendar.example.com",
        name="Calendar",
        scopes={"calendar:read": "see your calendar"},
        id="api_calendar",
        created_at=Instant(0),
        changed_at=Instant(0),
    )
    yield "<!-- tabs -->"
    for framework in FRAMEWORKS.values():
        yield f"## {framework.label}"
        yield f"Install: `{framework.install}`"
        for file in framework.code(api, "https://auth.example.com"):
            language = _LANGUAGES[file.name.rpartition(".")[2]]
            yield f"`{file.name}`:\n\n```{language}\n{file.text}```"
        yield f"Run: `{framework.run}`"
    yield "<!-- end of tabs -->"
    yield (
        "## Try it\n\nA request without a token, or with a token for another API, returns 401. A\n"
        "token that lacks the scope returns 403."
    )
    yield (
        "<!-- search: validate verify check access token fastapi django flask spring express jwt\n"
        "middleware bearer go -->"
    )


_LANGUAGES = {
    "py": "python",
    "mjs": "javascript",
    "yaml": "yaml",
    "java": "java",
    "go": "go",
    "conf": "nginx",
}

PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "../badges.svg": badges,
    "admin-api.md": admin_api,
    "client-fields.md": client_fields,
    "clients.md": clients,
    "commands.md": commands,
    "endpoints.md": endpoints,
    "errors.md": errors,
    "events.md": events,
    "metrics.md": metrics,
    "settings.md": settings,
    "roles.md": roles,
    **dict(_command_pages()),
    **dict(_settings_pages()),
    "../how-to/apis/protect-your-api.md": protect,
    **{f"../diagrams/{name}.svg": drawn for name, drawn in DIAGRAMS.items()},
}


def rendered() -> Mapping[str, str]:
    """Return the text of each page by its path."""
    return {name: "\n\n".join([NOTICE, *page()]) + "\n" for name, page in PAGES.items()}


def main() -> None:
    """Write the catalogue and the pages; delete those of commands and settings that are gone."""
    if FILE.read_text() != (described := commands_catalogue()):
        FILE.write_text(described)
        # The list of commands was read from the former catalogue when `cli.main` was imported.
        subprocess.run((sys.executable, *sys.orig_argv[1:]), check=True)
        return
    pages = rendered()
    for name, text in pages.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text)
    for file in (*FOLDER.glob("commands/*.md"), *FOLDER.glob("settings/*.md")):
        if file.relative_to(FOLDER).as_posix() not in pages:
            file.unlink()


if __name__ == "__main__":
    main()
