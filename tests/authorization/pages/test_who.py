"""What a person is called."""

from valetkey.authorization.layout.contexts import CurrentUser


def test_user_is_shown_by_name_and_email_address() -> None:
    ada = CurrentUser("ada", "Ada Lovelace", "ada@example.com")

    assert (ada.shown_name, ada.shown_account) == ("Ada Lovelace", "ada@example.com")


def test_user_without_a_name_is_shown_by_username() -> None:
    assert CurrentUser("ada").shown_name == "ada"
    assert CurrentUser("ada").shown_account == ""
    assert CurrentUser("ada", "Ada Lovelace").shown_account == "ada"
