"""Attributes of accounts: declared, set, bounded."""

from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.attributes import change_attributes
from valetkey.authorization.claims.rules import declare_attribute
from valetkey.authorization.model.user import MOST_ATTRIBUTES, Attribute, User
from valetkey.authorization.storage.transaction import Transaction

_OF_ADA = f"/users/{ADA}/attributes"


def test_attributes_are_declared_set_and_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        schema = {"type": "string", "maxLength": 8}
        for changed in (True, False):
            sent = {"label": "Team", "schema": schema}
            answer = await owner.call("PUT", "/attributes/team", sent)
            assert answer.json == {"changed": changed}
        wrong: tuple[tuple[str, dict[str, object], str], ...] = (
            ("1x", {}, "name"),
            ("id", {}, "schema"),
            ("x", {"schema": {"type": "text"}}, "schema"),
            ("x", {"schema": {"pattern": "("}}, "schema"),
            ("x", {"schema": {"enum": ["a" * 5_000]}}, "schema"),
            ("x", {"schema": {"type": "object"}, "editable": True}, "editable"),
        )
        for name, body, field in wrong:
            answer = await owner.call("PUT", f"/attributes/{name}", body)
            assert (answer.status, field in answer.body.decode()) == (400, True), answer.body
        (team,) = (await owner.call("GET", "/attributes")).items
        assert (team["name"], team["schema"], team["editable"]) == ("team", schema, False)
        for values in ({"team": 7}, {"team": "too long for it"}, {"color": "red"}):
            answer = await owner.call("PATCH", _OF_ADA, {"attributes": values})
            assert answer.status == 400, answer.body
        assert (await owner.call("GET", _OF_ADA)).json == {"attributes": {}}
        for changed in (True, False):
            answer = await owner.call("PATCH", _OF_ADA, {"attributes": {"team": "ops"}})
            assert answer.json == {"changed": changed}
        assert (await owner.call("GET", _OF_ADA)).json == {"attributes": {"team": "ops"}}
        assert (await owner.call("DELETE", "/attributes/team")).json == {"changed": True}
        assert (await owner.call("DELETE", "/attributes/team")).status == 404
        assert (await owner.call("GET", _OF_ADA)).json == {"attributes": {}}
        # Declared again, its values are there again; null removes them.
        assert (await owner.call("PUT", "/attributes/team", {})).json == {"changed": True}
        assert (await owner.call("GET", _OF_ADA)).json == {"attributes": {"team": "ops"}}
        # What a reader of tokens would refuse is refused here.
        for value in (2**53, -(10**400), [[[[[[[1]]]]]]]):
            answer = await owner.call("PATCH", _OF_ADA, {"attributes": {"team": value}})
            assert answer.status == 400, answer.body
        await owner.call("PATCH", _OF_ADA, {"attributes": {"team": None}})
        assert (await owner.call("GET", _OF_ADA)).json == {"attributes": {}}

    run(tmp_path, story, database=database_url)


def test_integer_attribute_written_as_a_fraction_is_an_integer(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("PUT", "/attributes/floor", {"schema": {"type": "integer"}})
        await owner.call("PATCH", _OF_ADA, {"attributes": {"floor": 3.0}})
        assert (await owner.call("GET", _OF_ADA)).body == b'{"attributes":{"floor":3}}'
        # 2.0**53 is an integer that readers of tokens refuse.
        for value in (1.5, 1e17, 2.0**53):
            answer = await owner.call("PATCH", _OF_ADA, {"attributes": {"floor": value}})
            assert answer.status == 400, value

    run(tmp_path, story)


def test_attributes_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def fill(tx: Transaction) -> None:
            for number in range(MOST_ATTRIBUTES):
                assert declare_attribute(tx, Attribute(f"a{number}"), now) is True
            refused = declare_attribute(tx, Attribute("more"), now)
            assert isinstance(refused, tuple)
            user = tx.users.find_to_change(ADA)
            assert user is not None
            values = {f"a{number}": "x" * 120 for number in range(MOST_ATTRIBUTES)}
            assert isinstance(change_attributes(tx, user, values, now), tuple)
            values.pop("a0")
            values = {name: text[:100] for name, text in values.items()}
            assert isinstance(change_attributes(tx, user, values, now), User)

        await it.write(fill)

    run(tmp_path, story)
