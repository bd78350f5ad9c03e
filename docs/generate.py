"""The reference pages, written from the code they describe: `make docs`.

A page that was not written again after a change fails `tests/documents/test_reference.py`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import get_type_hints

import click

from docs.endpoints import admin_api, endpoints
from valetkey.authorization.actions.admin.permissions import MAY, PERMISSIONS, Permission
from valetkey.authorization.actions.developer.presets import PRESETS
from valetkey.authorization.actions.developer.quickstart import STACKS
from valetkey.authorization.model.account.user import Role
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.event.registry import EVENTS
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.fields import FieldRule, Kind
from valetkey.authorization.protocol.register.client_metadata import FIELDS
from valetkey.authorization.site.admin.apis.protect import FRAMEWORKS
from valetkey.authorization.site.errors.refuse import TEXTS, Remedy
from valetkey.cli.main import valetkey
from valetkey.cli.register.clients import field_texts
from valetkey.config.catalogue import Setting, catalogue, reasons, sections
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.metrics import CATALOGUE, PREFIX, Metric
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.scope import Scope
from valetkey.resource.storage.events import EVENTS as OBJECT_EVENTS
from valetkey.resource.storage.events import Event as ObjectEvent

FOLDER = Path(__file__).parent / "reference"
NOTICE = "<!-- Written from the code by `make docs`. Change the code, not this page. -->"


def settings() -> Iterator[str]:
    """Every setting: default, what it may be, reason."""
    yield "# Settings"
    yield (
        "One TOML file. The environment wins over it: `tokens.access_token_lifetime` is also\n"
        "`VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME`. Lengths of time are written `90s`, `10m`,\n"
        "`1h` or `30d`. Relative paths start at the folder of the file. `valetkey config explain`\n"
        "shows what holds in your installation, and where each value comes from."
    )
    for section, kind in sections().items():
        yield f"## [{section}]"
        yield getdoc(kind) or ""
        for setting in catalogue().values():
            if setting.section == section:
                yield f"### `{setting.path}`"
                yield f"{_allowed(setting)}\n\n{reasons()[setting.path]}"


def _allowed(setting: Setting) -> str:
    if setting.rule.only_by_environment:
        return f"By the environment only, as `{setting.variable}`."
    default = json.dumps(setting.shown(setting.default))
    unit = f" {setting.rule.unit}" if setting.rule.unit else ""
    return f"Default `{default}`{unit}. Write {setting.rule.expected}."


def events() -> Iterator[str]:
    """Every event: its name, when it is written, what it carries."""
    yield "# Events"
    yield (
        "Every change writes one event, in the same transaction. Together they are the audit\n"
        "record. Each names who did it as `done_by`, such as `user 17` or `cli root`: see\n"
        "[who did what](../how-to/operate/run-it-with-a-team.md#see-who-did-what). No event\n"
        "carries a secret, or free text that a client sent. `valetkey events` shows them; they\n"
        "are kept as long as `log.keep_events` says:\n"
        "see [audit log and export](../how-to/operate/audit-log.md)."
    )
    yield "## Authorization server"
    yield _events(EVENTS)
    yield "## Resource server"
    yield (
        "What is done to declared objects, one event for each version of each. What the\n"
        "authorization server keeps (`account`, `client`, `authorizations`) has its events there."
    )
    yield _events(OBJECT_EVENTS)


def _events(events: Iterable[type[Event | ObjectEvent]]) -> str:
    rows = (f"| `{e.name}` | {_line(getdoc(e))} | {_carried(e)} |" for e in events)
    return "\n".join(["| event | written when | with |", "|---|---|---|", *rows])


def _carried(event: type) -> str:
    hints = get_type_hints(event)
    names = (field.name for field in fields(event))
    return ", ".join(f"`{name}`" + (" or none" if _optional(hints[name]) else "") for name in names)


def _optional(hint: object) -> bool:
    return "None" in str(hint)


def metrics() -> Iterator[str]:
    """Every metric: its name, its type, its labels, what it says."""
    yield "# Metrics"
    yield (
        "What `GET /metrics` answers where [`metrics.listen`](settings.md#metricslisten) says:\n"
        "see [monitor your servers](../how-to/operate/monitor.md). Every series has the label\n"
        "`server`, and those of one process `worker` as well; add them up with\n"
        "`sum without (worker)`. No label holds anything that a caller chose. Names of counters\n"
        "end in `_total`, those of histograms in `_bucket`, `_count` and `_sum`."
    )
    rows = (
        f"| `{PREFIX}{each.name}` | {each.kind} | {_labels(each)} | {each.help} |"
        for each in CATALOGUE.values()
    )
    yield "\n".join(["| metric | type | labels | what it says |", "|---|---|---|---|", *rows])


def _labels(metric: Metric) -> str:
    names = ("server", *(() if metric.shared else ("worker",)), *metric.labels)
    return ", ".join(f"`{name}`" for name in names)


def errors() -> Iterator[str]:
    """Every error code: its status, what it means, what to do."""
    yield "# Errors"
    yield (
        "A refusal has a code, a sentence and a reference. On the authorization server the\n"
        "address in `error_uri` leads to one of these texts; the resource server answers with a\n"
        "problem document (RFC 9457) that names the same code. What to do with the reference:\n"
        "[read a refusal](../how-to/apps/read-a-refusal.md)."
    )
    yield "\n".join(
        [
            "| code | status | meaning |",
            "|---|---|---|",
            *(f"| [`{c}`](#{c}) | {c.status} | {TEXTS[c].meaning} |" for c in ErrorCode),
        ]
    )
    for code in ErrorCode:
        text = TEXTS[code]
        yield f"## {code}"
        yield f"{text.meaning} Status {code.status}, where the answer is not a redirect."
        yield "Usual causes:"
        yield "\n".join(f"- {cause}" for cause in text.causes)
        yield "What to do:"
        yield "\n".join(_remedy(remedy) for remedy in text.remedies)
        yield f"Defined in [{text.specification}]({text.specification_url})."


def _remedy(remedy: Remedy) -> str:
    command = f" `valetkey {remedy.command}`" if remedy.command else ""
    return f"- {remedy.reader.capitalize()}: {remedy.advice}{command}"


def commands() -> Iterator[str]:
    """Every command as its own help tells it."""
    yield "# Commands"
    yield (
        "Every command takes `--help`. Where one answers with data, `--json` makes it a document\n"
        "for scripts. The exit code is 0 if all is well, 1 if something failed, 2 if the command\n"
        "or the configuration has to be mended. `VALETKEY_CONFIG` names the configuration file\n"
        "for every command."
    )
    yield from _helps(valetkey, None, "valetkey")


def _helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(
        command,
        parent=parent,
        info_name=name,
        terminal_width=92,
        color=False,
        help_option_names=valetkey.context_settings["help_option_names"],
    )
    yield f"## {context.command_path}"
    yield f"```\n{context.get_help().rstrip()}\n```"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _helps(found, context, below)


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def client_fields() -> Iterator[str]:
    """Every field of a client: its names, who may set it, its default and what it means."""
    yield "# Fields of a client"
    yield (
        "A field has one name in commands, in the file of `valetkey apply` and in the admin API.\n"
        "Its name in a registration is given where it differs. A `client` sets a field by dynamic\n"
        "registration, a `developer` in the portal, an `administrator` through the admin API, an\n"
        "`operator` by commands and the file. A field that one of them cannot set keeps its value."
    )
    texts = field_texts()
    for field in FIELDS.values():
        rule = field.rule
        yield f"## `{field.name}`"
        yield texts[field.name]
        facts = [
            f"In a registration: `{rule.member}`" if rule.member else "",
            f"Type: {_kind(rule)}",
            f"Default: `{json.dumps(field.default)}`" if not rule.shortest else "Required",
            f"Set by: {', '.join(str(each.name).lower() for each in rule.editors)}",
            f"Defined in: {rule.source}" if rule.source else "",
        ]
        yield "\n".join(f"- {fact}" for fact in facts if fact)


def _kind(rule: FieldRule) -> str:
    if rule.choices:
        return ", ".join(f"`{each.value}`" for each in rule.choices)
    if rule.kind is Kind.LINE:
        return f"{rule.kind.value}, at most {rule.longest} characters"
    return str(rule.kind.value)


def roles() -> Iterator[str]:
    """Every role, and what it may do."""
    yield "# Roles"
    yield (
        "What people with a role may do on the pages under `/admin`, and programs with tokens of\n"
        "theirs through the admin API. Nobody acts on a person with a higher role. How roles are\n"
        "given: [run it with a team](../how-to/operate/run-it-with-a-team.md)."
    )
    head = " | ".join(role.value for role in Role)
    rows = (
        f"| `{permission}` | {said} | {' | '.join(_may(role, permission) for role in Role)} |"
        for permission, said in PERMISSIONS.items()
    )
    yield "\n".join(
        [f"| permission | what it allows | {head} |", "|---|---|" + "---|" * len(Role), *rows]
    )


def _may(role: Role, permission: Permission) -> str:
    return "yes" if permission in MAY[role] else ""


def clients() -> Iterator[str]:
    """The clients that presets are made for: what each needs, and which test drives it."""
    yield "# Clients we have met"
    yield (
        "What each client needs of this server, and why. Its [preset](../how-to/apps/presets.md)\n"
        "sets all of it. Where no test is named, the configuration follows the client's\n"
        "documentation and was not run."
    )
    for preset in PRESETS.values():
        yield f"## {preset.label}"
        facts = [
            f"Preset: `{preset.name}`",
            f"Client: {preset.client}",
            f"Redirect URI: path of `{preset.redirect_uri}`" if preset.redirect_uri else "",
            f"Scopes: {', '.join(f'`{name}`' for name in preset.scopes)}" if preset.scopes else "",
            f"Tested by: {preset.run or 'no test'}",
        ]
        yield "\n".join(f"- {fact}" for fact in facts if fact)
        yield "Needs:\n\n" + "\n".join(f"- {need}" for need in preset.needs)
    yield "## Quickstarts"
    yield (
        "The portal's [quickstarts](../how-to/apps/presets.md#quickstarts), and what a test does\n"
        "with each."
    )
    rows = [f"| {each.label} | {each.title} | {each.tested} |" for each in STACKS.values()]
    yield "\n".join(["| stack | built with | tested |", "|---|---|---|", *rows])


def protect() -> Iterator[str]:
    """The code that the console shows for an API, with an example of one."""
    yield "# Protect your API"
    yield (
        "Declare the API ([how to](several-apis.md)), then paste the code for its framework. The\n"
        "console shows it under **APIs**, on the API's page, with the identifiers of your server:\n"
        "**Protect this API**. Here the issuer is `https://auth.example.com` and the API\n"
        "`https://calendar.example.com`.\n\n"
        "The Python code needs a secret of the API, issued on its page or with `valetkey api\n"
        "issue-secret API_ID`: it follows revocations and accepts tokens of both formats. The\n"
        "others verify JWTs with the issuer's public keys: a revoked token works until it expires."
    )
    api = Api(
        "api_calendar",
        "https://calendar.example.com",
        "Calendar",
        {"calendar:read": "see your calendar"},
        Scope(),
        None,
        None,
        Algorithm.ES256,
        None,
        shares_scopes=False,
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
        "## Try it\n\nA request without a token is answered with 401, one with a token for\n"
        "another API too, and one whose token lacks the scope with 403."
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
    "../how-to/apis/protect-your-api.md": protect,
}


def rendered() -> Mapping[str, str]:
    """Each page's name with its text."""
    return {name: "\n\n".join([NOTICE, *page()]) + "\n" for name, page in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
