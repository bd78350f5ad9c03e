"""The page on performance and its plot say what the committed results say."""

from xml.etree import ElementTree as ET

from bench.peers.compare import Figures
from bench.peers.hydra_peer import NAME as HYDRA
from bench.peers.keycloak_peer import NAME as KEYCLOAK
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.results import page, plot, targets


def test_the_page_and_the_plot_are_written_from_the_committed_results() -> None:
    stale = [path.name for path, text in page.written().items() if path.read_text() != text]
    assert not stale, "run `python -m bench.results.page`"


def test_every_figure_comes_from_three_rounds_or_more() -> None:
    results = page.read()
    assert results.rounds >= 3
    assert all(
        len(rounds) == results.rounds
        for servers in results.figures.rates.values()
        for rounds in servers.values()
    )


def test_bars_of_the_plot_have_a_logarithmic_scale() -> None:
    drawn = ET.fromstring(plot.draw({"work": [("ours", 100.0), ("theirs", 1_000.0)]}, ("ours",)))
    bars = [
        float(rectangle.attrib["width"])
        for rectangle in drawn.iter("{http://www.w3.org/2000/svg}rect")
        if rectangle.find("{http://www.w3.org/2000/svg}title") is not None
    ]
    assert len(bars) == 2
    assert abs(bars[1] - 2 * bars[0]) < 0.5


def test_rate_that_falls_in_every_round_is_reported() -> None:
    rates = {
        "refresh": {
            "falls": [100.0, 94.0, 89.0],
            "falls a little": [100.0, 96.0, 91.0],
            "falls and rises": [100.0, 80.0, 85.0],
        }
    }
    lines = Figures(rates, {}, {}, {}, []).falling()
    assert lines == ["Falling over the rounds: falls, refresh: 100, 94, 89"]


def test_target_is_met_only_at_its_ratio_or_above() -> None:
    rates = {
        "client credentials, JWT": {
            ON_SQLITE: [199.0] * 3,
            ON_POSTGRESQL: [120.0] * 3,
            targets.NODE: [100.0] * 3,
            HYDRA: [31.0] * 3,
            KEYCLOAK: [30.0] * 3,
        }
    }
    results = [
        (target.target, target.met) for target in targets.targets(Figures(rates, {}, {}, {}, []))
    ]
    assert results[:3] == [
        (f"2 times the best, {targets.NODE}", False),
        (f"4 times {HYDRA}", False),
        (f"4 times {KEYCLOAK}", True),
    ]
