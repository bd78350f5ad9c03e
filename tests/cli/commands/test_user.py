"""`valetkey user`: accounts made, listed, switched off and on; passwords never in arguments."""

from pathlib import Path

from tests.cli.running import Ran, valetkey
from tests.cli.site import begin


def user(here: Path, *arguments: str, typed: str = "") -> Ran:
    return valetkey("user", *arguments, here=here, typed=typed)


def make_ada(here: Path) -> Ran:
    begin(here)
    arguments = ("ada", "--email", "ada@example.com", "--name", "Ada Lovelace", "--uid", "1001")
    ran = user(here, "create", *arguments, "--password-stdin", typed="correct horse\n")
    assert ran.code == 0, ran.err
    return ran


def test_account_is_created_with_a_password_from_a_pipe(tmp_path: Path) -> None:
    ran = make_ada(tmp_path)
    assert "uid 1001" in ran.out
    assert "correct horse" not in ran.out + ran.err
    (ada,) = user(tmp_path, "list", "--json").json
    assert (ada["uid"], ada["username"], ada["email"]) == (1001, "ada", "ada@example.com")
    assert ada["disabled_at"] is None


def test_generated_password_is_printed_once_and_not_stored(tmp_path: Path) -> None:
    begin(tmp_path)
    arguments = ("bob", "--email", "bob@example.com", "--generate-password", "--json")
    made = user(tmp_path, "create", *arguments).json
    assert len(made["password"]) >= 16
    assert 0 < made["uid"] < 1 << 53
    listed = user(tmp_path, "list", "--json").out
    assert made["password"] not in listed
    for file in (tmp_path / "valetkey").iterdir():
        assert made["password"].encode() not in file.read_bytes()


def test_account_without_a_password_is_created_without_a_question(tmp_path: Path) -> None:
    begin(tmp_path)
    bob = ("bob", "--email", "bob@example.com", "--password-link", "none")
    made = user(tmp_path, "create", *bob)
    assert made.code == 0, made.err
    assert "password:" not in made.out
    assert user(tmp_path, "password-link", "bob", "--password-link", "show").code == 0
    eve = ("eve", "--email", "eve@example.com", "--password-link", "none", "--generate-password")
    assert "password:" in user(tmp_path, "create", *eve).out


def test_all_faults_of_an_account_are_reported_together(tmp_path: Path) -> None:
    begin(tmp_path)
    options = ("--name", "x" * 201, "--email", "bob", "--generate-password")
    ran = user(tmp_path, "create", "bob", *options)
    assert ran.code == 2
    assert "--name: " in ran.err
    assert "--email: " in ran.err
    options = ("--birthdate", "1815-13-01", "--email", "b@example.com", "--generate-password")
    ran = user(tmp_path, "create", "b ob", *options)
    assert ran.code == 2
    assert "username: " in ran.err
    assert "--birthdate: " in ran.err


def test_username_is_unique_regardless_of_case(tmp_path: Path) -> None:
    make_ada(tmp_path)
    ran = user(tmp_path, "create", "ADA", "--email", "other@example.com", "--generate-password")
    assert ran.code == 2
    assert "taken" in ran.err
    assert len(user(tmp_path, "list", "--json").json) == 1


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    begin(tmp_path)
    arguments = ("ada", "--email", "ada@example.com", "--password-stdin")
    ran = user(tmp_path, "create", *arguments, typed="short\n")
    assert ran.code == 2
    assert "at least 8 characters" in ran.err


def test_without_a_terminal_the_command_says_how_to_pass_a_password(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = user(tmp_path, "create", "ada", "--email", "ada@example.com")
    assert ran.code == 2
    assert "--password-stdin" in ran.err


def test_account_is_disabled_and_enabled_by_any_of_its_names(tmp_path: Path) -> None:
    make_ada(tmp_path)
    unasked = user(tmp_path, "disable", "ada")
    assert unasked.code == 2
    assert "--yes" in unasked.err
    assert user(tmp_path, "list", "--json").json[0]["disabled_at"] is None
    assert user(tmp_path, "disable", "Ada@Example.com", "--yes").code == 0
    assert user(tmp_path, "list", "--json").json[0]["disabled_at"] is not None
    assert "No changes" in user(tmp_path, "disable", "1001", "--yes").out
    assert user(tmp_path, "enable", "1001").code == 0
    assert user(tmp_path, "list", "--json").json[0]["disabled_at"] is None


def test_a_password_is_replaced(tmp_path: Path) -> None:
    make_ada(tmp_path)
    ran = user(tmp_path, "password", "ada", "--password-stdin", typed="another horse\n")
    assert ran.code == 0
    assert "another horse" not in ran.out + ran.err
    unknown = user(tmp_path, "password", "eve", "--generate-password")
    assert unknown.code == 2
    assert "valetkey user list" in unknown.err


def test_empty_user_list_suggests_user_create(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = user(tmp_path, "list")
    assert ran.code == 0
    assert "valetkey user create" in ran.err


def test_standard_claims_are_set_on_create_and_shown(tmp_path: Path) -> None:
    begin(tmp_path)
    options = (
        *("--given-name", "Ada", "--birthdate", "1815-12-10", "--zoneinfo", "Europe/London"),
        *("--phone-number", "+442079460000", "--phone-number-verified", "--locality", "London"),
    )
    made = ("bob", "--email", "b@example.com", *options, "--generate-password", "--json")
    assert user(tmp_path, "create", *made).json["given_name"] == "Ada"
    shown = user(tmp_path, "show", "b@example.com", "--json").json
    assert (shown["birthdate"], shown["zoneinfo"]) == ("1815-12-10", "Europe/London")
    assert shown["phone_number_verified"] is True
    assert shown["address"] == {"locality": "London"}
    ran = user(tmp_path, "show", "bob")
    assert "+442079460000" in ran.out
    assert "website" not in ran.out


def test_account_change_leaves_other_fields_unchanged(tmp_path: Path) -> None:
    make_ada(tmp_path)
    first = ("--nickname", "Countess", "--phone-number", "+442079460000", "--email-unverified")
    ran = user(tmp_path, "change", "ada", *first)
    assert "nickname               Countess" in ran.out
    assert "email_verified         no" in ran.out
    ran = user(tmp_path, "change", "1001", "--phone-number", "", "--country", "UK", "--json")
    assert (ran.json["nickname"], ran.json["phone_number"]) == ("Countess", "")
    assert (ran.json["email_verified"], ran.json["address"]) == (False, {"country": "UK"})
    changed_at = ran.json["changed_at"]
    again = user(tmp_path, "change", "ada", "--country", "UK", "--json")
    assert (again.code, again.json["changed_at"]) == (0, changed_at)
    renamed = user(tmp_path, "change", "ada", "--username", "lovelace", "--name", "A. L.")
    assert renamed.code == 0
    assert user(tmp_path, "show", "lovelace", "--json").json["name"] == "A. L."


def test_invalid_change_reports_all_faults_and_changes_nothing(tmp_path: Path) -> None:
    make_ada(tmp_path)
    wrong = ("--birthdate", "1815-13-01", "--picture", "http://x/", "--locale", "en US")
    ran = user(tmp_path, "change", "ada", "--nickname", "Countess", *wrong)
    assert ran.code == 2
    for name in ("birthdate: ", "picture: ", "locale: "):
        assert name in ran.err
    assert user(tmp_path, "show", "ada", "--json").json["nickname"] == ""
    nobody = user(tmp_path, "show", "nobody")
    assert (nobody.code, "valetkey user list" in nobody.err) == (2, True)


def test_deleted_account_cannot_be_enabled_and_its_name_can_be_reused(tmp_path: Path) -> None:
    make_ada(tmp_path)
    refusal = user(tmp_path, "delete", "ada", typed="n\n")
    assert refusal.code != 0
    assert user(tmp_path, "show", "ada").code == 0
    ran = user(tmp_path, "delete", "ada", "--yes")
    assert (ran.code, ran.out) == (
        0,
        "Account deleted. All its sessions and app access are revoked.\n",
    ), ran.err
    assert user(tmp_path, "show", "ada").code == 2
    assert "Lovelace" not in user(tmp_path, "list", "--json").out
    assert user(tmp_path, "enable", "1001").code == 2
    again = user(tmp_path, "create", "ada", "--email", "ada@example.com", "--generate-password")
    assert again.code == 0


def test_reset_factors_needs_confirmation(tmp_path: Path) -> None:
    make_ada(tmp_path)
    assert user(tmp_path, "reset-factors", "ada").code == 2
    ran = user(tmp_path, "reset-factors", "ada", "--yes")
    assert ran.code == 0
    assert "No changes" in ran.out


def test_email_address_is_changed_and_verified_and_invalid_one_is_refused(tmp_path: Path) -> None:
    make_ada(tmp_path)
    ran = user(tmp_path, "change-email", "ada", "ada@lovelace.example", "--json")
    assert (ran.code, ran.json["email"]) == (0, "ada@lovelace.example")
    assert ran.json["email_verified"] is False
    refused = user(tmp_path, "change-email", "ada", "nowhere")
    assert (refused.code, "email: " in refused.err) == (2, True)
    assert user(tmp_path, "verify-email", "ada").code == 0
    assert user(tmp_path, "show", "ada", "--json").json["email_verified"] is True
    assert user(tmp_path, "send-reset", "ada").code == 2
