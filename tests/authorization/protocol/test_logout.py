"""Signing out by the letter."""

from hashlib import sha256

from valetkey.authorization.protocol.logout import session_state


def test_the_session_state_is_a_hash_and_its_salt() -> None:
    state = session_state("app", "https://app.example", "state", "salt")
    expected = sha256(b"app https://app.example state salt").hexdigest()
    assert state == f"{expected}.salt"


def test_the_session_state_differs_for_each_client_origin_state_and_salt() -> None:
    states = {
        session_state("app", "https://app.example", "state", "salt"),
        session_state("other", "https://app.example", "state", "salt"),
        session_state("app", "https://other.example", "state", "salt"),
        session_state("app", "https://app.example", "", "salt"),
        session_state("app", "https://app.example", "state", "pepper"),
    }
    assert len(states) == 5
