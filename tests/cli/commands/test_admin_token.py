"""`valetkey admin-token`: made in somebody's name, listed without the token, ended."""

import re
from pathlib import Path

from tests.cli.commands.test_user import make_ada
from tests.cli.running import valetkey
from tests.cli.site import begin


def _create(here: Path, *more: str) -> tuple[int, str]:
    ran = valetkey(
        "admin-token", "create", "--for", "ada", "--name", "Report", *more, "--json", here=here
    )
    return ran.code, ran.out + ran.err


def test_admin_token_is_created_listed_and_ended(tmp_path: Path) -> None:
    begin(tmp_path)
    make_ada(tmp_path)
    code, output = _create(tmp_path, "--permission", "read")
    assert code == 2
    assert "--for: a user with a role" in output
    assert valetkey("user", "role", "ada", "owner", here=tmp_path).code == 0
    made = valetkey(
        *("admin-token", "create", "--for", "ada", "--name", "Report", "--permission", "read"),
        "--json",
        here=tmp_path,
    ).json
    assert str(made["token"]).startswith("vka_")
    listed = valetkey("admin-token", "list", here=tmp_path).out
    assert "Report" in listed
    assert str(made["token"]) not in listed
    assert valetkey("admin-token", "end", str(made["id"]), here=tmp_path).code == 0
    assert valetkey("admin-token", "end", str(made["id"]), here=tmp_path).code == 1
    (ended,) = valetkey("admin-token", "list", "--json", here=tmp_path).json
    assert ended["ended_at"] is not None
    assert ended["works"] is False
    events = valetkey("events", "--json", here=tmp_path).out
    assert '"api_token.issued"' in events
    assert str(made["token"]) not in events


def test_apps_are_verified_and_deleted(tmp_path: Path) -> None:
    begin(tmp_path)
    made = valetkey(
        *("client", "create", "--name", "Printer", "--id", "printer"),
        *("--redirect-uri", "https://app.example/cb"),
        here=tmp_path,
    )
    assert made.code == 0, made.err
    assert "is verified" in valetkey("client", "verify", "printer", here=tmp_path).out
    assert "verified already" in valetkey("client", "verify", "printer", here=tmp_path).out
    assert "not verified" in valetkey("client", "verify", "printer", "--off", here=tmp_path).out
    assert valetkey("client", "delete", "printer", "--yes", here=tmp_path).code == 0
    assert valetkey("client", "delete", "printer", "--yes", here=tmp_path).code == 2


def test_events_are_copied_as_csv_without_formulas(tmp_path: Path) -> None:
    begin(tmp_path)
    make_ada(tmp_path)
    ran = valetkey("events", "--csv", here=tmp_path)
    heading, *lines = ran.out.splitlines()
    assert heading == "id,server,at,name,done_by,data,ip_address,browser"
    assert re.search(r",\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,user\.registered,", "\n".join(lines))


def test_end_app_without_access_changes_nothing(tmp_path: Path) -> None:
    begin(tmp_path)
    make_ada(tmp_path)
    assert valetkey("user", "end-app", "ada", "nobody", here=tmp_path).code == 2
    made = valetkey(
        *("client", "create", "--name", "Printer", "--id", "printer"),
        *("--redirect-uri", "https://app.example/cb"),
        here=tmp_path,
    )
    assert made.code == 0, made.err
    ran = valetkey("user", "end-app", "ada", "printer", here=tmp_path)
    assert "No changes" in ran.out, ran.err
