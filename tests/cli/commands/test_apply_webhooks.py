"""`valetkey apply` and webhooks: what is declared, once, and what is refused."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.cli.commands.test_apply import actions, apply
from tests.cli.running import valetkey
from tests.cli.site import configure

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
URL = "https://example.com/hook"
GIVEN = f'secret = "{SECRET}"\n'
FILE = f"""
[[webhooks]]
url = "{URL}"
description = "Directory"
events = ["user.disabled", "user.removed"]
"""


def _listed(here: Path) -> list[dict[str, object]]:
    items = valetkey("webhook", "list", "--json", here=here).json
    return items if isinstance(items, list) else []


def test_a_webhook_is_created_once_changed_and_moved(tmp_path: Path, database_url: str) -> None:
    file = configure(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("workers", f'database = "{database_url}"\nworkers'), "utf-8")
    planned = apply(tmp_path, FILE)
    assert planned.code == 2
    assert f"+ webhook {URL}" in planned.out
    assert "whsec_" not in planned.out
    made = apply(tmp_path, FILE, "--yes", "--json")
    assert made.json["steps"][0]["secret"].startswith("whsec_")
    assert apply(tmp_path, FILE).out == "Nothing to change.\n"
    (first,) = _listed(tmp_path)
    assert (first["url"], first["description"]) == (URL, "Directory")
    assert first["events"] == ["user.disabled", "user.removed"]

    moved = f'{FILE}moved_from = "{URL}"\ndisabled = true\n{GIVEN}'.replace(
        f'url = "{URL}"', 'url = "https://example.com/new"'
    ).replace('events = ["user.disabled", "user.removed"]', "events = []")
    ran = apply(tmp_path, moved, "--yes")
    fields = "url, events, secret (the one before also signs for a day), disabled"
    assert f"~ webhook https://example.com/new: {fields}" in ran.out
    assert SECRET not in ran.out
    assert apply(tmp_path, moved).out == "Nothing to change.\n"
    (webhook,) = _listed(tmp_path)
    assert webhook["webhook_id"] == first["webhook_id"]
    assert (webhook["events"], webhook["disabled_because"]) == ([], "operator")
    # What the file does not say stays as it is.
    ran = apply(tmp_path, '[[webhooks]]\nurl = "https://example.com/new"\n', "--json")
    assert actions(ran) == [("keep", "webhook")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE.replace("user.disabled", "user.exploded"), "webhooks[1].events[1]"),
        (FILE.replace("https:", "http:"), "webhooks[1].url"),
        (FILE + 'secret = "whsec_c2hvcnQ="\n', "webhooks[1].secret"),
        (FILE + f'secret = "{SECRET[6:]}"\n', "webhooks[1].secret"),
        (FILE.replace("Directory", "x" * 201), "webhooks[1].description"),
        (FILE + FILE, "webhooks[1] has the same"),
        ('[[webhooks]]\nevents = ["user.disabled"]\n', "it has no url"),
        (
            "".join(f'[[webhooks]]\nurl = "{URL}/{number}"\n' for number in range(21)),
            "there are 20 webhooks already",
        ),
    ],
)
def test_invalid_webhooks_change_nothing(tmp_path: Path, text: str, said: str) -> None:
    configure(tmp_path)
    ran = apply(tmp_path, text, "--yes")
    assert ran.code == 2
    assert said in ran.err
    assert SECRET not in ran.err
    assert "Traceback" not in ran.err
    if "has " not in said:
        assert _listed(tmp_path) == []


def test_url_of_two_webhooks_is_refused(tmp_path: Path) -> None:
    configure(tmp_path)
    apply(tmp_path, FILE, "--yes")
    made = valetkey("webhook", "create", URL, "--json", here=tmp_path).json
    ran = apply(tmp_path, FILE, "--yes")
    assert ran.code == 2
    assert str(made["webhook_id"]) in ran.err
