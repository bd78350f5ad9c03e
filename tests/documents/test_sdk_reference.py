"""The SDK's reference page names everything public; what it and the docstrings show runs."""

import doctest
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.documents.pages import Block, blocks, text
from tests.sdk.adapters.django_site import urlpatterns
from valetkey import sdk
from valetkey.sdk.testing import trusted

CONFIGURED = urlpatterns  # Django's REST framework is imported by configured sites only
PAGE = "docs/reference/sdk.md"


def test_every_public_name_is_on_the_page() -> None:
    page = text(PAGE)
    assert not [name for name in sdk.__all__ if f"`{name}" not in page]


@pytest.mark.parametrize("block", tuple(blocks(PAGE)), ids=lambda block: block.title)
def test_every_code_block_on_the_page_runs(block: Block) -> None:
    assert block.language == "python"
    names: dict[str, Any] = {}
    exec(compile(block.code, PAGE, "exec"), names)
    assert names.keys() & {"app", "gate", "issuer", "Notes", "client"}


@pytest.mark.parametrize("shown", [sdk.Gate, sdk.Protection, sdk.Caller, sdk.Issuer, trusted])
def test_main_names_of_the_sdk_have_an_example(shown: type | Callable[..., object]) -> None:
    assert ">>>" in (shown.__doc__ or "")


def test_examples_of_docstrings_return_what_they_show() -> None:
    names = sorted({getattr(sdk, name).__module__ for name in sdk.__all__})
    ran = [
        doctest.testmod(sys.modules[name], optionflags=doctest.ELLIPSIS)
        for name in (*names, trusted.__module__)
    ]
    assert sum(result.attempted for result in ran) > 20
    assert not sum(result.failed for result in ran)
