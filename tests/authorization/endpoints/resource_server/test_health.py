"""Live and ready, and what is said when it is not."""

from pathlib import Path

from tests.support.harness import Harness, run
from valetkey.authorization.storage.transaction import Transaction


def test_running_server_is_live_and_ready(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        live = await it.call("GET", "/health/live")
        assert (live.status, live.json) == (200, {"status": "live"})
        ready = await it.call("GET", "/health/ready")
        assert (ready.status, ready.json) == (200, {"status": "ready"})

    run(tmp_path, story)


def test_unusable_signing_key_returns_503_at_readiness_and_token_endpoint(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        assert (await it.call("GET", "/health/ready")).status == 200

        def seal_with_another(tx: Transaction) -> None:
            tx.db.run("UPDATE signing_keys SET sealed = 'v9.AAAA', kid = 'other' || period")
            tx.db.run("UPDATE revision SET number = number + 1")

        await it.write(seal_with_another)
        it.clock.forward(1)
        for answer in (
            await it.call("GET", "/health/ready"),
            await it.token("svc", grant_type="client_credentials"),
        ):
            answer.refused(503, "temporarily_unavailable")
            assert answer.headers["retry-after"] == "1"
        assert await it.events() == []

    run(tmp_path, story)


def test_readiness_probe_writes_once_a_second(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        before = await it.read(_writes)
        for _ in range(20):
            assert (await it.call("GET", "/health/ready")).status == 200
        assert await it.read(_writes) == before + 1
        it.clock.forward(1)
        assert (await it.call("GET", "/health/ready")).status == 200
        assert await it.read(_writes) == before + 2

    def _writes(tx: Transaction) -> int:
        row = tx.db.row("SELECT number FROM counted")
        assert row is not None
        return int(row[0])

    async def counted(it: Harness) -> None:
        def count(tx: Transaction) -> None:
            tx.db.run("CREATE TABLE counted (number BIGINT)")
            tx.db.run("INSERT INTO counted VALUES (0)")
            for change in ("INSERT", "UPDATE"):
                tx.db.run(
                    f"CREATE TRIGGER count_{change} AFTER {change} ON probe"
                    " BEGIN UPDATE counted SET number = number + 1; END"
                )

        await it.write(count)
        await story(it)

    run(tmp_path, counted)
