"""Operations, pages and commands about streams; the preset of Apple Business Manager."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.authorization.signals.clients import (
    CAEP,
    FETCH,
    SSF,
    SignalClient,
    happen,
    receiver_of,
    signal_client,
    until_pushed,
)
from tests.support.harness import ADA, Harness, run
from tests.support.signal_receiver import SECRET
from tests.support.wait import until, until_found
from valetkey.authorization.actions.inspection.check import Finding, Installation
from valetkey.authorization.model.event.accounts import SessionEnded, UserRemoved
from valetkey.authorization.model.user import Role
from valetkey.authorization.signals import jobs
from valetkey.authorization.signals.doctor import CHECKS
from valetkey.authorization.signals.model import LEGACY_PUSH, SubjectFormat
from valetkey.authorization.signals.operations import (
    APPLE_CALLBACK,
    CHANGE_STREAM,
    CREATE_APPLE,
    CREATE_STREAM,
    DISABLE_STREAM,
    ENABLE_STREAM,
    LIST_STREAM_FAILURES,
    LIST_STREAMS,
    PAUSE_STREAM,
    SHORT,
    VERIFY_STREAM,
    SignalFailureList,
    SignalReceiverShown,
    SignalStreamChange,
    SignalStreamList,
    SignalStreamShown,
    SignalStreamWanted,
)
from valetkey.authorization.signals.rules.streams import reseal_all
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace


def administering(story: Callable[[Harness], object], path: Path, database: str = "") -> None:
    run(path, story, database, **FETCH)  # type: ignore[arg-type]


async def _create(it: Harness, url: str, client_id: str = "receiver") -> SignalStreamShown:
    stream = SignalStreamWanted(client_id, url, authorization_header=SECRET)
    made = await it.perform(CREATE_STREAM, {}, stream)
    assert isinstance(made, SignalStreamShown)
    return made


def test_operator_creates_verifies_and_stops_a_stream(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            made = await _create(it, receiver.url())
            one = {"stream_id": made.stream_id}
            assert (made.method, made.status, made.events) == ("push", "enabled", list(SHORT))
            await it.perform(VERIFY_STREAM, one)
            await until_pushed(it, lambda: receiver.types() == ["verification"])
            assert receiver.of()[0]["events"] == {f"{SSF}verification": {}}
            await it.perform(PAUSE_STREAM, one)
            await happen(it)
            await until_pushed(it, lambda: receiver.types() == ["verification", "stream-updated"])
            reason = "paused by an operator"
            updated = receiver.of()[1]
            assert updated["sub_id"] == {"format": "opaque", "id": made.stream_id}
            assert updated["events"][f"{SSF}stream-updated"] == {
                "status": "paused",
                "reason": reason,
            }
            read = await client.call("GET", f"/ssf/status?stream_id={made.stream_id}")
            assert read.json == {**one, "status": "paused", "reason": reason}
            enable = await client.call("POST", "/ssf/status", {**one, "status": "enabled"})
            enable.refused(403, "forbidden")
            assert (await client.call("POST", "/ssf/status", {**one, "status": "disabled"})).json[
                "status"
            ] == "disabled"
            await it.perform(ENABLE_STREAM, one)
            await until_pushed(it, lambda: receiver.types()[2:] == ["stream-updated"])
            assert receiver.of()[2]["events"][f"{SSF}stream-updated"] == {"status": "enabled"}
            await it.perform(DISABLE_STREAM, one)
            await until_pushed(it, lambda: receiver.types()[3:] == ["stream-updated"])
            await happen(it)

            async def nothing_waits() -> bool:
                listed = await it.perform(LIST_STREAMS, {})
                assert isinstance(listed, SignalStreamList)
                (shown,) = listed.items
                assert (shown.status, shown.dropped) == ("disabled", 0)
                return shown.waiting == 0

            # The receiver has a token a moment before the queue knows.
            await until_found(nothing_waits)
            assert receiver.faults == []

    administering(story, tmp_path, database_url)


def test_users_are_named_by_email_only_for_apps_that_may_see_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await signal_client(it)
        await it.client("mail", scopes=("openid", "email", "groups", "ssf.read"))
        async with receiver_of(it) as receiver:
            change = SignalStreamChange(subject_format=SubjectFormat.EMAIL)
            made = await _create(it, receiver.url("/mail"), "mail")
            one = {"stream_id": made.stream_id}
            await it.perform(CHANGE_STREAM, one, change)
            await happen(it, UserRemoved(ADA))
            await until(lambda: len(receiver.of("/mail")) == 1)
            (claims,) = receiver.of("/mail")
            assert claims["sub_id"] == {"format": "email", "email": "ada@example.com"}
            other = await _create(it, receiver.url())
            with pytest.raises(Refused):
                await it.perform(CHANGE_STREAM, {"stream_id": other.stream_id}, change)

    administering(story, tmp_path)


def test_changed_claims_are_those_that_the_scopes_of_the_app_cover(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("mail", scopes=("openid", "email", "ssf.read"))
        await signal_client(it)
        async with receiver_of(it) as receiver:
            await _create(it, receiver.url("/mail"), "mail")
            await _create(it, receiver.url())
            accounts = it.foundation.accounts()
            user = await it.read(lambda tx: tx.users.find(ADA))
            assert user is not None
            await it.write(
                lambda tx: accounts.verify_email(tx, user, it.clock.now),
            )
            await until(lambda: len(receiver.of("/mail")) == 1)
            event = receiver.of("/mail")[0]["events"][f"{CAEP}token-claims-change"]
            assert event["claims"] == {"email_verified": True}
            await happen(it)
            await until(lambda: receiver.types() == ["account-enabled"])

    administering(story, tmp_path)


def test_pairwise_app_gets_its_own_subjects(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=("openid", "ssf.read"))
        client = it.clients["web"]
        openid = replace(client.openid, subject_type="pairwise")
        await it.change(replace(client, openid=openid))
        async with receiver_of(it) as receiver:
            await _create(it, receiver.url(), "web")
            await happen(it, SessionEnded(ADA, "se_1", "signed_out"))
            await until(lambda: len(receiver.of()) == 1)
            named = receiver.of()[0]["sub_id"]
            assert named["user"]["sub"] != str(ADA)
            assert named["session"]["id"].startswith("se_")
            assert named["session"]["id"] != "se_1"

    administering(story, tmp_path)


def test_apple_business_manager_is_registered_and_creates_its_stream(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        shown = await it.perform(CREATE_APPLE, {})
        assert isinstance(shown, SignalReceiverShown)
        issuer = it.foundation.issuer
        assert shown.ssf_configuration_url == f"{issuer}/.well-known/ssf-configuration"
        client = await it.read(lambda tx: tx.clients.find(shown.client_id))
        assert client is not None
        assert client.redirect_uris == (APPLE_CALLBACK,)
        scope = "openid email offline_access ssf.manage ssf.read"
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.OWNER, it.clock.now))
        code = await it.code(shown.client_id, scope, redirect_uri=APPLE_CALLBACK)
        answer = await it.post(
            "/oauth/token",
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": APPLE_CALLBACK,
                "client_id": shown.client_id,
                "client_secret": shown.client_secret,
            },
        )
        apple = SignalClient(it, answer.text("access_token"))
        async with receiver_of(it) as receiver:
            made = await apple.create(
                delivery={
                    "method": LEGACY_PUSH,
                    "endpoint_url": receiver.url(),
                    "authorization_header": SECRET,
                },
                events_requested=[f"{CAEP}session-revoked", f"{CAEP}credential-change"],
                format="email",
                aud=["https://federation.apple.com/feeds/1"],
            )
            assert made["delivery"]["method"] == LEGACY_PUSH
            assert (made["aud"], made["format"]) == (
                "https://federation.apple.com/feeds/1",
                "email",
            )
            await until(lambda: receiver.types() == ["verification"])
            await happen(it, SessionEnded(ADA, "se_1", "signed_out"))
            await until(lambda: len(receiver.of()) == 2)
            claims = receiver.of()[1]
            assert claims["aud"] == "https://federation.apple.com/feeds/1"
            assert "sub_id" not in claims
            assert claims["events"][f"{CAEP}session-revoked"]["subject"] == {
                "user": {"format": "email", "email": "ada@example.com"},
                "session": {"format": "opaque", "id": "se_1"},
            }
            assert receiver.faults == []

    administering(story, tmp_path)


def test_doctor_finds_a_failing_receiver(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await signal_client(it)
        async with receiver_of(it) as receiver:
            made = await _create(it, receiver.url())
            receiver.status = "503 Service Unavailable"
            await happen(it)
            await until(lambda: receiver.requests > 0)
            one = {"stream_id": made.stream_id}

            async def failed() -> str:
                failures = await it.perform(LIST_STREAM_FAILURES, one)
                assert isinstance(failures, SignalFailureList)
                return failures.items[0].outcome if failures.items else ""

            assert await until_found(failed) == "503"
            (check,) = CHECKS
            foundation = it.foundation
            for later, name in ((0, "signal_stream_failing"), (hours(2), "signal_stream_failed")):
                now = Instant(it.clock.now + later)
                installation = Installation(it.settings, foundation.keyring, foundation.roles, now)

                def look(
                    tx: Transaction, installation: Installation = installation
                ) -> list[Finding]:
                    return list(check.run(tx, installation))

                (finding,) = await it.read(look)
                assert finding.condition.name == name
                assert SECRET not in repr(finding)

    administering(story, tmp_path)


def test_secret_is_sealed_again_after_a_change_of_the_keyring(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await signal_client(it)
        made = await _create(it, "https://receiver.example/events")

        def reseal(sealed: str, where: str, what: str) -> str:
            return f"{sealed}|{where}|{what}"

        await it.write(lambda tx: reseal_all(tx, reseal))
        stream = await it.read(lambda tx: SignalStreams.of(tx).find(made.stream_id))
        assert stream is not None
        assert stream.sealed is not None
        assert stream.sealed.endswith(
            f"|signal_streams.sealed:{made.stream_id}|signal stream {made.stream_id}"
        )

    administering(story, tmp_path)


def test_full_signal_queue_drops_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_WAITING", 3)
    monkeypatch.setattr(jobs, "_BOUND_EVERY", 0.01)

    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        await happen(it, *(SessionEnded(ADA, f"se_{n}", "signed_out") for n in range(8)))

        async def bounded() -> bool:
            return await it.read(lambda tx: SignalQueue.of(tx).waiting_for(stream_id)) <= 3

        await until_found(bounded)
        sets = (await client.poll(stream_id))["sets"]
        async with receiver_of(it) as receiver:
            verified_claims = [receiver.verify(token) for token in sets.values()]
        assert [claims["sub_id"]["session"]["id"] for claims in verified_claims] == [
            "se_5",
            "se_6",
            "se_7",
        ]
        stream = await it.read(lambda tx: SignalStreams.of(tx).find(stream_id))
        assert stream is not None
        assert stream.dropped == 5

    administering(story, tmp_path)
