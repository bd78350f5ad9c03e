"""The table of checks: what the checks of the database find, and that every row is complete."""

import re
from pathlib import Path

from tests.authorization.actions.admin.test_owner import there
from tests.support.conditions import CHECKS, CONDITIONS
from tests.support.harness import ADA, NOON, Harness, run
from valetkey.authorization.actions.inspection.check import Condition, Installation, Level
from valetkey.authorization.actions.inspection.inspector import in_database
from valetkey.authorization.actions.inspection.queues import mail
from valetkey.authorization.model.user import Role

ROOT = Path(__file__).parents[4]


async def _found(it: Harness) -> dict[str, Level]:
    installation = Installation(
        it.settings, it.foundation.keyring, it.foundation.roles, it.clock.now
    )
    findings = await it.read(lambda tx: in_database(tx, installation))
    return {
        finding.condition.name: finding.level
        for finding in findings
        if finding.level is not Level.OK
    }


def test_every_row_has_a_unique_name_and_advice() -> None:
    names = [condition.name for condition in (*CONDITIONS, *CHECKS)]
    rows = [condition.name for condition in CONDITIONS]
    assert len(set(rows)) == len(rows)
    assert len(names) > len(rows)
    for row in CONDITIONS:
        assert row.level is Level.OK or row.fix or row.command, row.name
        if row.level is not Level.OK and row.name != "more":
            assert (ROOT / f"docs/{row.page}.md").is_file(), row.name
        # Whatever has a place in the advice has it from the same values.
        _filled(row)


def _filled(row: Condition) -> None:
    texts = (row.about, row.text, row.fix, row.command)
    values = {name: "x" for text in texts for name in re.findall(r"%\((\w+)\)s", text)}
    finding = row.finding(**values)
    assert "%(" not in finding.about + finding.sentence + finding.fix + finding.command


def test_single_owner_without_a_second_factor_is_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert (await mail(it.settings)).condition.name == "mail_off"
        before = await _found(it)
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.OWNER, NOON))
        after = await _found(it)
        assert {name: after[name] for name in after.keys() - before.keys()} == {
            "one_owner": Level.WARNING,
            "unprotected": Level.WARNING,
        }
        await there(it, ADA)
        assert (await _found(it)).keys() - before.keys() == {"one_owner"}

    run(tmp_path, story)


def test_missing_signing_keys_are_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert not {"no_key", "no_next_key"} & (await _found(it)).keys()
        await it.write(
            lambda tx: tx.db.run("DELETE FROM signing_keys WHERE activates_at > 1800000000")
        )
        assert (await _found(it))["no_next_key"] is Level.WARNING
        await it.write(lambda tx: tx.db.run("UPDATE signing_keys SET activates_at = 1900000000"))
        assert (await _found(it))["no_key"] is Level.ERROR
        # As before the first start: nothing is wrong.
        await it.write(lambda tx: tx.db.run("DELETE FROM signing_keys"))
        levels = await _found(it)
        assert (levels["first_keys"], "no_key" in levels) == (Level.WARNING, False)

    run(tmp_path, story)


def test_many_risky_clients_are_counted_not_listed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.write(
            lambda tx: tx.db.run(
                "UPDATE clients SET redirect_uris = :uris",
                uris=str([f"https://app.example/{n}?code=1" for n in range(40)]).replace("'", '"'),
            )
        )
        installation = Installation(
            it.settings, it.foundation.keyring, it.foundation.roles, it.clock.now
        )
        findings = await it.read(lambda tx: in_database(tx, installation))
        assert sum(finding.condition.name == "redirect_uri" for finding in findings) == 20
        assert sum(finding.condition.name == "more" for finding in findings) == 1

    run(tmp_path, story)
