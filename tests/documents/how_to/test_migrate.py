"""The guides to migration: the program of each turns an export into a file that is applied."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents.pages import blocks
from valetkey.cli.main import run

SECRET = "a client secret of the former server, 0123"
DUMP = [
    {"model": "auth.group", "pk": 7, "fields": {"name": "all staff"}},
    {
        "model": "auth.user",
        "pk": 42,
        "fields": {
            "username": "ada@example.com",
            "email": "ada@example.com",
            "first_name": "Ada",
            "last_name": "Löve",
            "is_active": True,
            "groups": [7],
        },
    },
    {
        "model": "oauth2_provider.application",
        "pk": 1,
        "fields": {
            "client_id": "calendar",
            "name": "",
            "client_type": "confidential",
            "redirect_uris": "https://app.example/cb https://app.example/cb2",
            "post_logout_redirect_uris": "",
            "authorization_grant_type": "authorization-code",
        },
    },
]
AUTH0_USER = {"user_id": "auth0|65f0c1", "email": "ada@example.com", "email_verified": True}
AUTH0_APIS = [
    {
        "identifier": "https://calendar.example.com",
        "name": "Calendar",
        "token_lifetime": 86400,
        "scopes": [{"value": "calendar:read", "description": "see your calendar"}],
    },
    {"identifier": "https://acme.eu.auth0.com/api/v2/", "name": "System", "is_system": True},
]
AUTH0_CLIENTS = [
    {"client_id": "all", "name": "All Applications", "global": True},
    {
        "client_id": "calendar",
        "name": "Calendar",
        "client_secret": SECRET,
        "app_type": "regular_web",
        "callbacks": ["https://app.example/cb", "https://app.example/cb2"],
        "grant_types": ["authorization_code", "refresh_token", "implicit"],
    },
]


@pytest.mark.parametrize(
    ("page", "exported", "sub"),
    [
        ("from-django-oauth-toolkit", {"dump.json": DUMP}, "42"),
        (
            "from-auth0",
            {"users.ndjson": AUTH0_USER, "apis.json": AUTH0_APIS, "clients.json": AUTH0_CLIENTS},
            "",
        ),
    ],
)
def test_export_is_converted_to_a_file_that_can_be_applied(
    page: str,
    exported: dict[str, Any],
    sub: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    guide = f"docs/how-to/operate/migrate/{page}.md"
    program = next(block.code for block in blocks(guide) if block.title == "to_apply.py")
    for name, document in exported.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (file := tmp_path / "apply.toml").write_text(done.stdout)
    file.chmod(0o600)
    config = str(tmp_path / "valetkey.toml")
    Path(config).write_text("")
    assert run(["apply", str(file), "--config", config, "--yes"]) == 0, capsys.readouterr()
    capsys.readouterr()
    assert run(["user", "show", "ada@example.com", "--config", config, "--json"]) == 0
    user = json.loads(capsys.readouterr().out)
    assert user["username"] == "ada-example.com"
    assert user["email_verified"]
    assert not sub or str(user["uid"]) == sub
    assert run(["client", "show", "calendar", "--config", config, "--json"]) == 0
    client = json.loads(capsys.readouterr().out)
    assert client["redirect_uris"] == ["https://app.example/cb", "https://app.example/cb2"]
    if not sub:
        # The secret of the export is the client's: applying it again issues no other.
        assert run(["apply", str(file), "--config", config, "--yes"]) == 0
        assert "Nothing to change." in capsys.readouterr().out
