"""The parts that every page may use."""

import pytest

from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.contexts import Chart, chosen_range, ranges
from valetkey.authorization.layout.language import ENGLISH, GERMAN
from valetkey.authorization.layout.render import environment_of


def _rendered(source: str, **variables: object) -> str:
    start = '{% import "layout/components.html" as parts with context %}'
    return environment_of(ENGLISH).from_string(start + source).render(variables)


def _read(source: str, **variables: object) -> Reading:
    return Reading(_rendered(source, **variables).encode())


def test_field_is_associated_with_its_label_hint_and_error() -> None:
    page = _read(
        "{{ parts.field('client_name', 'Name', '<b>', hint='Short', fault='Too long',"
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
    entry = _read("{{ parts.field('secret', 'S', 'hunter2', type='password') }}").the("input")

    assert "value" not in entry.attributes
    assert "aria-describedby" not in entry.attributes


def test_textarea_escapes_markup_and_keeps_line_breaks() -> None:
    page = _read("{{ parts.lines('uris', 'U', value) }}", value="a\n</textarea>b")

    assert "".join(page.the("textarea").texts) == "a\n</textarea>b"


def test_select_marks_the_chosen_option() -> None:
    page = _read("{{ parts.select('type', 'T', (('a', 'A'), ('b', 'B')), 'b') }}")

    assert [o.attributes for o in page.all("option")] == [
        {"value": "a"},
        {"value": "b", "selected": ""},
    ]


def test_checkbox_is_associated_with_its_label() -> None:
    page = _read("{{ parts.choice('checkbox', 'scope', 'notes:read', 'Read', true) }}")

    assert page.the("input").attributes["id"] == "scope-notes-read"
    assert "checked" in page.the("input").attributes
    assert page.the("label").text == "Read"


def test_chart_has_axes_and_states_each_value() -> None:
    days = Chart(["2026-11-20", "2026-11-21"], [1_200, 0])
    page = _read("{{ parts.chart(days, 'Tokens') }}", days=days)
    figure, (axis, _, bars) = page.the("figure"), page.all("path", "rect")

    assert figure.attributes["data-points"] == "20 Nov 2026: 1,200\n21 Nov 2026: 0"
    assert [span.text for span in page.all("span")] == [
        "2,000", "1,000", "0", "20 Nov 2026", "21 Nov 2026",
    ]  # fmt: skip
    assert page.the("svg").attributes["aria-label"] == "Tokens"
    assert axis.attributes["d"] == "M0 0H20M0 50H20"
    assert bars.attributes["d"] == "M1 100v-60h8V100z"


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, (1, 0)), (1, (1, 0)), (2, (2, 1, 0)), (3, (4, 2, 0)), (7, (10, 5, 0)),
        (10, (10, 5, 0)), (11, (20, 10, 0)), (99, (100, 50, 0)), (613, (1_000, 500, 0)),
    ],
)  # fmt: skip
def test_chart_axis_ends_at_a_round_number(most: int, ticks: tuple[int, ...]) -> None:
    assert Chart(["10:00"], [most]).ticks == ticks


def test_unknown_range_is_replaced_by_the_default() -> None:
    texts = ("7", "365", "8", "-7", None)
    assert [chosen_range(text, 30) for text in texts] == [7, 365, 30, 30, 30]
    assert [chosen_range(text, 30, (1, 30)) for text in ("1", "7")] == [1, 30]
    assert [(choice.days, choice.url) for choice in ranges("/u", 7, (7, 30, 90))] == [
        (7, "/u?days=7"), (30, "/u?days=30"), (90, "/u?days=90"),
    ]  # fmt: skip


def test_kinds_of_callouts_have_their_roles() -> None:
    source = "{% call parts.callout(kind) %}<p>Done.</p>{% endcall %}"
    roles = {
        kind: _read(source, kind=kind).elements[0].attributes.get("role")
        for kind in ("note", "alarm", "done")
    }

    assert roles == {"note": None, "alarm": "alert", "done": "status"}


def test_remaining_macros_show_their_arguments() -> None:
    assert "badge good" in _rendered("{{ parts.badge('Verified', 'good') }}")
    assert _read("{% call parts.empty('None') %}<p>x</p>{% endcall %}").the("h2").text == "None"
    assert _read("{{ parts.copy('id', '<x>', 'Copy it') }}").by_id("id").text == "<x>"
    assert _read("{{ parts.code('a < b', 'Example', 'c') }}").by_id("c").text == "a < b"
    assert [a.text for a in _read("{{ parts.pager('/n', '/o') }}").all("a")] == [
        "Newer",
        "Older",
    ]
    assert not _read("{{ parts.pager() }}").elements
    tabs = _read("{{ parts.tabs((('/a', 'A', true), ('/b', 'B', false)), 'App') }}")
    assert [a.attributes.get("aria-current") for a in tabs.all("a")] == ["page", None]
    assert _read("{{ parts.figures((('Users', '12'),)) }}").the("dd").text == "12"


def test_numbers_and_days_are_written_as_the_language_does() -> None:
    source = '{{ 1234567|number }} {{ "2026-03-02"|day }} {{ "2026-03-02 08:00:33 CET"|moment }}'

    written = environment_of(ENGLISH).from_string(source).render()
    assert written == "1,234,567 2 Mar 2026 2 Mar 2026, 08:00:33 CET"
    assert environment_of(GERMAN).from_string("{{ 1234567|number }}").render() == "1.234.567"


def test_a_template_has_its_translations_as_constants() -> None:
    sentence = "{% trans name=name %}Hello, <bdi>{{ name }}</bdi>{% endtrans %}"
    german = environment_of(GERMAN)

    compiled = german.compile(sentence + "{{ _('Verified') }}", raw=True)

    assert "Bestätigt" in compiled
    assert "gettext" not in compiled
    assert german.from_string(sentence).render(name="<b>") == "Hallo, <bdi>&lt;b&gt;</bdi>"


def test_only_macros_that_read_page_variables_are_run_for_each_page() -> None:
    source = """{%% import "%s" as parts with context %%}"""
    english = environment_of(ENGLISH)

    assert "make_module" not in english.compile(source % "layout/components.html", raw=True)
    assert "make_module" in english.compile(source % "account/parts.html", raw=True)
