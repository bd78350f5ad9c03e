"""The guard: a share that is low three times has fallen, one that was low once has not."""

from collections.abc import Sequence

import pytest

from bench.peers.ceiling import NAME as CEILING
from bench.peers.compare import Figures
from bench.peers.own_peer import ON_SQLITE
from bench.results import quick


def _figures(**shares: float) -> Figures:
    rates = {
        workload: {ON_SQLITE: [100.0 * share] * 3, CEILING: [100.0] * 3}
        for workload, share in shares.items()
    }
    return Figures(rates, {}, {}, {}, [])


@pytest.mark.parametrize(("second", "code"), [(0.4, 1), (0.6, 0)])
def test_figure_below_the_limit_is_measured_again(
    second: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [_figures(token=0.4, keys=0.9), *[_figures(token=second)] * 2]
    measurements: list[Sequence[str]] = []

    def measure(workloads: Sequence[str]) -> Figures:
        measurements.append(workloads)
        return looks.pop(0)

    then = {"token": 0.6, "keys": 0.8}
    assert quick.judge(then, measure, ["token", "keys"]) == code
    assert measurements == [["token", "keys"], *[["token"]] * (2 if code else 1)]
    assert ("FELL" in capsys.readouterr().out) == bool(code)


def test_committed_figures_cover_every_workload() -> None:
    assert {"client credentials, JWT", "refresh with rotation", "JWKS"} <= quick.read().keys()
    assert all(share > 0 for share in quick.read().values())
