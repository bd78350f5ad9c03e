"""`valetkey explain`: from the reference of a refusal to its reason."""

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.cli.running import Ran, valetkey
from tests.cli.site import configure, serving
from tests.support.wait import wait_until

SECRET = "canary0123456789abcdef0123456789"


def refused(url: str, body: bytes) -> str:
    """The reference of the refusal that this request gets."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=60) as answer:
            raise AssertionError(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return str(json.loads(refusal.read())["reference"])


def explained(here: Path, reference: str, *arguments: str) -> Ran:
    def explanation() -> Ran | None:
        ran = valetkey("explain", reference, *arguments, here=here)
        return ran if ran.code == 0 else None

    # Records follow their refusals by a moment.
    ran = wait_until(explanation)
    assert ran is not None
    return ran


def test_a_refusal_of_each_server_is_explained_without_secrets(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path) as site:
        body = f"grant_type=client_credentials&client_id=x&client_secret={SECRET}".encode()
        at_token = refused(f"{site.authorization}/token", body)
        at_notes = refused(f"{site.resource}/v2/notes", b"")
        explanation = explained(tmp_path, at_token, "--json")
        assert explanation.json["server"] == "authorization"
        assert explanation.json["code"] == "invalid_client"
        assert explanation.json["check"]
        assert SECRET not in explanation.out
        # The access log and the record name the same request.
        wait_until(lambda: at_token in site.log.read_text(encoding="utf-8"))
        written = site.log.read_text(encoding="utf-8").splitlines()
        logged = [json.loads(line) for line in written if at_token in line]
        assert [line["request_id"] for line in logged] == [explanation.json["request_id"]]
        assert explained(tmp_path, at_notes, "--json").json["server"] == "resource"
    # The records stay when the servers are stopped; a reference may be spelt as it was heard.
    spoken = at_token.removeprefix("VK-").replace("-", " ").lower().replace("1", "l")
    people = explained(tmp_path, spoken)
    assert at_token in people.out
    assert "invalid_client" in people.out


def test_unknown_reference_fails_and_malformed_one_is_an_operator_error(
    tmp_path: Path,
) -> None:
    configure(tmp_path)
    unknown = valetkey("explain", "VK-7F3K-9QXM-2RTD", here=tmp_path)
    assert unknown.code == 1
    assert "seven days" in unknown.err
    assert not (tmp_path / "valetkey").exists()
    wrong = valetkey("explain", "VK-7F3K", here=tmp_path)
    assert wrong.code == 2
    assert "looks like" in wrong.err


def test_folder_without_a_database_is_reported_and_stays_unchanged(tmp_path: Path) -> None:
    ran = valetkey("explain", "VK-7F3K-9QXM-2RTD", here=tmp_path)
    assert ran.code == 2
    assert "there is no database here" in ran.err
    assert not (tmp_path / "valetkey").exists()
