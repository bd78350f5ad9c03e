"""One example of every page about the person, and those that are hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago, happened
from valetkey.authorization.actions.account.profile import FIELDS, ProfileFault
from valetkey.authorization.layout.contexts import AccountNotice, AskingApp, CurrentUser
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.site.account.overview import (
    AccountOverviewPage,
    AppLink,
    Recommendation,
)
from valetkey.authorization.site.account.profile import (
    PictureFault,
    PictureForms,
    ProfilePage,
    zone_menu,
)
from valetkey.authorization.site.account.removal import (
    DataPage,
    OwnedApp,
    RemovalPage,
    RemovalPlannedPage,
)
from valetkey.kernel.replace import replace

_HOSTILE = '"><script>alert(1)</script>'


def person_examples(person: CurrentUser, *apps: AskingApp) -> Mapping[str, PageContext]:
    """The pages of this person, with these apps on them."""
    new = AccountOverviewPage(
        "/oauth/sign-out",
        person,
        connected=0,
        sessions=1,
        password_since=ago(60),
        second_factor=False,
        email_verified=False,
        next_step=Recommendation.EMAIL,
        lines=(happened("session.started", ago(5)), happened("user.registered", ago(60))),
    )
    settled = replace(
        new,
        connected=len(apps),
        sessions=3,
        password_since=ago(9_000_000),
        email_verified=True,
        next_step=Recommendation.SECOND_FACTOR,
        lines=(
            happened("session.started", ago(5)),
            happened("code.redeemed", ago(7_200), apps[0].name),
            happened("session.ended", ago(90_000), because="signed_out_elsewhere"),
            happened("consent.given", ago(4_000_000), apps[0].name),
        ),
    )
    can_open = tuple(
        AppLink(app.name, app.domain, f"/oauth/start?client_id={number}")
        for number, app in enumerate(apps)
    )
    return {
        "home": new,
        "home_settled": settled,
        "home_apps": replace(settled, apps=can_open),
        "home_notices": replace(
            settled,
            notices=(
                AccountNotice(f"The cafeteria opens at noon. {_HOSTILE}"),
                AccountNotice("Verify email", "Verify email", "/account/email"),
            ),
        ),
        "home_safe": replace(
            settled,
            password_since=None,
            second_factor=True,
            next_step=Recommendation.NOTHING,
            lines=(),
        ),
        **_profiles(person),
        **_ends(person, apps[-1]),
    }


def _profiles(person: CurrentUser) -> Mapping[str, PageContext]:
    empty = dict.fromkeys(FIELDS, "") | {"username": person.username}
    full = empty | {
        "name": person.name,
        "given_name": "Ada",
        "family_name": "Lovelace",
        "birthdate": "1815-12-10",
        "website": "https://ada.example",
        "zoneinfo": "Europe/London",
        "locale": "en-GB",
        "phone_number": "+442079460000",
        "street_address": "12 St James’s Square",
        "locality": "London",
    }
    page = ProfilePage(
        "/account/profile",
        "mark",
        full,
        person.email,
        email_verified=True,
        languages=(("en", "English"), ("de", "Deutsch")),
        zones=zone_menu(""),
    )
    every = dict.fromkeys(FIELDS, ProfileFault.WRONG)
    return {
        "profile": page,
        "profile_empty": replace(page, typed=empty, email_verified=False),
        "profile_saved": replace(page, saved=True),
        "profile_with_picture": replace(page, picture=PictureForms(f"/pictures/{'A' * 22}")),
        "profile_without_file": replace(page, picture=PictureForms(fault=PictureFault.MISSING)),
        "profile_large_picture": replace(page, picture=PictureForms(fault=PictureFault.LARGE)),
        "profile_no_picture": replace(page, picture=PictureForms(fault=PictureFault.UNUSABLE)),
        "profile_taken": replace(page, faults={"username": ProfileFault.TAKEN}),
        "profile_wrong": replace(page, faults=every),
        "profile_overtaken": replace(
            page, overtaken=True, stored={"name": "Augusta Ada", "nickname": ""}
        ),
        "profile_hostile": replace(
            page,
            overtaken=True,
            stored={"name": f"\u202e{_HOSTILE} {{{{ 7*7 }}}} %(name)s %s"},
        ),
    }


def _ends(person: CurrentUser, hostile: AskingApp) -> Mapping[str, PageContext]:
    data = DataPage("/account/data", "https://api.example")
    removal = RemovalPage("/account/delete", person.username, 3, 2, 7)
    return {
        "data": data,
        "data_proved": replace(data, proved=True),
        "removal": removal,
        "removal_alone": replace(removal, apps=0, sessions=1, days=1),
        "removal_wrong": replace(removal, typed="adda", wrong=True),
        "removal_owner": replace(removal, last_owner=True),
        "removal_hostile": replace(
            removal, owned=(OwnedApp("app 1&x=2", hostile.name), OwnedApp("b", "Notes Printer"))
        ),
        "removal_planned": RemovalPlannedPage(ago(-604_800), "/oauth/sign-in"),
    }
