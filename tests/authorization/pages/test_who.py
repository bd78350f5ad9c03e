"""What a person is called."""

from valetkey.authorization.layout.contexts import CurrentUser


def test_calls_a_person_by_name_and_tells_them_apart_by_address() -> None:
    ada = CurrentUser("ada", "Ada Lovelace", "ada@example.com")

    assert (ada.shown_name, ada.shown_account) == ("Ada Lovelace", "ada@example.com")


def test_makes_do_with_a_user_name() -> None:
    assert CurrentUser("ada").shown_name == "ada"
    assert CurrentUser("ada").shown_account == ""
    assert CurrentUser("ada", "Ada Lovelace").shown_account == "ada"
