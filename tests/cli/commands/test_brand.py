"""`valetkey brand`: the brand is shown and changed while servers run."""

from pathlib import Path

import requests
from PIL import Image

from tests.cli.running import valetkey
from tests.cli.site import begin, serving
from tests.support.wait import CEILING


def test_brand_is_shown_changed_and_reset(tmp_path: Path) -> None:
    begin(tmp_path)
    before = valetkey("brand", "--json", here=tmp_path).json
    assert before["accent"] == "#2456d6"
    ran = valetkey("brand", "--name", "Acme", "--accent", "#0A7D4F", here=tmp_path)
    assert ran.code == 0, ran.err
    assert "Acme" in ran.out
    after = valetkey("brand", "--json", here=tmp_path).json
    assert (after["name"], after["accent"]) == ("Acme", "#0a7d4f")
    events = valetkey("events", "--json", here=tmp_path).out
    assert '"brand.changed"' in events
    assert '"before": "#2456d6"' in events
    assert valetkey("brand", "--reset", "--json", here=tmp_path).json == before


def test_invalid_value_is_refused_with_the_name_of_its_option(tmp_path: Path) -> None:
    begin(tmp_path)
    for option, value in (("--accent", "red"), ("--logo-url", "http://x")):
        ran = valetkey("brand", option, value, here=tmp_path)
        assert ran.code == 2
        assert f"{option}: " in ran.err
    assert valetkey("brand", "--json", here=tmp_path).json["accent"] == "#2456d6"


def test_logo_of_another_server_is_refused_and_never_shown(tmp_path: Path) -> None:
    file = begin(tmp_path)
    logo = "https://images.example/logo.svg"
    html = {"Accept": "text/html"}
    assert valetkey("config", "check", here=tmp_path).code == 0
    file.write_text(f'{file.read_text()}\n[brand]\nlogo_url = "{logo}"\n')

    checked = valetkey("config", "check", here=tmp_path)
    assert checked.code == 2
    assert "brand.logo_url" in checked.err
    assert "brand.theme" in checked.err

    with serving(tmp_path) as site, requests.Session() as browser:
        for path in ("/", "/account/", "/errors/invalid_request", "/nothing"):
            page = browser.get(site.authorization + path, headers=html, timeout=CEILING)
            assert "; img-src 'self';" in page.headers["content-security-policy"], path
            assert "<img" in page.text, path
            assert "images.example" not in page.text + page.headers["content-security-policy"]
        ran = valetkey("brand", "--logo-url", f"{logo}?other", here=tmp_path)
        assert ran.code == 2
        assert "--logo-url" in ran.err
        assert valetkey("brand", "--logo-url", "/brand/logo.svg", here=tmp_path).code == 0
    assert "brand.logo_ignored" in site.log.read_text()


def test_a_logo_is_stored_as_a_copy(tmp_path: Path) -> None:
    begin(tmp_path)
    Image.new("RGB", (900, 200), "red").save(tmp_path / "logo.png")
    shown = valetkey("brand", "--logo", "logo.png", "--json", here=tmp_path).json
    assert str(shown["logo_url"]).startswith("/logos/")
    assert shown["logo_dark_url"] == ""
    (tmp_path / "logo.svg").write_text("<svg/>")
    ran = valetkey("brand", "--logo-dark", "logo.svg", here=tmp_path)
    assert ran.code
    assert "SVG is not accepted" in ran.err
