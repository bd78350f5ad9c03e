"""The parts that every page may use."""

from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.language import ENGLISH, GERMAN
from valetkey.authorization.layout.render import environment_of


def _rendered(source: str, **said: object) -> str:
    start = '{% import "layout/components.html" as looks with context %}'
    return environment_of(ENGLISH).from_string(start + source).render(said)


def _read(source: str, **said: object) -> Reading:
    return Reading(_rendered(source, **said).encode())


def test_a_field_has_its_label_its_hint_and_its_fault() -> None:
    page = _read(
        "{{ looks.field('client_name', 'Name', '<b>', hint='Short', fault='Too long',"
        " required=true, maxlength=80, autocomplete='', aria_label=none) }}"
    )

    entry = page.the("input").attributes

    assert entry["value"] == "<b>"
    assert entry["aria-describedby"] == "client-name-fault client-name-hint"
    assert entry["aria-invalid"] == "true"
    assert entry["maxlength"] == "80"
    assert entry["required"] == ""
    assert not {"autocomplete", "aria-label"} & set(entry)
    assert page.the("label").attributes["for"] == entry["id"] == "client-name"
    assert page.by_id("client-name-fault").text == "Too long"


def test_a_field_never_shows_a_password_again() -> None:
    entry = _read("{{ looks.field('secret', 'S', 'hunter2', type='password') }}").the("input")

    assert "value" not in entry.attributes
    assert "aria-describedby" not in entry.attributes


def test_what_was_written_into_lines_stays_as_it_is() -> None:
    page = _read("{{ looks.lines('uris', 'U', value) }}", value="a\n</textarea>b")

    assert "".join(page.the("textarea").texts) == "a\n</textarea>b"


def test_a_choice_of_many_keeps_what_was_chosen() -> None:
    page = _read("{{ looks.select('type', 'T', (('a', 'A'), ('b', 'B')), 'b') }}")

    assert [o.attributes for o in page.all("option")] == [
        {"value": "a"},
        {"value": "b", "selected": ""},
    ]


def test_a_box_is_hit_through_its_words() -> None:
    page = _read("{{ looks.choice('checkbox', 'scope', 'notes:read', 'Read', true) }}")

    assert page.the("input").attributes["id"] == "scope-notes-read"
    assert "checked" in page.the("input").attributes
    assert page.the("label").text == "Read"


def test_a_chart_says_each_value_and_stands_nothing_when_there_is_nothing() -> None:
    page = _read("{{ looks.bars((('Mon', 2), ('Tue', 4)), 'Tokens') }}")
    bars = list(page.all("rect"))

    assert [bar.attributes["height"] for bar in bars] == ["290", "580"]
    assert [bar.text for bar in bars] == ["Mon: 2", "Tue: 4"]
    assert page.the("svg").attributes["aria-label"] == "Tokens"
    assert not list(_read("{{ looks.bars((), 'Tokens') }}").all("rect"))
    zeros = _read("{{ looks.bars((('Mon', 0),), 'Tokens') }}").the("rect")
    assert zeros.attributes["height"] == "0"


def test_kinds_of_callouts_have_their_roles() -> None:
    said = "{% call looks.callout(kind) %}<p>Done.</p>{% endcall %}"
    roles = {
        kind: _read(said, kind=kind).elements[0].attributes.get("role")
        for kind in ("note", "alarm", "done")
    }

    assert roles == {"note": None, "alarm": "alert", "done": "status"}


def test_the_other_parts_say_what_they_were_given() -> None:
    assert "badge good" in _rendered("{{ looks.badge('Verified', 'good') }}")
    assert _read("{% call looks.empty('None') %}<p>x</p>{% endcall %}").the("h2").text == "None"
    assert _read("{{ looks.copy('id', '<x>', 'Copy it') }}").by_id("id").text == "<x>"
    assert _read("{{ looks.code('a < b', 'Example', 'c') }}").by_id("c").text == "a < b"
    assert [a.text for a in _read("{{ looks.pager('/n', '/o') }}").all("a")] == ["Newer", "Older"]
    assert not _read("{{ looks.pager() }}").elements
    tabs = _read("{{ looks.tabs((('/a', 'A', true), ('/b', 'B', false)), 'App') }}")
    assert [a.attributes.get("aria-current") for a in tabs.all("a")] == ["page", None]
    assert _read("{{ looks.figures((('Users', '12'),)) }}").the("dd").text == "12"


def test_numbers_and_days_are_written_as_the_language_does() -> None:
    source = '{{ 1234567|number }} {{ "2026-03-02"|day }}'

    assert environment_of(ENGLISH).from_string(source).render() == "1,234,567 2 Mar 2026"
    assert environment_of(GERMAN).from_string("{{ 1234567|number }}").render() == "1.234.567"
