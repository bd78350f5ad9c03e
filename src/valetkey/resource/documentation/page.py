"""The page at `/v2/`: every object, method and scope, and forms that send requests.

They are hidden without JavaScript. The script sends to this server only, and stores nothing: the
token is in a field of the page until the page is left. The HTML is written by hand: every value
from outside this file is escaped by `_text`.

The HTML is written by hand: every value from outside this file is escaped by `_text`.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from html import escape as _text
from importlib.resources import files
from typing import cast

from msgspec import Struct

from valetkey.kernel.shapes import EXACT, Document
from valetkey.resource.documentation import schemas
from valetkey.resource.documentation.openapi import ApiIdentity, document
from valetkey.resource.documentation.schemas import Action, actions, of_schema
from valetkey.resource.problem import Problems
from valetkey.resource.requests.paging import MOST, USUAL
from valetkey.resource.requests.representation import JSON, MERGE_PATCH
from valetkey.resource.resource_object import Backend, OwnedBy, ResourceObject, Verb
from valetkey.resource.storage.objects import CREATED
from valetkey.web.exchange import Endpoint, Request, Response, html_response, json_response
from valetkey.web.router import Route

_LONGEST_TOKEN = 8_000


@cache
def script() -> str:
    """Return the script."""
    return files("valetkey.resource.documentation").joinpath("explorer.js").read_text("utf-8")


def source_of(text: str) -> str:
    """Return the CSP source that allows an inline element with this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def type_of(action: Action) -> str:
    """Return the content type of the body of an operation."""
    return MERGE_PATCH if action.verb is Verb.CHANGE else JSON


def token_form(site: ApiIdentity) -> Iterator[str]:
    """Return the field for the access token, with a note on what requests do."""
    portal = _text(f"{site.auth_url}/developer")
    yield (
        '<section id="send-requests" data-explorer hidden><h2>Send requests</h2>'
        "<p>Each operation below has a form that sends it. The requests are real: they read and"
        " change the data of the account that the token belongs to, as far as the scopes of the"
        " token allow.</p>"
        '<div class="field"><label for="access-token">Access token</label>'
        # Hidden by the stylesheet: a browser would offer to store the text of a password field.
        '<input id="access-token" class="secret" autocomplete="off" spellcheck="false"'
        f' maxlength="{_LONGEST_TOKEN}" aria-describedby="access-token-hint">'
        '<p class="quiet" id="access-token-hint">Get one for your own account under <em>Try it</em>'
        f' of your app in the <a href="{portal}">developer portal</a>. It is sent to this server'
        " only, and is gone when you reload or leave the page.</p></div></section>\n"
    )


def form(action: Action) -> Iterator[str]:
    """Return the form that sends an operation, in a collapsed element."""
    yield (
        "<details data-explorer hidden><summary>Send</summary>"
        f'<form data-method="{action.method}" data-path="{_text(action.path)}"'
        f' data-type="{type_of(action)}" data-operation="{_text(action.name)}"'
        f' aria-label="{_text(action.summary)}">'
    )
    if action.has_id:
        yield _field(action, "id", "ID", required=True)
    if action.verb is Verb.LIST:
        yield _field(action, "query", "Query, such as limit=10")
    if action.has_preconditions:
        yield _field(action, "if-match", "If-Match", required=action.kind.requires_if_match)
    if action.has_body:
        written = json.dumps(action.example or {}, indent=2, ensure_ascii=False)
        name = f"{action.name}-body"
        # A line break directly after the tag is not part of the value.
        yield (
            f'<div class="field"><label for="{name}">Body</label><textarea id="{name}" name="body"'
            f' rows="{min(written.count(chr(10)) + 2, 16)}" spellcheck="false">\n{_text(written)}'
            "</textarea></div>"
        )
    kind = "send end" if action.verb is Verb.DELETE else "send"
    yield (
        f'<p><button class="{kind}">Send {action.method}</button></p>'
        '<div class="response"><p role="status" data-response></p><div hidden>'
        "<pre tabindex=0 data-response></pre><pre tabindex=0 data-response></pre></div></div>"
        "</form></details>"
    )


def _field(action: Action, name: str, label: str, *, required: bool = False) -> str:
    needed = " required" if required else ""
    unique = f"{action.name}-{name}"
    return (
        f'<div class="field"><label for="{unique}">{label}</label>'
        f'<input id="{unique}" name="{name}" autocomplete="off" spellcheck="false"{needed}></div>'
    )


_ID = "ID"
_TAG = '"1"'


class Program(Struct, frozen=True):
    """One example: the language's name and the text."""

    language: str
    text: str


def programs(action: Action, url: str) -> tuple[Program, ...]:
    """Return the operation in each language; `url` is the address of the API."""
    target = url + action.path.replace("{id}", _ID)
    return tuple(Program(name, write(action, target)) for name, write in _LANGUAGES)


def _body(action: Action) -> Document | None:
    return (action.example or {}) if action.has_body else None


def _requires_precondition(action: Action) -> bool:
    """Return whether the operation is refused without a precondition."""
    return action.kind.requires_if_match and action.has_preconditions


def _curl(action: Action, target: str) -> str:
    lines = ["curl" if action.method == "GET" else f"curl --request {action.method}"]
    lines.append('--header "Authorization: Bearer $TOKEN"')
    if _requires_precondition(action):
        lines.append(f"--header 'If-Match: {_TAG}'")
    body = _body(action)
    if body is not None:
        lines.append(f"--header 'Content-Type: {type_of(action)}'")
        written = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        lines.append(f"--data '{written}'")
    lines.append(target)
    return " \\\n  ".join(lines)


def _python(action: Action, target: str) -> str:
    lines = [
        "import requests",
        "",
        f"answer = requests.{action.method.lower()}(",
        f'    "{target}",',
        _python_headers(action),
    ]
    body = _body(action)
    if body is not None:
        lines.append(f"    json={body!r},")
    lines += [
        "    timeout=10,",
        ")",
        "answer.raise_for_status()",
    ]
    if action.verb is not Verb.DELETE:
        lines.append("print(answer.json())")
    return "\n".join(lines)


def _python_headers(action: Action) -> str:
    match = f", \"If-Match\": '{_TAG}'" if _requires_precondition(action) else ""
    return f'    headers={{"Authorization": f"Bearer {{token}}"{match}}},'


def _javascript(action: Action, target: str) -> str:
    lines = [f'const answer = await fetch("{target}", {{']
    body = _body(action)
    if action.method != "GET":
        lines.append(f'  method: "{action.method}",')
    lines += ["  headers: {", "    Authorization: `Bearer ${token}`,"]
    if _requires_precondition(action):
        lines.append(f"    \"If-Match\": '{_TAG}',")
    if body is None:
        lines.append("  },")
    else:
        lines += [
            f'    "Content-Type": "{type_of(action)}",',
            "  },",
            f"  body: JSON.stringify({json.dumps(body, ensure_ascii=False)}),",
        ]
    lines += ["});", "if (!answer.ok) throw new Error((await answer.json()).detail);"]
    if action.verb is not Verb.DELETE:
        lines.append("console.log(await answer.json());")
    return "\n".join(lines)


_LANGUAGES: tuple[tuple[str, Callable[[Action, str], str]], ...] = (
    ("curl", _curl),
    ("Python", _python),
    ("JavaScript", _javascript),
)


PAGE = "/v2/"

_CACHED = (("cache-control", "public, max-age=300"),)
OPENAPI = "/v2/openapi.json"

_ERRORS = """are problem documents (RFC 9457). <code>errors</code> names each invalid field by its
JSON pointer; <code>valetkey explain</code> shows the record of a <code>reference</code>."""
_LISTS = f"""come in pages of {USUAL}; <code>?limit=</code> takes up to {MOST}.
Send <code>next</code> as <code>cursor</code> for the next page, with the same order and filters,
or follow the <code>Link</code> header."""
_CHANGES = """with <code>If-Match</code> and the <code>ETag</code> that you read overwrite no other
change: 412 means that another request changed the object first."""
_RETRIES = """of a POST with the same <code>Idempotency-Key</code> get the same response for a day,
and create nothing new."""
_SHORT = """leave out the object, with <code>Prefer: return=minimal</code>."""
_OWN = "the client, with a token of its own (client credentials); no user is involved"
_GENERAL = (
    ("Errors", _ERRORS),
    ("Lists", _LISTS),
    ("Changes", _CHANGES),
    ("Retries", _RETRIES),
    ("Short responses", _SHORT),
)


def routes(
    site: ApiIdentity, objects: Sequence[ResourceObject], problems: Problems
) -> tuple[Route, Route]:
    """Return the page and the document, each built once."""
    described = json_response(document(site, objects), headers=_CACHED)
    shown = page(site, objects)

    async def openapi(request: Request) -> Response:
        return problems.cors.opened(request, described)

    async def people(_: Request) -> Response:
        return shown

    def route(path: str, endpoint: Endpoint) -> Route:
        return Route(path, {"GET": endpoint}, problems.refuse_at(path))

    return route(PAGE, people), route(OPENAPI, openapi)


def page(site: ApiIdentity, objects: Sequence[ResourceObject]) -> Response:
    """Return the whole page, which loads nothing and sends requests to this server only."""
    style = files("valetkey.resource.documentation").joinpath("style.css").read_text("utf-8")
    style = style.replace("ACCENT", site.accent)
    csp = (
        f"default-src 'none'; style-src {source_of(style)};"
        f" script-src {source_of(script())}; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html_response("".join(_page(site, objects, style)).encode(), 200, csp)


def _page(site: ApiIdentity, objects: Sequence[ResourceObject], style: str) -> Iterator[str]:
    title = _text(f"{site.name} API")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head>\n"
        f'<body><div class="page"><header><h1>{title}</h1>'
        f"<p>At <code>{_text(site.url)}/v2/</code>, with access tokens of"
        f" <code>{_text(site.auth_url)}</code>. For programs:"
        f' <a href="{OPENAPI}">openapi.json</a></p></header>\n<div class="columns">'
        '<nav aria-label="On this page"><ul><li><a href="#start">Start</a></li>'
        '<li data-explorer hidden><a href="#send-requests">Send requests</a></li>'
    )
    for kind in objects:
        yield f'<li><a href="#{_text(kind.name)}">{_text(kind.name)}</a></li>'
    yield "</ul></nav>\n<main>"
    yield from _start(site)
    yield from token_form(site)
    for kind in objects:
        yield from _object(site, kind)
    yield f"</main></div></div><script>{script()}</script></body></html>\n"


def _start(site: ApiIdentity) -> Iterator[str]:
    yield '<section id="start"><h2>Start</h2>'
    yield (
        "<p>Send an access token with every request. The authorization server "
        "issues it, and a user or a client authorized its scope.</p>"
        "<pre tabindex=0><code>Authorization: Bearer TOKEN</code></pre>"
    )
    for title, sentence in _GENERAL:
        yield f"<p><strong>{title}</strong> {sentence}</p>"
    discovery = f"{site.auth_url}/.well-known/oauth-authorization-server"
    yield f'<p class="quiet">The authorization server describes itself at {_link(discovery)}.</p>'
    yield "</section>\n"


def _object(site: ApiIdentity, kind: ResourceObject) -> Iterator[str]:
    name = _text(kind.name)
    whose = "the user" if kind.owned_by is OwnedBy.USER else _OWN
    yield f'<section id="{name}"><h2>{name}</h2><p class="quiet">Belongs to {whose}.</p>'
    if kind.deprecated is not None:
        until = f" It may be removed from {kind.sunset:%Y-%m-%d} on." if kind.sunset else ""
        yield f'<p class="notice">Deprecated: do not use it in new programs.{until}</p>'
    yield from _scopes(kind)
    if kind.owned_by is OwnedBy.CLIENT:
        yield from _own_token(site, kind)
    yield from _fields(kind)
    for action in actions(kind):
        yield from _action(site, action)
    yield "</section>\n"


def _scopes(kind: ResourceObject) -> Iterator[str]:
    rows = [(f"{kind.name}:read", kind.reads)]
    if kind.writes:
        rows.append((f"{kind.name}:write", kind.writes))
    head = "Consent page" if kind.owned_by is OwnedBy.USER else "Permission"
    yield from _table(("Scope", head), ((_code(n), _text(sentence)) for n, sentence in rows))


def _own_token(site: ApiIdentity, kind: ResourceObject) -> Iterator[str]:
    scopes = f"{kind.name}:read {kind.name}:write" if kind.writes else f"{kind.name}:read"
    command = (
        'curl --user "$CLIENT_ID:$CLIENT_SECRET" --data grant_type=client_credentials \\\n'
        f"  --data-urlencode 'scope={scopes}' {site.auth_url}/token"
    )
    yield (
        "<details><summary>Get a token</summary>"
        f"<pre tabindex=0><code>{_text(command)}</code></pre></details>"
    )


def _fields(kind: ResourceObject) -> Iterator[str]:
    shown = schemas.properties(schemas.shown(kind))
    written = kind.fields.names
    rows = [
        (
            _code(name),
            _text(_described(schema)),
            _requirement(kind, name) if name in written else "set by the server",
        )
        for name, schema in shown.items()
    ]
    yield f"<details><summary>Fields ({len(rows)})</summary>"
    yield from _table(("Field", "Value", ""), rows)
    yield "</details>"


def _requirement(kind: ResourceObject, name: str) -> str:
    if name in kind.fields.required:
        return "required"
    default = kind.fields.defaults.get(name)
    return "optional" if default is None else f"default {_code(json.dumps(default))}"


def _described(schema: Document) -> str:
    kind = schema.get("type")
    words = [str(schema["format"])] if "format" in schema else [_type(schema)]
    for keyword, sentence in (
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("pattern", "pattern {}"),
    ):
        limit = schema.get(keyword)
        if limit is not None and abs(limit if isinstance(limit, int) else 0) < EXACT:
            words.append(sentence.format(limit))
    described = schema.get("description")
    if isinstance(described, str) and kind is not None:
        words.append(described.rstrip("."))
    return ", ".join(words)


def _type(schema: Document) -> str:
    if choices := _several(schema, "enum"):
        return "one of " + ", ".join(json.dumps(choice) for choice in choices)
    if kinds := _several(schema, "type"):
        return " or ".join(str(kind) for kind in kinds)
    if several := _several(schema, "anyOf"):
        return " or ".join(_type(cast("Document", alternative)) for alternative in several)
    return str(schema.get("type") or "any value")


def _several(schema: Document, keyword: str) -> Sequence[object]:
    value = schema.get(keyword)
    return cast("list[object]", value) if isinstance(value, list) else ()


def _action(site: ApiIdentity, action: Action) -> Iterator[str]:
    scopes = " or ".join(_code(scope) for scope in action.kind.scopes(action.verb))
    yield (
        f'<h3 id="{_text(action.name)}"><span class="method {action.method}">{action.method}</span>'
        f"<code>{_text(action.path)}</code></h3><p>{_text(action.summary)}."
        f' <span class="quiet">Scope {scopes}.</span></p>'
    )
    if action.verb is Verb.LIST:
        yield from _orders(action.kind)
    for index, program in enumerate(programs(action, site.url)):
        is_open = " open" if index == 0 else ""
        yield (
            f"<details{is_open}><summary>{_text(program.language)}</summary>"
            f"<pre tabindex=0><code>{_text(program.text)}</code></pre></details>"
        )
    yield from form(action)
    if action.verb in (Verb.LIST, Verb.READ, Verb.CREATE):
        yield (
            "<details><summary>Response</summary>"
            f"<pre tabindex=0><code>{_text(_answer(action))}</code></pre></details>"
        )


def _orders(kind: ResourceObject) -> Iterator[str]:
    if kind.home is not Backend.HERE:
        return
    sorts = ", ".join(_code(f"?sort={name}") for name in (CREATED, *kind.sort))
    sentence = f"Sort by {sorts}; a - before the name reverses the order."
    if kind.filter:
        sentence += f" Filter by {', '.join(_code(f'?{name}=') for name in kind.filter)}."
    yield f"<p>{sentence}</p>"


def _answer(action: Action) -> str:
    one = of_schema(schemas.shown(action.kind))
    value = {"items": [one], "next": None} if action.verb is Verb.LIST else one
    return json.dumps(value, indent=2, ensure_ascii=False)


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return a table of cells that are already HTML."""
    yield "<table><thead><tr>"
    yield from (f'<th scope="col">{_text(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>"


def _link(url: str) -> str:
    return f'<a href="{_text(url)}">{_text(url)}</a>'
