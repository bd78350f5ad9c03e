"""`valetkey apply` and streams of security events: what is declared, once, and what is refused."""

from pathlib import Path

import pytest

from tests.cli.commands.test_apply import actions, apply
from tests.cli.running import valetkey
from tests.cli.site import configure

URL = "https://receiver.example.com/events"
SECRET = "Bearer of-the-receiver"
CLIENT = """
name = "ours"

[[clients]]
client_id = "devices"
name = "Devices"
grant_types = ["client_credentials"]
scopes = ["ssf.read", "ssf.manage"]
"""
STREAM = f"""
[[signal_streams]]
client_id = "devices"
url = "{URL}"
events = ["session-revoked"]
authorization_header = "{SECRET}"
"""


def _listed(here: Path) -> list[dict[str, object]]:
    items = valetkey("signal-stream", "list", "--json", here=here).json
    return items if isinstance(items, list) else []


def test_signal_stream_is_created_once_changed_and_pruned(tmp_path: Path) -> None:
    configure(tmp_path)
    planned = apply(tmp_path, CLIENT + STREAM)
    assert f"+ signal stream {URL}" in planned.out
    made = apply(tmp_path, CLIENT + STREAM, "--yes", "--json")
    assert ("create", "signal stream") in actions(made)
    assert SECRET not in made.out
    assert apply(tmp_path, CLIENT + STREAM).out == "Nothing to change.\n"
    (first,) = _listed(tmp_path)
    assert (first["client_id"], first["url"], first["events"]) == (
        "devices",
        URL,
        ["session-revoked"],
    )
    changed = STREAM.replace("session-revoked", "account-disabled").replace("of-the", "of-a")
    ran = apply(tmp_path, CLIENT + changed, "--yes")
    assert f"~ signal stream {URL}: events, authorization_header" in ran.out
    (again,) = _listed(tmp_path)
    assert again["stream_id"] == first["stream_id"]
    # What the file does not say stays as it is.
    bare = f'{CLIENT}\n[[signal_streams]]\nurl = "{URL}"\n'
    assert apply(tmp_path, bare).out == "Nothing to change.\n"
    exported = valetkey("export", here=tmp_path).out
    assert "[[signal_streams]]" in exported
    assert SECRET not in exported
    assert "- signal stream" in apply(tmp_path, CLIENT, "--prune", "--yes").out
    assert _listed(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STREAM.replace("devices", "nobody"), "client_id"),
        (STREAM.replace("session-revoked", "session-started"), "events"),
        (STREAM.replace("https://receiver.example.com", "http://10.0.0.1"), "url"),
        (STREAM + 'subject_format = "email"\n', "email"),
        (STREAM + 'subject_format = "name"\n', "subject_format"),
        (STREAM + STREAM, "url"),
    ],
)
def test_an_invalid_stream_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, CLIENT + text, "--yes")
    assert ran.code != 0
    assert said in ran.err + ran.out
