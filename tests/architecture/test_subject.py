"""`make test webhooks` runs the tests of webhooks, and of what imports them."""

from pathlib import Path

import pytest

from tests.subject import ROOT, main, select
from valetkey.config.features import NAMES

FILES = {
    "tests/support/harness.py": "from valetkey.authorization import webhooks\n",
    "tests/support/test_harness.py": "from tests.support import harness\n",
    "tests/webhooks/test_delivery.py": "def test_retries() -> None: ...\n",
    "tests/stories/sender.py": "from valetkey.authorization.webhooks.jobs import deliver\n",
    "tests/stories/test_sent.py": "from tests.stories.sender import deliver\n",
    "tests/stories/test_others.py": "from tests.support import harness\n",
    "tests/stories/everything.py": "from tests.stories import sender\n",
    "tests/stories/test_everything.py": "from tests.stories.everything import sender\n",
    "tests/attacks/test_urls.py": (
        "def test_webhook_to_a_private_address_is_refused() -> None: ...\n"
        "def test_logo_from_a_private_address_is_refused() -> None: ...\n"
    ),
    "tests/attacks/test_records.py": "import valetkey.authorization.webhooks.model\n",
    "tests/attacks/test_names.py": "from valetkey.kernel.names import webhook_name\n",
    "tests/authorization/pages/shown.py": "from valetkey.authorization.webhooks import pages\n",
    "tests/authorization/pages/test_looks.py": "from tests.authorization.pages import shown\n",
    "tests/authorization/pages/test_one.py": "from valetkey.authorization.webhooks import x\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_path_name_and_imports_select_a_test(root: Path) -> None:
    assert select(root, ["webhooks"]) == [
        "tests/attacks/test_records.py",
        "tests/attacks/test_urls.py::test_webhook_to_a_private_address_is_refused",
        "tests/authorization/pages/test_one.py",
        "tests/stories/test_sent.py",
        "tests/webhooks/test_delivery.py",
    ]


def test_several_words_select_tests_that_match_all_of_them(root: Path) -> None:
    assert select(root, ["webhook", "retries"]) == ["tests/webhooks/test_delivery.py::test_retries"]
    assert select(root, ["webhook", "device"]) == []


def test_subjects_of_this_tree_select_a_part_of_it() -> None:
    files = len(list(ROOT.glob("tests/**/test_*.py")))
    for word in (*NAMES, "groups", "portal"):
        selected = len(select(ROOT, [word]))
        assert selected, f"add a test of {word}: `make test {word}` finds none"
        assert selected < files / 4, word


def test_unknown_word_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    # Put together here: a test whose text has the word would be found.
    assert main(["no" * 20]) == 5
    assert "No test has nono" in capsys.readouterr().err
