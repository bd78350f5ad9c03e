"""The forms of the page at `/v2/` that send a request with an access token.

They are hidden without JavaScript. The script sends to this server only, and stores nothing: the
token is in a field of the page until the page is left. The HTML is written by hand: every value
from outside this file is escaped by `_text`.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from html import escape as _text
from importlib.resources import files

from valetkey.resource.documentation.openapi import ApiIdentity
from valetkey.resource.documentation.schemas import Action
from valetkey.resource.requests.representation import JSON, MERGE_PATCH
from valetkey.resource.resource_object import Verb

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
