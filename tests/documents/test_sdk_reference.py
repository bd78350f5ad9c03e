"""The SDK's reference page names everything public, and what it shows runs."""

from typing import Any

import pytest

from tests.documents.pages import Block, blocks, text
from tests.sdk.adapters.django_site import urlpatterns
from valetkey import sdk

CONFIGURED = urlpatterns  # Django's REST framework is imported by configured sites only
PAGE = "docs/reference/sdk.md"


def test_every_public_name_is_on_the_page() -> None:
    page = text(PAGE)
    assert not [name for name in sdk.__all__ if f"`{name}" not in page]


@pytest.mark.parametrize("block", tuple(blocks(PAGE)), ids=lambda block: block.title)
def test_what_the_page_shows_runs(block: Block) -> None:
    assert block.language == "python"
    names: dict[str, Any] = {}
    exec(compile(block.code, PAGE, "exec"), names)
    assert names.keys() & {"app", "gate", "issuer", "Notes", "client"}
