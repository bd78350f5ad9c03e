"""A story says what was wrong, goes on with the next chapter, and remembers."""

import pytest

from valetkey.cli.demo.walking.stage import Transcript
from valetkey.cli.demo.wire import Unanswered


class Stop(Exception):
    pass


def stay() -> None:
    """Nothing ends the story."""


def stop() -> None:
    raise Stop


def test_failed_check_ends_its_chapter_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = Transcript(stay, verbose=True)
    reached: list[str] = []
    with story.chapter("One", "First.", "S1"):
        story.check("status", 500, 200)
        reached.append("the rest of one")
    with story.chapter("Two", "Second.", "S2"):
        story.check("status", 200, 200)
        story.right("as it should be")
        reached.append("the rest of two")
    assert reached == ["the rest of two"]
    assert [str(wrong) for wrong in story.wrongs] == ["status: expected 200, received 500"]
    output = capsys.readouterr().out
    assert "expected: 200" in output
    assert "received: 500" in output
    assert " 2. Two" in output
    assert "✓ as it should be" in output


def unanswered(story: Transcript) -> None:
    with story.chapter("One", "First.", "S1"):
        raise Unanswered("nobody answered")


def test_missing_response_is_reported_as_wrong() -> None:
    story = Transcript(stay, quiet=True)
    unanswered(story)
    assert [wrong.received for wrong in story.wrongs] == ["nobody answered"]


def test_missing_response_during_shutdown_stops_the_demo() -> None:
    story = Transcript(stop, quiet=True)
    with pytest.raises(Stop):
        unanswered(story)
    assert story.wrongs == []


def test_quiet_transcript_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    story = Transcript(stay, quiet=True)
    with story.chapter("One", "First.", "S1"):
        story.right("good")
    assert capsys.readouterr().out == ""
    assert story.as_json()["right"] is True
