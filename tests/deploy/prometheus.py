"""A Prometheus that scrapes one server every two seconds."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from bench.ports import free_port
from tests.support.wait import CEILING, wait_until


@contextmanager
def prometheus(folder: Path, target: str, rules: str) -> Generator[str]:
    """Run Prometheus, which scrapes `target` and has these rules; the URL of its API."""
    folder.mkdir()
    (folder / "alerts.yml").write_text(rules)
    config, address = folder / "prometheus.yml", f"127.0.0.1:{free_port()}"
    every = {"scrape_interval": "2s", "evaluation_interval": "1s"}
    scraped = [{"job_name": "valetkey", "static_configs": [{"targets": [target]}]}]
    # JSON is YAML.
    config.write_text(
        json.dumps({"global": every, "rule_files": ["alerts.yml"], "scrape_configs": scraped})
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: process.poll() is not None or _listens(address))
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait(CEILING)


def _listens(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/-/ready", timeout=CEILING).status_code == 200
    except requests.ConnectionError:
        return False


def asked(url: str) -> Any:
    """Return the data of an answer."""
    answer = requests.get(url, timeout=CEILING)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]
