"""Filters of SCIM: what they mean, and which need no reading of all resources."""

import pytest

from valetkey.authorization.scim.endpoints.filter import candidates, matches, parse_filter
from valetkey.authorization.scim.endpoints.schema import USER, Resource

_GRACE: Resource = {
    "id": "7",
    "userName": "Grace@example.com",
    "externalId": "aB",
    "name": {"familyName": "Hopper"},
    "active": True,
    "emails": [{"value": "grace@example.com", "type": "work"}, {"value": "g@home.example"}],
    "meta": {"created": "2027-01-15T08:00:00Z"},
}
_INDEXED = frozenset({"id", "userName", "emails.value"})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('userName eq "grace@EXAMPLE.com"', True),
        ('USERNAME Eq "grace@example.com"', True),
        ('urn:ietf:params:scim:schemas:core:2.0:User:userName sw "grace"', True),
        ('externalId eq "ab"', False),
        ('externalId ne "ab"', True),
        ('userName ew ".org"', False),
        ('name.familyName co "opp"', True),
        ("name.givenName pr", False),
        ("name.givenName eq null", True),
        ("emails pr and not (name.middleName pr)", True),
        ("active eq true", True),
        ('active ne "True"', False),
        ('emails.value eq "g@home.example"', True),
        ('emails co "home"', True),
        ('emails[type eq "work" and value co "home"]', False),
        ('emails[type eq "work"] and id eq "7"', True),
        ('emails[type eq "work"].value eq "grace@example.com"', True),
        ('emails[type eq "work"].value eq "g@home.example"', False),
        ('emails[type eq "work"].value sw "grace" and active eq true', True),
        ('meta.created gt "2027-01-01T00:00:00Z"', True),
        ('meta.created le "2027-01-01T00:00:00Z"', False),
        ('id eq "8" or id eq "7" and active eq false', False),
        ('(id eq "8" or id eq "7") and active eq true', True),
        ('userName eq "gr\\u0061ce@example.com"', True),
    ],
)
def test_a_filter_means_what_rfc_7644_says(text: str, *, holds: bool) -> None:
    assert matches(parse_filter(text, USER), _GRACE) is holds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('userName eq "a"', ["a"]),
        ('active eq true and userName eq "a"', ["a"]),
        ('id eq "1" or userName eq "a"', ["1", "a"]),
        ('(id eq "1" or id eq "2") and active eq true', ["1", "2"]),
        ('emails[type eq "work" and value eq "a"]', ["a"]),
        ('emails[type eq "work"].value eq "a"', ["a"]),
        ('emails[type eq "work"]', None),
        ('id eq "1" or active eq true', None),
        ('not (id eq "1")', None),
        ('id ne "1"', None),
        ("id pr", None),
    ],
)
def test_filter_yields_its_indexed_comparisons_or_none(text: str, found: list[str] | None) -> None:
    compared = candidates(parse_filter(text, USER), _INDEXED)
    assert (None if compared is None else [comparison.value for comparison in compared]) == found
