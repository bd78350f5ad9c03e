"""The environment of this process, read here and nowhere else."""

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """Return a copy of the environment."""
    return dict(os.environ)
