"""Prometheus scrapes a real server, evaluates the alerts, and finds data for every panel."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import requests

from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.cli.running import valetkey
from tests.deploy.prometheus import asked, prometheus
from tests.reliability.acknowledged.journal import acting, clients, wait_for_actions
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.support.wait import CEILING, wait_until

RULES = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = ROOT / "deploy/grafana/valetkey.json"
_WINDOW = "10s"
_ACTIONS = 30
# Panels whose series exist only after the fault that they are for, or with a setting that this
# server does not have.
_QUIET = {
    "Answers 503 by failure",
    "Turned away",
    "Failed transactions and jobs",
    "Queues",
    "Certificate expires in",
    "Clock steps",
    "Failed exports of the audit log",
    "Spans exported and dropped",
}


def _panels() -> Mapping[str, list[str]]:
    board = json.loads(DASHBOARD.read_text())
    return {
        panel["title"]: [target["expr"] for target in panel["targets"]] for panel in board["panels"]
    }


def _shows(api: str, expression: str) -> bool:
    query = urlencode({"query": expression.replace("$__rate_interval", _WINDOW)})
    samples = asked(f"{api}/query?{query}")["result"]
    return any(sample["value"][1] != "NaN" for sample in samples)


def test_every_panel_shows_data_and_every_rule_is_evaluated(
    postgres_url: str, tmp_path: Path
) -> None:
    address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    more = (
        f'[metrics]\nlisten = "{metrics}"\n[fetch]\nallow = ["127.0.0.0/8"]\n'
        f'[mail]\nhost = "127.0.0.1"\nport = {free_port()}\ntls = "none"\n'
        'from_address = "login@auth.example"\n'
        '[audit]\nexport = ["file:audit.jsonl"]\n'
    )
    node = Node(tmp_path / "node")
    configure(node.here, url=f"http://{address}", listen=address, database=postgres_url, more=more)
    register(node.here, rotates=True)
    hook = f"http://127.0.0.1:{free_port()}/"
    assert valetkey("webhook", "create", hook, "--json", here=node.here).code == 0
    assert valetkey("user", "send-reset", "ada", "--json", here=node.here).code == 0
    with (
        stopped_in_the_end(node),
        prometheus(tmp_path / "prometheus", metrics, RULES.read_text()) as api,
    ):
        node.start()
        these = clients(f"http://{address}")
        with acting(these):
            wait_for_actions(these, _ACTIONS)
            assert (
                requests.post(f"http://{address}/oauth/token", timeout=CEILING).status_code == 400
            )
            silent = set(_panels())

            def all_shown() -> bool:
                for title in list(silent - _QUIET):
                    if all(_shows(api, expression) for expression in _panels()[title]):
                        silent.discard(title)
                return silent <= _QUIET

            try:
                wait_until(all_shown)
            except AssertionError:
                raise AssertionError(sorted(silent - _QUIET)) from None
        groups = asked(f"{api}/rules")["groups"]
        rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
        assert len(rules) == len(re.findall(r"- alert: ", RULES.read_text()))
        assert {name for name, rule in rules.items() if rule["health"] != "ok"} == set()
        for title in _QUIET:
            for expression in _panels()[title]:
                _shows(api, expression)
