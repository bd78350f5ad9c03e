"""Rendering, and the policy that goes with a page."""

from typing import ClassVar

import pytest
from jinja2 import Environment, UndefinedError
from msgspec import Struct

from tests.authorization.pages.examples.every import HOSTILE, PRINTER, consent
from tests.authorization.pages.reading import Reading
from tests.authorization.pages.shown import AREAS
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import (
    content_security_policy,
    https_only,
    https_or_own,
    initial,
    page_compiler,
    render,
)
from valetkey.authorization.layout.viewer import Menu, Navigation
from valetkey.authorization.site.consent import ScopeLine
from valetkey.authorization.site.errors.refuse import ProblemPage, RemedyAudience
from valetkey.kernel.refusal import ErrorCode


class Named(Struct, frozen=True):
    """A page whose context names its title."""

    template: ClassVar[str] = "sign_out/signed_out.html"
    title: ClassVar[str] = "Named by its context"

    returns_to: str = ""
    reference: str = ""
    unreturned: bool = False
    frames: tuple[str, ...] = ()


class Forgetful(Struct, frozen=True):
    """A page that does not say what its template asks for."""

    template: ClassVar[str] = "sign_out/sign_out.html"


def test_page_with_missing_fields_is_not_rendered() -> None:
    with pytest.raises(UndefinedError):
        render(Forgetful(), brand=Brand())


def test_context_title_replaces_title_of_page_in_head_and_heading() -> None:
    read = Reading(render(Named(), brand=Brand("Acme"), navigation=Navigation("Of the page")))

    assert "Named by its context – Acme" in read.the("title").text
    assert read.the("h1").text == "Named by its context"


def test_each_address_is_the_path_of_a_page() -> None:
    served = {page.path for pages in AREAS.values() for page in pages}

    assert {
        path
        for path in ADDRESSES.values()
        if path.startswith(("/account/", "/admin", "/developer"))
    } - served == {"/account/security/passkeys/"}


def test_page_has_no_indentation_except_in_preformatted_text() -> None:
    environment = Environment(autoescape=True)
    environment.code_generator_class = page_compiler(str)
    text = """<p>
        a {{ x }}

        b</p>
      <pre id="{{ x }}">
  1
    {{ x }}
    2</pre>
    <i>c</i>"""
    sent = environment.from_string(text).render(x="X")
    assert sent == '<p>\na X\nb</p>\n<pre id="X">\n  1\n    X\n    2</pre>\n<i>c</i>'


def test_page_shows_a_percent_sign_in_a_sentence() -> None:
    problem = ProblemPage(ErrorCode.INVALID_REQUEST, "100% of %s, %(x)s", RemedyAudience.DEVELOPER)
    consent_page = consent(scopes=(ScopeLine("a", "use 50% of it"),))

    assert b"100% of %s, %(x)s" in render(problem, brand=Brand())
    assert b"use 50% of it" in render(consent_page, brand=Brand())


def test_policy_allows_only_own_stylesheet_images_and_forms() -> None:
    assert content_security_policy() == (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    )


@pytest.mark.parametrize(
    ("redirect_uri", "source"),
    [
        ("https://app.example/cb?x=1", "https://app.example"),
        ("https://app.example:8443/cb", "https://app.example:8443"),
        ("http://127.0.0.1:52011/cb", "http://127.0.0.1:52011"),
        ("https://app.example", "https://app.example"),
        ("com.example.app:/cb", "com.example.app:"),
        ("http://[::1]:8080/cb", "http:"),
    ],
)
def test_policy_allows_the_redirect_uri_as_form_target(redirect_uri: str, source: str) -> None:
    policy = content_security_policy(returns_to=redirect_uri)

    assert f"; form-action 'self' {source};" in policy


@pytest.mark.parametrize(
    "text",
    [
        "https://app.example; script-src *",
        "https://app.example\nx: y",
        "javascript:alert(1) 'unsafe-inline'",
        "*",
        "",
    ],
)
def test_redirect_uri_cannot_inject_policy_directives(text: str) -> None:
    policy = content_security_policy(returns_to=text)

    assert len(policy.split("; ")) == 6
    assert "*" not in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert "\n" not in policy


@pytest.mark.parametrize(
    "address", ["https://acme.example/logo.svg", "//acme.example/logo.svg", "/\\acme.example/a"]
)
def test_logo_of_another_server_is_not_shown(address: str) -> None:
    reading = Reading(render(consent(HOSTILE), brand=Brand(logo_url=address)))

    assert [image.attributes["class"] for image in reading.all("img")] == ["brand-icon"]


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://app.example/privacy?x=1#y", True),
        ("http://app.example/", False),
        ("https://app.example\\@evil.example/", False),
        ("https://app.example/'><script>", False),
        ("https://user@app.example/", False),
        ("javascript:alert(1)", False),
        (" https://app.example/", False),
    ],
)
def test_only_https_addresses_are_linked(address: str, kept: bool) -> None:
    assert https_only(address) == (address if kept else "")


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("/", True),
        ("/legal/terms", True),
        ("https://acme.example/terms", True),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("/a b", False),
        ("terms", False),
    ],
)
def test_links_of_the_operator_may_be_paths(address: str, kept: bool) -> None:
    assert https_or_own(address) == (address if kept else "")


def test_page_leaves_out_links_and_logos_that_are_not_https() -> None:
    reading = Reading(render(consent(HOSTILE), brand=Brand()))

    assert not [a for a in reading.all("a") if "evil" in a.attributes["href"]]
    assert [image.attributes["class"] for image in reading.all("img")] == ["brand-icon"]


def test_page_links_to_privacy_policy_and_terms_of_the_app() -> None:
    reading = Reading(render(consent(), brand=Brand()))

    assert reading.links() == [PRINTER.policy_url, PRINTER.terms_url]


@pytest.mark.parametrize(
    ("name", "letter"),
    [("notes", "N"), ("  «x»", "X"), ("ßig", "S"), ("طابعة", "ط"), ("\u202e!", "·"), ("", "·")],
)
def test_initial_is_the_first_letter_of_the_app_name(name: str, letter: str) -> None:
    assert initial(name) == letter


def test_documentation_link_is_inherited_from_the_parent_page() -> None:
    pages = AREAS["admin"]
    menu = Menu(pages)
    named = {page.path: menu.navigation(page).docs for page in pages}
    assert named["/admin/keys"] == "how-to/operate/rotate-keys.html"
    assert named["/admin/clients/{client_id}"] == "how-to/apps/register-a-client.html"
    assert named["/admin/users"] == named["/admin"] == "how-to/operate/run-it-with-a-team.html"
    assert menu.navigation().docs == ""
