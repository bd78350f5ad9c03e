"""The whole server: outages, restarts, revocation, health, what it keeps."""

import asyncio
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.resource.api import Api, api, serving, settings_for
from tests.sdk.certificate import self_signed
from tests.sdk.issuer import SECRET, Clock, Issuer
from tests.support.wait import until_found
from valetkey.config.sections.serving import FetchSettings, ResourceSettings
from valetkey.config.settings import Settings, SettingsSource
from valetkey.database.connect import connect
from valetkey.database.decisions import Decisions
from valetkey.database.migrate import migrate
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.app import CLIENT_ID, build, prepare


def test_notes_are_served_while_the_issuer_is_down(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.accounts["1001"] = {"uid": 1001, "name": "Ada"}
            assert (await call("GET", "/v2/notes")).status == 200
            await call.issuer.stop()
            fresh = call.issuer.token("read write")
            assert (await call("POST", "/v2/notes", {"title": "x"}, token=fresh)).status == 201
            away = await call("GET", "/v2/account")
            assert (away.status, away.headers["retry-after"]) == (503, "5")
            assert away.headers["content-type"] == "application/problem+json"
            by_reference = call.issuer.reference("read")
            unknown = await call("GET", "/v2/notes", token=by_reference)
            assert (unknown.status, unknown.headers["retry-after"]) == (503, "2")
            await call.issuer.start()
            assert (await call("GET", "/v2/account")).status == 200
            call.issuer.clock.at += 2
            assert (await call("GET", "/v2/notes", token=by_reference)).status == 200

    asyncio.run(story())


def test_401_refers_to_metadata_with_issuer_and_scopes(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            refused = await call("GET", "/v2/notes", token="")
            assert refused.status == 401
            where = refused.headers["www-authenticate"].partition('resource_metadata="')[2]
            path = urlsplit(where.rstrip('"')).path
            answer = await call("GET", path, token="")
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
            document = answer.json
            assert document["authorization_servers"] == [call.issuer.url]
            assert {"read", "notes:write"} <= set(document["scopes_supported"])
            assert where.startswith(document["resource"])

    asyncio.run(story())


def test_restart_while_the_issuer_is_down_keeps_keys_and_revocations(tmp_path: Path) -> None:
    async def story() -> None:
        issuer = Issuer(Clock())
        async with issuer.running():
            settings = settings_for(tmp_path, issuer)
            good, ended = issuer.token("read"), issuer.draft("read")
            assert ended.grant_id is not None
            issuer.revoke("grant", ended.grant_id)
            revoked = ended.sign(issuer.key)
            async with serving(settings, issuer) as call:
                await _becomes(call, revoked, 401)
            await issuer.stop()
            async with serving(settings, issuer) as call:
                assert (await call("GET", "/v2/notes", token=good)).status == 200
                assert (await call("GET", "/v2/notes", token=revoked)).status == 401

    asyncio.run(story())


def test_tokens_are_answered_with_503_until_keys_are_fetched(tmp_path: Path) -> None:
    async def story() -> None:
        issuer = Issuer(Clock())
        async with issuer.running():
            await issuer.stop()
            async with serving(settings_for(tmp_path, issuer), issuer) as call:
                answer = await call("GET", "/v2/notes", token=issuer.token("read"))
                assert answer.status == 503
                assert (await call("GET", "/v2/notes", token="")).status == 401
                await issuer.start()
                issuer.clock.at += 1
                await _becomes(call, issuer.token("read"), 200)

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["grant", "token", "client"])
def test_revoked_token_is_refused(tmp_path: Path, kind: str) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            draft = call.issuer.draft("read")
            token = draft.sign(call.issuer.key)
            assert (await call("GET", "/v2/notes", token=token)).status == 200
            names = {"grant": draft.grant_id, "token": draft.token_id, "client": draft.client_id}
            call.issuer.revoke(kind, str(names[kind]))
            await _becomes(call, token, 401)
            call.issuer.clock.at += 1
            later = call.issuer.token("read")
            assert (await call("GET", "/v2/notes", token=later)).status == 200

    asyncio.run(story())


def test_new_signing_key_is_fetched_at_its_first_use(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes")).status == 200
            call.issuer.key = SigningKey.generate()
            call.issuer.keys = KeySet.of(*call.issuer.keys, call.issuer.key.public)
            call.issuer.clock.at += 10
            assert (await call("GET", "/v2/notes", token=call.issuer.token("read"))).status == 200

    asyncio.run(story())


def test_token_is_refused_from_the_second_of_its_expiry(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("read", lifetime=60)
            call.issuer.clock.at += 59
            assert (await call("GET", "/v2/notes", token=token)).status == 200
            call.issuer.clock.at += 1
            answer = await call("GET", "/v2/notes", token=token)
            assert answer.status == 401
            assert answer.json["title"] == "Invalid Token Error"
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]

    asyncio.run(story())


def test_live_and_ready_are_answered_without_token_or_issuer(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            live = await call("GET", "/health/live", token="", host="10.0.0.7:8401")
            assert live.json == {"status": "live"}
            assert (await call("GET", "/health/ready", token="")).json == {"status": "ready"}
            await call.issuer.stop()
            assert (await call("GET", "/health/ready", token="")).status == 200

    asyncio.run(story())


def test_reasons_of_a_refusal_are_found_by_its_reference(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("account:read")
            answer = await call("GET", "/v2/notes/note_hidden", token=token)
            reference = answer.json["reference"]
            settings = call.settings
        engine = connect(settings.resource.database, directory=settings.source.directory)
        try:
            decision = await engine.read(lambda db: Decisions(db).find(reference))
        finally:
            await engine.close()
        assert decision is not None
        assert (decision.endpoint, decision.check) == ("/v2/notes/{id}", "scope.missing")
        assert decision.received == "account:read"
        assert decision.expires_at - decision.at == 7 * 86_400

    asyncio.run(story())


def test_without_its_credential_the_server_does_not_start(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(
            resource=ResourceSettings(database="sqlite:///r.db"),
            source=SettingsSource(directory=tmp_path),
        )
        await prepare(settings, SYSTEM)
        with pytest.raises(OperatorError, match="start the authorization server once"):
            await build(settings, SYSTEM)
        file = tmp_path / "resource-server.credential"
        file.write_text(f"{SECRET}\n")
        file.chmod(0o600)
        app = await build(settings, SYSTEM)
        async with app.running():
            pass
        assert CLIENT_ID == "resource-server"

    asyncio.run(story())


def test_only_certificates_of_our_issuer_and_of_ca_file_are_trusted(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        certificate, key = self_signed(tmp_path)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        async with Issuer(Clock(), tls=context).running() as issuer:
            stranger = settings_for(tmp_path, issuer)
            async with serving(stranger, issuer) as call:
                assert (await call("GET", "/v2/notes", token=issuer.token("read"))).status == 503
            own = replace(
                stranger.authorization, tls_certificate=str(certificate), tls_key=str(key)
            )
            named = FetchSettings(ca_file=str(certificate))
            for trusting in (
                replace(stranger, authorization=own),
                replace(stranger, fetch=named),
            ):
                async with serving(trusting, issuer) as call:
                    await _becomes(call, issuer.token("read"), 200)

    asyncio.run(story())


def test_a_database_that_was_not_prepared_is_an_operator_error(tmp_path: Path) -> None:
    async def story() -> None:
        settings = settings_for(tmp_path, Issuer(Clock(), port=1))
        engine = connect(settings.resource.database, directory=tmp_path)
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.close()
        with pytest.raises(OperatorError, match="was not prepared"):
            await build(settings, SYSTEM)
        # Its connections are closed: a start may be tried again for minutes.
        assert not (tmp_path / "r.db-wal").exists()

    asyncio.run(story())


async def _becomes(call: Api, token: str, status: int) -> None:
    async def has_become() -> bool:
        return (await call("GET", "/v2/notes", token=token)).status == status

    await until_found(has_become)
