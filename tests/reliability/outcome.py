"""What an experiment found, as one row of a table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment: its name, what was promised, what was counted, whether it held."""

    name: str
    promise: str
    counts: str
    held: bool
