"""The environment of this process, read here and nowhere else."""

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """A copy of it, as it is now."""
    return dict(os.environ)
