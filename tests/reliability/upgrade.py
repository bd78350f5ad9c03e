"""E29: the next version and this one serve together, on tables that the next one expanded."""

import random
import shutil
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.reliability.changes import no_failure, wait_for_more
from tests.reliability.outcome import Outcome
from tests.reliability.pair import two_nodes
from valetkey.authorization.app.foundation import SCHEMA
from valetkey.database.migrate import find

EXPAND = """
CREATE TABLE next_{number} (id BIGINT PRIMARY KEY);
ALTER TABLE clients ADD COLUMN next_{number} TEXT;
ALTER TABLE access_tokens ADD COLUMN next_{number} TEXT NOT NULL DEFAULT '';
"""
_CONTRACT = "ALTER TABLE clients DROP COLUMN next_1;"


def rolling_upgrades(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Upgrade one node, then the other, under load; go back and forth between two versions.

    The next versions are this one with a migration more each. The last one contracts: a node of
    the version before refuses to start on its tables, and says what to do.
    """
    with two_nodes(folder) as (nodes, load):
        first, second = nodes
        for number in range(1, times + 1):
            before = first.source
            after = later_version(folder, number, f"before_next_{number}", EXPAND)
            # Upgrade one, roll it back, upgrade both.
            for node, source in ((first, after), (first, before), (first, after), (second, after)):
                wait_for_more(load)
                node.stop()
                node.source = source
                node.start()
        newest = first.source
        contracted = later_version(folder, times + 1, "contract", _CONTRACT)
        for node in nodes:
            wait_for_more(load)
            node.stop()
            node.source = contracted
            node.start()
        wait_for_more(load)
        first.stop()
        first.source = newest
        refused = first.refusal()
        wait_for_more(load)
    outcome = no_failure(
        "E29 rolling upgrades, two versions at once",
        f"{times} upgrades and roll-backs of two nodes, a downgrade past a contraction refused",
        load,
    )
    held = outcome.held and "newer software" in refused and "valetkey database restore" in refused
    return Outcome(outcome.name, outcome.promise, outcome.counts, held)


def later_version(folder: Path, number: int, name: str, script: str) -> Path:
    """The source of a later version: all migrations of those before, and one more."""
    newest = find(SCHEMA)[-1].number
    source, before = folder / f"version-{number}", folder / f"version-{number - 1}"
    shutil.copytree(before if before.exists() else ROOT / "src", source)
    schema = source / "valetkey/authorization/storage/schema"
    file = schema / f"{newest + number:04}_{name}.sql"
    file.write_text(script.format(number=number))
    return source
