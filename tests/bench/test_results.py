"""The page on performance and its plot say what the committed results say."""

from xml.etree import ElementTree as ET

from bench.results import page, plot


def test_the_page_and_the_plot_are_written_from_the_committed_results() -> None:
    stale = [path.name for path, text in page.written().items() if path.read_text() != text]
    assert not stale, "run `python -m bench.results.page`"


def test_every_figure_of_the_page_comes_from_three_rounds_or_more() -> None:
    results = page.read()
    assert results.rounds >= 3
    assert all(
        len(rounds) == results.rounds
        for servers in results.figures.rates.values()
        for rounds in servers.values()
    )


def test_a_figure_ten_times_as_large_is_a_decade_further_to_the_right() -> None:
    drawn = ET.fromstring(plot.draw({"work": [("ours", 100.0), ("theirs", 1_000.0)]}, ("ours",)))
    bars = [
        float(each.attrib["width"])
        for each in drawn.iter("{http://www.w3.org/2000/svg}rect")
        if each.find("{http://www.w3.org/2000/svg}title") is not None
    ]
    assert len(bars) == 2
    assert abs(bars[1] - 2 * bars[0]) < 0.5
