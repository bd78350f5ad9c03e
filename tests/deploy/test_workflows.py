"""The hosted workflows: each file is read as one, and every step does something."""

from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_has_steps_that_run_or_use_something(path: Path) -> None:
    jobs: Any = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert jobs
    for name, job in jobs.items():
        assert job["steps"], name
        assert all(("run" in step) != ("uses" in step) for step in job["steps"]), name
