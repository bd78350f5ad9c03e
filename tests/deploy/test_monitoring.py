"""Alerts, their pages and the dashboard name what exists; alerts fire when they should."""

import ast
import json
import re
import subprocess

import pytest

from tests.architecture.tree import ROOT
from valetkey.kernel.metrics import CATALOGUE, PREFIX, Histogram

RULES = ROOT / "deploy/prometheus/alerts.yml"
CASES = ROOT / "deploy/prometheus/alerts.test.yml"
DASHBOARD = ROOT / "deploy/grafana/valetkey.json"
PAGES = ROOT / "docs/how-to/operate/alerts"
LOG = ROOT / "docs/reference/log.md"
_EVENT = r"[a-z_]+\.[a-z_]+"
_ALERT = re.compile(r"Valetkey[A-Z]\w+")
LABELS = {"server", "worker", "instance", "le"}


def _series() -> dict[str, set[str]]:
    """Every series there can be, with its labels."""
    series: dict[str, set[str]] = {}
    for metric in CATALOGUE.values():
        ends = {"counter": ("_total",), "gauge": ("",)}.get(metric.kind)
        for end in ends or ("_bucket", "_count", "_sum"):
            series[f"{PREFIX}{metric.name}{end}"] = {*metric.labels, *LABELS}
        assert (metric.kind == "histogram") is isinstance(metric, Histogram)
    return series


def _expressions() -> list[str]:
    board = json.loads(DASHBOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    alerts = re.findall(r"expr: >-\n +(.*)", RULES.read_text())
    assert len(shown) > 20
    assert len(alerts) > 10
    return [*shown, *alerts]


def test_every_queried_metric_and_label_exists() -> None:
    series = _series()
    for expression in _expressions():
        names = set(re.findall(rf"\b{PREFIX}\w+", expression))
        assert names <= series.keys(), expression
        labels = set(re.findall(r"[{,] *(\w+)(?:=|!=|=~)\"", expression))
        for listed in re.findall(r"\bby \(([^)]*)\)", expression):
            labels |= {label.strip() for label in listed.split(",")}
        allowed = {"job"}.union(*(series[name] for name in names))
        assert labels <= allowed, expression


def test_pages_name_metrics_that_exist() -> None:
    families = {PREFIX + name for name in CATALOGUE} | _series().keys()
    for page in PAGES.iterdir():
        assert set(re.findall(rf"\b{PREFIX}\w+", page.read_text())) <= families, page.name


def _logged() -> set[str]:
    """The events that are logged as a warning or an error somewhere."""
    events: set[str] = set()
    for file in (ROOT / "src/valetkey").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                level = ast.unparse(node.func).removeprefix("log.")
                values = [
                    str(argument.value)
                    for argument in node.args
                    if isinstance(argument, ast.Constant)
                ]
                if level in {"warning", "error"} or (level == "throttled" and "info" not in values):
                    events |= {value for value in values if re.fullmatch(_EVENT, value)}
    return events


def test_guide_lists_every_event_that_is_a_warning_or_an_error() -> None:
    logged = _logged()
    assert len(logged) > 20
    assert sorted(event for event in logged if f"`{event}`" not in LOG.read_text()) == []


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    rules = RULES.read_text()
    named = re.findall(r"- alert: (\w+)(?:.*\n)*?.*runbook_url: .*(docs/\S+\.md)", rules)
    assert len(named) == rules.count("- alert: ")
    assert {ROOT / page for _, page in named} == set(PAGES.iterdir())
    for alert, page in named:
        assert (ROOT / page).read_text().startswith(f"# {alert}\n")
        assert f"}}}}{page.removeprefix('docs/').removesuffix('.md')}.html{{{{" in rules
        assert CASES.read_text().count(f"alertname: {alert}\n") >= 2
    described = json.loads(DASHBOARD.read_text())["panels"]
    shown = {name for panel in described for name in _ALERT.findall(panel.get("description", ""))}
    assert shown <= {alert for alert, _ in named}
    assert len(shown) > 10


@pytest.mark.parametrize("said", [("check", "rules", RULES), ("test", "rules", CASES)])
def test_prometheus_takes_the_rules_and_they_fire_when_they_should(said: tuple[object]) -> None:
    done = subprocess.run(
        ["promtool", *map(str, said)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
