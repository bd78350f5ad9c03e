"""Subjects: one name for all, or another in each sector (Core section 8)."""

from hypothesis import given
from hypothesis import strategies as st

from valetkey.authorization.model.client import Client, OpenIdRegistration, client_without_rights
from valetkey.authorization.model.user import LARGEST_UID, Uid, User
from valetkey.authorization.tokens.id_token import Subjects, sector_of
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import FingerprintKey

NOW = Instant(1_800_000_000)
SUBJECTS = Subjects(FingerprintKey(bytes(32)))
UIDS = st.integers(1, LARGEST_UID).map(Uid)


def _user(uid: Uid) -> User:
    return User(uid, "ada", "ada@example.com", None, "", NOW, NOW, None)


def _client(client_id: str = "app", sector: str = "", *uris: str, pairwise: bool = True) -> Client:
    registration = OpenIdRegistration(
        subject_type="pairwise" if pairwise else "public", sector=sector
    )
    return replace(client_without_rights(client_id, NOW), openid=registration, redirect_uris=uris)


def test_a_public_subject_is_the_uid() -> None:
    assert SUBJECTS.subject_of(_user(Uid(1001)), _client(pairwise=False)) == "1001"


@given(UIDS, UIDS)
def test_pairwise_subject_is_stable_and_unique(one: Uid, other: Uid) -> None:
    client = _client(sector="a.example")
    name = SUBJECTS.subject_of(_user(one), client)
    assert name == SUBJECTS.subject_of(_user(one), _client("other", "a.example"))
    assert (name == SUBJECTS.subject_of(_user(other), client)) == (one == other)
    assert len(name) <= 255
    assert name.isascii()
    assert str(one) != name


def test_pairwise_subject_differs_by_sector_and_keyring() -> None:
    user = _user(Uid(1001))
    names = {SUBJECTS.subject_of(user, _client(sector=name)) for name in ("a.example", "b.example")}
    names.add(Subjects(FingerprintKey(b"\1" * 32)).subject_of(user, _client(sector="a.example")))
    assert len(names) == 3


def test_the_sector_is_registered_or_the_host_of_the_redirect_uris() -> None:
    assert sector_of(_client("app", "s.example", "https://a.example/cb")) == "s.example"
    assert sector_of(_client("app", "", "https://a.example/cb", "https://a.example:8443/x")) == (
        "a.example"
    )
    alone = {sector_of(_client("app")), sector_of(_client("other", "", "com.example.app:/cb"))}
    assert len(alone) == 2


def test_pairwise_session_id_differs_by_sector_and_hides_the_real_id() -> None:
    assert SUBJECTS.session("se_1", _client(pairwise=False)) == "se_1"
    here, there = _client("one", "a.example"), _client("two", "b.example")
    assert SUBJECTS.session("se_1", here) == SUBJECTS.session("se_1", _client("x", "a.example"))
    names = [SUBJECTS.session(of, client) for of in ("se_1", "se_2") for client in (here, there)]
    assert len(set(names)) == 4
    assert not any("se_1" in name or "se_2" in name for name in names)
