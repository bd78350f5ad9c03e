"""The stylesheet and the icon."""

import re

from valetkey.authorization.layout.assets import DARK_CARD, LIGHT_CARD, assets
from valetkey.authorization.layout.brand import TEXT_CONTRAST, Brand, accent_shades, contrast

STYLE = assets(Brand()).style.body.decode()


def _grounds() -> tuple[dict[str, str], dict[str, str]]:
    """The stylesheet's own colors, light and dark."""
    own = STYLE[STYLE.index("--ground") :]
    light, dark = own.split("prefers-color-scheme:dark", 1)
    pattern = re.compile(r"--([a-z-]+):(#[0-9a-f]{6})[;}]")
    return dict(pattern.findall(light)), dict(pattern.findall(dark.split("*,", 1)[0]))


def test_asset_path_changes_with_its_content() -> None:
    one, other = assets(Brand()), assets(Brand(accent="#aa0000"))

    assert one.style.path != other.style.path
    assert one.icon.path != other.icon.path
    assert one.style.path == assets(Brand(name="Another name")).style.path


def test_each_asset_has_its_content_type() -> None:
    kinds = [asset.content_type for asset in assets(Brand())]

    assert kinds[:3] == ["text/css; charset=utf-8", "text/css; charset=utf-8", "image/svg+xml"]
    assert set(kinds[3:]) == {"text/javascript; charset=utf-8"}


def test_accent_is_used_in_the_stylesheet_and_the_icon() -> None:
    made = assets(Brand(accent="#AA0000"))

    assert "--fill:#aa0000" in made.style.body.decode()
    assert accent_shades("#AA0000", DARK_CARD).text in made.style.body.decode()
    assert b'fill="#aa0000"' in made.icon.body
    assert b"FILL" not in made.icon.body
    assert b"INK" not in made.icon.body


def test_the_accent_is_computed_for_the_cards_of_the_stylesheet() -> None:
    light, dark = _grounds()

    assert (light["card"], dark["card"]) == (LIGHT_CARD, DARK_CARD)


def test_text_colors_have_enough_contrast_on_every_background() -> None:
    for colours in _grounds():
        for text in ("ink", "soft"):
            for ground in ("ground", "card", "well"):
                assert contrast(colours[text], colours[ground]) >= TEXT_CONTRAST, (text, ground)
        for ground in ("alarm-well", "note-well"):
            assert contrast(colours["ink"], colours[ground]) >= TEXT_CONTRAST
        assert contrast(colours["good"], colours["card"]) >= TEXT_CONTRAST
        assert contrast(colours["alarm"], colours["card"]) >= TEXT_CONTRAST
        assert contrast(colours["control"], colours["card"]) >= 3


def test_stylesheet_loads_no_other_files() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
