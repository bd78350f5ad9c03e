"""Every accent gives readable pages, light and dark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.authorization.layout.assets import DARK_CARD, LIGHT_CARD
from valetkey.authorization.layout.brand import (
    EDGE_CONTRAST,
    FILL_CONTRAST,
    TEXT_CONTRAST,
    Brand,
    accent_shades,
    check_accent,
    contrast,
)
from valetkey.kernel.refusal import OperatorError

colours = st.integers(0, 0xFFFFFF).map("#{:06x}".format)
grounds = st.sampled_from([LIGHT_CARD, DARK_CARD])


@given(accent=colours, ground=grounds)
def test_accent_shades_have_sufficient_contrast(accent: str, ground: str) -> None:
    made = accent_shades(accent, ground)

    assert contrast(made.text, ground) >= TEXT_CONTRAST
    assert contrast(made.on_fill, made.fill) >= TEXT_CONTRAST
    assert contrast(made.edge, ground) >= EDGE_CONTRAST
    assert contrast(made.fill, ground) >= FILL_CONTRAST


@given(accent=colours)
def test_readable_accent_is_kept(accent: str) -> None:
    made = accent_shades(accent, LIGHT_CARD)

    if contrast(accent, LIGHT_CARD) >= TEXT_CONTRAST:
        assert made.text == made.fill == made.edge == accent


def test_contrast_is_measured_as_wcag_defines_it() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21.0
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48
    assert contrast("#2456d6", "#2456d6") == 1.0


@pytest.mark.parametrize("text", ["", "red", "#fff", "#12345g", "#123456\n", "#１23456", "123456"])
def test_accent_must_be_six_hexadecimal_digits(text: str) -> None:
    with pytest.raises(OperatorError, match=r"brand\.accent"):
        check_accent(text)
    with pytest.raises(OperatorError):
        Brand(accent=text)
