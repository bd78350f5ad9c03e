"""What standard error tells, and what it never does."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.web import NOW, ask, echo, refuse, small_app
from valetkey.database.decisions import DecisionQueue
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret
from valetkey.resource.problem import Problems
from valetkey.sdk.caller import Challenge
from valetkey.web import log
from valetkey.web.exchange import Request, Response
from valetkey.web.router import Route


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    yield
    log.set_up("warning", "json")


def told_at(level: str, style: str = "json") -> io.StringIO:
    stream = io.StringIO()
    log.set_up(level, style, stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_has_a_time_a_level_a_name_and_its_fields() -> None:
    stream = told_at("info")
    log.info("key.rotated", kid="k1", seconds=3)
    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {"level": "info", "event": "key.rotated", "kid": "k1", "seconds": 3}


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
    ],
)
def test_events_below_the_level_are_not_logged(level: str, events: list[str]) -> None:
    stream = told_at(level)
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [line["event"] for line in lines(stream)] == events


def test_text_format_writes_event_and_fields() -> None:
    stream = told_at("info", "text")
    log.info("key.rotated", kid="k1")
    assert "key.rotated" in stream.getvalue()
    assert "kid=k1" in stream.getvalue()


def test_auto_is_json_without_a_terminal() -> None:
    stream = told_at("info", "auto")
    log.info("a")
    assert lines(stream)[0]["event"] == "a"


def test_a_failure_shows_its_type_and_place_but_not_its_message() -> None:
    stream = told_at("debug")
    try:
        secret = "canary"
        raise ValueError(secret)
    except ValueError as failure:
        log.error("it.failed", failure)
    (line,) = lines(stream)
    assert line["failure"] == "ValueError"
    assert "test_a_failure_shows" in str(line["where"])
    assert "canary" not in stream.getvalue()


def test_a_value_of_another_type_is_named_and_not_shown() -> None:
    stream = told_at("debug")
    log.info("a", secret=Secret("canary"), raw=b"canary")  # type: ignore[arg-type]
    (line,) = lines(stream)
    assert (line["secret"], line["raw"]) == ("(Secret)", "(bytes)")


def test_library_warnings_are_logged_without_their_arguments() -> None:
    stream = told_at("debug")
    logging.getLogger("a.library").warning("cannot read %s", "canary")
    logging.getLogger("a.library").info("nothing of interest")
    try:
        raise ValueError("canary")
    except ValueError:
        logging.getLogger("a.library").exception("it failed")
    first, second = lines(stream)
    assert (first["logger"], first["template"]) == ("a.library", "cannot read %s")
    assert second["failure"] == "ValueError"
    assert "canary" not in stream.getvalue()


def test_a_request_is_one_line_and_many_are_one_write() -> None:
    stream = told_at("info")
    access = log.AccessLog()

    async def main() -> None:
        for number in range(3):
            access.add(
                (NOW, "GET", "/v2/{object}", 200 + number, 0.0012, "192.0.2.7", "id-1", "", "", "")
            )
        assert stream.getvalue() == ""
        access.flush()

    asyncio.run(main())
    assert [line["status"] for line in lines(stream)] == [200, 201, 202]
    assert lines(stream)[0] == {
        "level": "info",
        "timestamp": "2027-01-15T08:00:00Z",
        "event": "request",
        "method": "GET",
        "path": "/v2/{object}",
        "status": 200,
        "milliseconds": 1.2,
        "address": "192.0.2.7",
        "request_id": "id-1",
    }


def test_access_log_is_written_without_an_explicit_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_PAUSE", 0.01)
    stream = told_at("info")

    async def main() -> None:
        log.AccessLog().add((NOW, "GET", "/", 200, 0.0, "", "id-1", "", "", ""))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if stream.getvalue():
                return

    asyncio.run(main())
    assert len(lines(stream)) == 1


def test_requests_beyond_the_limit_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_PENDING", 2)
    stream = told_at("info")
    access = log.AccessLog()

    async def main() -> None:
        for _ in range(5):
            access.add((NOW, "GET", "/", 200, 0.0, "", "id-1", "", "", ""))
        access.flush()

    asyncio.run(main())
    assert [line["event"] for line in lines(stream)] == [
        "request",
        "request",
        "requests_not_logged",
    ]
    assert lines(stream)[-1]["count"] == 3


def test_requests_are_not_logged_at_level_warning() -> None:
    stream = told_at("warning")
    access = log.AccessLog()
    access.add((NOW, "GET", "/", 200, 0.0, "", "id-1", "", "", ""))
    access.flush()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("level", "count"), [("info", 1), ("debug", 2)])
def test_quiet_route_is_logged_only_on_failure_or_at_debug_level(level: str, count: int) -> None:
    stream = told_at(level)
    health = Route("/health", {"GET": echo}, refuse, quiet=True)
    app = small_app([health])
    ask(app, "GET", "/health")
    ask(app, "POST", "/health")
    app._access_log.flush()
    assert [line["status"] for line in lines(stream)] == [200, 405][-count:]


def test_repeated_cause_is_logged_once_a_minute_with_its_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1_000.0]
    monkeypatch.setattr(log, "monotonic", lambda: clock[0])
    out = io.StringIO()
    log.set_up("info", "json", out)
    for _ in range(5):
        log.throttled("warning", "request.unavailable", "DatabaseUnavailable: disk full")
    log.throttled("warning", "request.unavailable", "Busy: too many sign-ins wait")
    clock[0] += 60
    log.throttled("warning", "request.unavailable", "DatabaseUnavailable: disk full")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(event["cause"][:4], event["repeated"]) for event in events] == [
        ("Data", 0),
        ("Busy", 0),
        ("Data", 4),
    ]


def test_ecs_names_are_those_of_the_schema() -> None:
    stream = told_at("info", "ecs")
    app = small_app([Route("/echo", {"GET": echo}, refuse)])
    ask(app, "GET", "/echo")
    app._access_log.flush()
    log.error("delivery.failed", KeyError("a secret"), reference="VK-1")
    request, failure = lines(stream)
    assert request["event.action"] == "request"
    assert request["http.request.method"] == "GET"
    assert request["url.path"] == "/echo"
    assert request["http.request.id"]
    assert request["http.response.status_code"] == 200
    assert isinstance(request["event.duration"], int)
    assert (failure["log.level"], failure["error.type"]) == ("error", "KeyError")
    assert failure["valetkey.reference"] == "VK-1"
    assert all("ecs.version" in line and "@timestamp" in line for line in (request, failure))
    assert "a secret" not in stream.getvalue()


def test_log_that_cannot_be_written_raises_no_error() -> None:
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closing it fails as well
    log.set_up("info", "json", full)
    log.error("worker.restarting", server="resource")
    with suppress(OSError):
        full.close()


def test_request_id_is_in_every_line_of_request_and_only_proxies_choose_it() -> None:
    stream = told_at("info")

    async def fails(_: Request) -> Response:
        log.info("asked")
        raise RuntimeError

    app = small_app(
        [Route("/fails", {"GET": fails}, refuse)], trusted_proxies=[ip_network("10.0.0.0/8")]
    )
    headers = [("x-request-id", "from-afar/7"), ("x-forwarded-for", "192.0.2.7")]
    ask(app, "GET", "/fails", headers=headers)
    ask(app, "GET", "/fails", headers=headers, peer="10.0.0.1")
    ask(app, "GET", "/fails", headers=[("x-request-id", "from afar")], peer="10.0.0.1")
    app._access_log.flush()
    ids = [line["request_id"] for line in lines(stream)]
    own, other = ids[0], ids[4]
    assert ids[:6] == [own, own, "from-afar/7", "from-afar/7", other, other]
    assert ids[6:] == [own, "from-afar/7", other]
    assert len({own, other, "from-afar/7"}) == 3


def test_refused_request_is_logged_with_reference_of_its_decision_record() -> None:
    stream = told_at("info")
    queue = DecisionQueue(SYSTEM.random)
    problems = Problems("https://a.example", Challenge("x"), queue)
    app = small_app([Route("/x", {"GET": echo}, problems.refuse_at("/x"))])
    answer = ask(app, "POST", "/x")
    app._access_log.flush()
    (line,) = lines(stream)
    (decision,) = queue.waiting
    assert line["reference"] == decision.reference == json.loads(answer.body)["reference"]
