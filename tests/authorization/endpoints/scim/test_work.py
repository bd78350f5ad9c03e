"""Doubling the input of a request at most doubles the instructions that are executed for it."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.authorization.endpoints.scim.directory import Directory, tell
from valetkey.authorization.scim.endpoints import resources
from valetkey.authorization.scim.endpoints.filter import (
    PATCH_COMPARISONS,
    apply,
    matches,
    parse_filter,
    read_changes,
)
from valetkey.authorization.scim.endpoints.message import Answer, Caller, ScimRequest
from valetkey.authorization.scim.endpoints.schema import GROUP, USER, LeftOut, Resource
from valetkey.kernel.refusal import Refused

_PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_BULK = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
_SLACK = 2.2
"""Twice, and what sorting adds."""


def _work(run: Callable[[Any], object], body: object) -> int:
    """Count the instructions that Python executes to run this on the body."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(body)
    finally:
        sys.settrace(before)
    return count


def _chain(operations: int, texts: int) -> object:
    """Return a bulk request in which each operation waits for the one listed after it."""
    data = {"members": [""] * texts}
    listed = [
        {
            "method": "POST",
            "path": "/Groups",
            "bulkId": f"b{at}",
            "data": {**data, "next": f"bulkId:b{at + 1}" if at + 1 < operations else ""},
        }
        for at in range(operations)
    ]
    return {"schemas": [_BULK], "Operations": listed}


def _bulk(body: object) -> None:
    async def perform(method: str, plural: str, id: str, request: ScimRequest) -> Answer:
        del method, id, request
        return Answer(201, None, {"location": f"https://login.example/scim/v2/{plural}/7"})

    caller = cast("Caller", SimpleNamespace(base="https://login.example/scim/v2"))
    work = resources.run_bulk(ScimRequest(caller, body=body), perform)
    with pytest.raises(StopIteration):
        work.send(None)


def _removals(operations: int, comparisons: int, values: int) -> object:
    """Return a PATCH request that adds values and removes some of them by a filter, often."""
    condition = " or ".join([f'value eq "{"x" * 20}"'] * comparisons)
    added = [{"value": f"v{at}@example.com"} for at in range(values)]
    add = {"op": "add", "path": "emails", "value": added}
    remove = {"op": "remove", "path": f"emails[{condition}]"}
    return {"schemas": [_PATCH], "Operations": [add, *[remove] * operations]}


def _patch(body: object) -> None:
    left = LeftOut()
    before: Resource = {"userName": "grace", "emails": [{"value": "grace@example.com"}]}
    apply(before, read_changes(body, USER, left), left)


@settings(max_examples=8, deadline=None)
@given(st.integers(3, 20), st.integers(3, 60))
def test_work_for_a_bulk_request_grows_linearly(operations: int, texts: int) -> None:
    once = _work(_bulk, _chain(operations, texts))
    assert _work(_bulk, _chain(2 * operations, texts)) <= _SLACK * once
    assert _work(_bulk, _chain(operations, 2 * texts)) <= _SLACK * once


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 20), st.integers(2, 10), st.integers(10, 40))
def test_work_for_a_patch_with_filters_grows_linearly(
    operations: int, comparisons: int, values: int
) -> None:
    once = _work(_patch, _removals(operations, comparisons, values))
    twice = (
        (2 * operations, comparisons, values),
        (operations, 2 * comparisons, values),
        (operations, comparisons, 2 * values),
        (2 * operations, comparisons, 2 * values),
    )
    for sizes in twice:
        assert _work(_patch, _removals(*sizes)) <= _SLACK * once, sizes


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 10))
def test_work_for_a_filter_grows_linearly(comparisons: int) -> None:
    def work(number: int) -> int:
        text = " or ".join([f'userName eq "{"x" * 20}"'] * number)
        return _work(lambda text: matches(parse_filter(text, USER), {"userName": "grace"}), text)

    assert work(2 * comparisons) <= _SLACK * work(comparisons)


def test_comparisons_of_one_request_are_bounded() -> None:
    per_path = 20
    body = _removals(PATCH_COMPARISONS // per_path + 1, per_path, 1)
    for schema in (USER, GROUP):
        if schema is GROUP:
            for operation in body["Operations"]:  # type: ignore[index]
                operation["path"] = operation["path"].replace("emails", "members")
        with pytest.raises(Refused, match="comparisons"):
            read_changes(body, schema, LeftOut())


def test_largest_requests_are_answered(tmp_path: Path, database_url: str) -> None:
    async def story(it: Directory) -> None:
        body: Any = _chain(100, 2_400)
        answer = await it.call("POST", "/Bulk", body)
        assert len(answer.json["Operations"]) == 100
        made = await it.user()
        path = f"/Users/{made['id']}"
        (await it.call("PATCH", path, _removals(950, 20, 80))).refused(400, "tooMany")
        assert (await it.call("PATCH", path, _removals(100, 20, 80))).status == 200
        # Groups are found by many members at once, without one look-up for each pair.
        ids = [(await it.user(f"m{number}@example.com"))["id"] for number in range(20)]
        await it.group("One", *ids)
        condition = " or ".join(f'members.value eq "{user_id}"' for user_id in ids)
        assert len(await it.find("Groups", condition)) == 1

    asyncio.run(tell(tmp_path, database_url, story))


def test_operations_of_a_bulk_request_keep_their_order() -> None:
    def order(*named: tuple[str, str]) -> str:
        listed = [
            resources.Operation("POST", "/Users", name, references=frozenset(references))
            for name, references in named
        ]
        return "".join(operation.bulk_id for operation in resources.in_order(listed))

    assert order(("a", ""), ("b", ""), ("c", "")) == "abc"
    assert order(("a", "c"), ("b", ""), ("c", "")) == "bca"
    assert order(("a", "b"), ("b", "c"), ("c", "")) == "cba"
    # Circles and unknown references do not stop the others.
    assert order(("a", "b"), ("b", "a"), ("c", "")) == "cab"
    assert order(("a", "a"), ("b", "x")) == "ba"
