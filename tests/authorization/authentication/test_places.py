"""The place of an IP address, and files that are none or are damaged."""

from collections.abc import Iterator
from contextvars import Context, copy_context
from pathlib import Path

import pytest

from tests.support.geo import JAPAN, USUAL, Pointer, encode, geo_database
from valetkey.authorization.authentication.places import PLACES, Places
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import ISSUER


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "geo.mmdb"


@pytest.fixture
def places() -> Iterator[Places]:
    """Places that are closed in the end."""
    opened = Places()
    yield opened
    opened.use(None)


@pytest.mark.parametrize("bits", [24, 28, 32])
def test_city_and_country_are_named_in_the_language_of_the_page(
    file: Path, places: Places, bits: int
) -> None:
    places.use(geo_database(file, bits=bits))
    assert places.place_of("203.0.113.7", "en") == "Berlin, Germany"
    assert places.place_of("203.0.113.255", "de") == "Berlin, Deutschland"
    # A name that the file does not have in a language is in English.
    assert places.place_of("203.0.113.7", "fr") == "Berlin, Germany"
    assert places.place_of("2001:db8::1", "fr") == "Japon"
    for unknown in ("203.0.114.1", "2001:db9::", "192.0.2.1", "", "no address"):
        assert places.place_of(unknown, "en") == ""


def test_pointers_of_every_size_are_followed(file: Path, places: Places) -> None:
    filler = encode("x" * 600_000)
    name = encode({"names": {"en": "Far"}})
    near, middle, far = name, filler[:3_000] + name, filler + name
    for data in (near, middle, far):
        to = len(data) - len(name)
        geo_database(file, {"203.0.113.0/24": {"country": Pointer(to)}}, data=data, bits=32)
        places.use(file)
        assert places.place_of("203.0.113.7", "en") == "Far"


def test_each_issuer_of_a_process_uses_its_own_geo_database(file: Path) -> None:
    def places_with(name: str, of: Path | None) -> Context:
        context = copy_context()
        context.run(ISSUER.set, name)
        context.run(PLACES.use, of)
        return context

    one, other = places_with("a", geo_database(file)), places_with("b", None)
    assert one.run(PLACES.place_of, "203.0.113.7", "en") == "Berlin, Germany"
    assert other.run(PLACES.place_of, "203.0.113.7", "en") == ""
    one.run(PLACES.use, None)


def test_no_file_means_no_places() -> None:
    places = Places()
    places.use(None)
    assert places.place_of("203.0.113.7", "en") == ""


def test_unusable_file_is_named_with_its_setting(file: Path) -> None:
    def message() -> str:
        with pytest.raises(OperatorError) as caught:
            Places().use(file)
        assert caught.value.setting == "privacy.geo_database"
        assert str(file) in str(caught.value)
        return str(caught.value)

    assert "No such file" in message()
    file.write_bytes(b"")
    assert "not a MaxMind DB file" in message()
    geo_database(file, kind="GeoLite2-ASN")
    assert "of another kind: 'GeoLite2-ASN'" in message()
    whole = geo_database(file).read_bytes()
    file.write_bytes(whole[len(whole) // 2 :])
    assert "it is damaged" in message()
    file.write_bytes(whole[:-20])
    assert "it is damaged" in message()
    file.unlink()
    file.mkdir()
    assert "cannot be used" in message()


def test_unusable_file_leaves_the_places_from_before(
    file: Path, places: Places, tmp_path: Path
) -> None:
    places.use(geo_database(file))
    with pytest.raises(OperatorError):
        places.use(tmp_path / "none.mmdb")
    assert places.place_of("203.0.113.7", "en") == "Berlin, Germany"
    geo_database(tmp_path / "other.mmdb", {"203.0.113.0/24": JAPAN})
    places.use(tmp_path / "other.mmdb")
    assert places.place_of("203.0.113.7", "en") == "Japan"


def test_file_that_is_overwritten_in_place_gives_no_place_and_no_error(
    file: Path, places: Places
) -> None:
    places.use(geo_database(file))
    size = file.stat().st_size
    file.write_bytes(b"")
    assert places.place_of("203.0.113.7", "en") == ""
    file.write_bytes(b"\xff" * size)
    assert places.place_of("203.0.113.8", "en") == ""


@pytest.mark.parametrize(
    ("record", "data"),
    [
        pytest.param({"city": Pointer(0)}, encode(Pointer(0)), id="pointer to itself"),
        pytest.param({"city": Pointer(1 << 30)}, b"", id="pointer outside"),
        pytest.param({"city": Pointer(0)}, b"\xfe\xff\xff", id="map without its entries"),
        pytest.param({"city": Pointer(0)}, encode([[]] * 70_000), id="too many values"),
        pytest.param({"a": [Pointer(0)] * 60}, encode("x" * 40_000), id="one text many times"),
        pytest.param({"city": Pointer(0)}, b"\x42\xff\xff", id="text that is not UTF-8"),
        pytest.param({"city": Pointer(0)}, b"\x00\xff", id="unknown type"),
        pytest.param({"city": Pointer(0)}, b"\xe1\xa0\xa0", id="name that is no text"),
    ],
)
def test_hostile_record_is_refused_and_shown_as_no_place(
    file: Path, places: Places, record: dict[str, object], data: bytes
) -> None:
    geo_database(file, {**USUAL, "198.51.100.0/24": record}, data=data)
    places.use(file)
    assert places.place_of("198.51.100.1", "en") == ""
    assert places.place_of("203.0.113.7", "en") == "Berlin, Germany"


def test_deep_nesting_is_shown_as_no_place(file: Path, places: Places) -> None:
    nested = encode("x")
    for _ in range(600):
        nested = encode([]).replace(b"\x00", b"\x01", 1) + nested
    record = {"city": Pointer(0), "country": {"names": {"en": "Germany"}}}
    geo_database(file, {"203.0.113.0/24": record}, data=nested)
    places.use(file)
    assert places.place_of("203.0.113.1", "en") == ""


def test_long_names_are_cut(file: Path, places: Places) -> None:
    long = {"country": {"names": {"en": "x" * 500, "de": 7}}}
    places.use(geo_database(file, {"203.0.113.0/24": long}))
    assert places.place_of("203.0.113.1", "de") == "x" * 80
