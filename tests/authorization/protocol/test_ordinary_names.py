"""Ordinary names of people and products are not taken for look-alikes."""

from itertools import product
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import OPEN, asked_to_sign_up, browser, run
from tests.support.harness import Harness
from valetkey.authorization.actions.users import is_choosable, is_reserved
from valetkey.authorization.protocol.register.self_registration import (
    RESERVED,
    look_alike,
    name_fault,
)
from valetkey.config.sections.people import MailSettings

_NAMES = """
aaliyah abdul adam aditi agnieszka ahmed aiko alessia ali alice amelie amir ana anders
andrzej anil anna antonio arjun ayse bela bjorn bruno camila carlos chen chloe claire daan
daniel dario david diego dmitri ebru eda eli elif elin elsa emil emma eric erin esra eva
fatima felix fernando finn francois frida giulia goran grace hans haruto helena henrik hiroshi
hugo ian ibrahim igor ingrid isabel ivan jack jan jens jia jill joao johanna jose julia
juan kai karin katarzyna kenji khadija kim klaus lars laura lea leila leo li liam lina ling
lisa louis lucia luca luis luka lukas magda maja malik mamadou marco maria marta mateo matteo
max mehmet mei mia mikael milan min mohamed nadia naomi nils nina noah nora nuria ola olga
olivia omar oscar pablo paolo paul pavel pedro peter petra pia pierre piotr priya quentin
rafael raj ravi ren robin rosa ruth ryo sadia saga sami samuel sara sasha sean selim siri
sofia soren stefan sven tarek thea theo thomas tim timo tom ulla uma ursula valentina vera
victor vikram viktor wei will xenia yan yara yuki yusuf zara zoe zofia root1 users2 adminson
selfridge service42 infante apia clio roland helper98 ownerby
"""
NAMES = _NAMES.split()
SURNAMES = ("", ".silva", "-muller", "_kim")
DIGITS = ("", *map(str, range(10)), "01", "05", "10", "33", "51", "55", "99", "100", "1985", "2005")
PRODUCTS = (
    "1Password", "7-Zip", "Area 51 Maps", "Forum 5", "Gitea", "Grafana 10", "Immich", "Jellyfin",
    "Moodle", "Nextcloud", "Notes 2", "Note5", "Office 365", "Paperless-ngx", "Photos 1",
    "Redmine 5", "Studio 3", "Turbo C++ 3.0", "VLC", "Web 2.0 Reader", "Windows 10 Widget",
    "Wiki.js", "Zulip 8",
)  # fmt: skip


def test_ordinary_usernames_are_free() -> None:
    refused = [
        name + surname + digits
        for name, surname, digits in product(NAMES, SURNAMES, DIGITS)
        if is_reserved(name + surname + digits, ("Valetkey", "Acme Corp"))
        or (len(name + surname + digits) >= 3 and not is_choosable(name + surname + digits))
    ]
    assert not refused


def test_digits_inside_a_word_are_still_read_as_letters() -> None:
    for name in (
        "adm1n",
        "r00t",
        "5upport",
        "sy5tem",
        "va1etkey",
        "us3rs",
        "0wner",
        "nul1",
        "inf0",
    ):
        assert is_reserved(name), name
    for number in range(10):
        assert not is_reserved(f"user{number}"), number
        assert not is_reserved(f"admin{number}"), number


@pytest.mark.parametrize("name", PRODUCTS)
def test_ordinary_product_names_can_be_registered_beside_each_other(name: str) -> None:
    assert name_fault(name, RESERVED) == ""
    assert not look_alike(name, [product_name for product_name in PRODUCTS if product_name != name])


def test_trailing_number_of_an_app_name_is_not_read_as_a_letter() -> None:
    for name, other in (("Forum 5", "Forums"), ("Note5", "Notes"), ("Web 10", "Weblo")):
        assert not look_alike(name, [other]), name
    for name, other in (("Paypa1", "PayPal"), ("G00gle", "Google"), ("5lack", "Slack")):
        assert look_alike(name, [other]), name


def test_user_with_a_trailing_digit_signs_up(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for number in range(10):
            name = f"user{number}"
            answer = await asked_to_sign_up(
                it, browser(it), username=name, email=f"{name}@example.com"
            )
            assert answer.status == 303, name

    run(tmp_path, story, accounts=OPEN, mail=MailSettings())
