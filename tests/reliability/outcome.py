"""What an experiment found, as one row of a table."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment: its name, what was promised, what was counted, whether it held."""

    name: str
    promise: str
    counts: str
    held: bool


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of them lies; 0 of none."""
    return sorted(values)[int(len(values) * share)] if values else 0.0
