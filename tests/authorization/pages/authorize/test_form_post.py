"""The page that carries an answer: every character arrives, and none becomes markup."""

import pytest

from tests.authorization.pages.examples.every import HOSTILE
from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import FormPostPage
from valetkey.authorization.layout.render import content_security_policy, render

HOSTILE_TEXTS = (
    "\"'><script>alert(1)</script>",
    "\u202etxet\u2066\u200e\u061c",
    "\x01\x08\t\x1f\x7f\x80\x9f",
    "\u2028\u2029\ufeff\uffff\U0010ffff",
    "{{ 7*7 }} %(name)s %s &amp; &#0;",
    "",
)


def page(*values: str, app_name: str = "Notes Printer") -> FormPostPage:
    fields = tuple((f"f{number}", value) for number, value in enumerate(values))
    return FormPostPage("https://app.example/cb?a=1&b=2", fields, app_name, "bm9uY2U")


def test_form_posts_the_response_in_hidden_fields() -> None:
    reading = Reading(render(page(*HOSTILE_TEXTS), brand=Brand()))
    form = reading.the("form")
    assert form.attributes["action"] == "https://app.example/cb?a=1&b=2"
    assert form.attributes["method"] == "post"
    fields = {i.attributes["name"]: i.attributes["value"] for i in reading.inside(form, "input")}
    assert tuple(fields.values()) == HOSTILE_TEXTS
    assert [i.attributes["type"] for i in reading.all("input")] == ["hidden"] * len(fields)
    assert reading.by_id("continue").attributes["type"] == "submit"


def test_the_only_script_contains_no_request_values() -> None:
    pages = (render(page("a"), brand=Brand()), render(page(*HOSTILE_TEXTS), brand=Brand()))
    scripts = {Reading(text).the("script").text for text in pages}
    assert scripts == {'document.getElementById("answer").submit()'}
    for text in pages:
        assert Reading(text).the("script").attributes == {"nonce": "bm9uY2U"}


def test_malicious_app_name_is_escaped() -> None:
    text = render(page("a", app_name=HOSTILE.name), brand=Brand()).decode()
    assert text.count("<script") == 1
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("redirect_uri", "target"),
    [
        ("https://app.example/cb", "https://app.example"),
        ("http://127.0.0.1:7000/cb", "http://127.0.0.1:7000"),
        ("com.example.app:/cb", "com.example.app:"),
        ("", "'none'"),
    ],
)
def test_policy_allows_only_the_script_with_nonce_and_the_client_as_form_target(
    redirect_uri: str, target: str
) -> None:
    policy = content_security_policy(returns_to=redirect_uri, script_nonce="bm9")
    assert f"; script-src 'nonce-bm9'; form-action {target}; " in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
