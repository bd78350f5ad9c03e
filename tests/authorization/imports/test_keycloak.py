"""`valetkey import keycloak`: what a realm becomes, and what is left out of it."""

import base64
import hashlib
import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.running import Ran, valetkey
from tests.cli.site import begin, serving

_SALT = b"0123456789abcdef"
_SECRET = "a-secret-that-is-long-enough-to-be-kept"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pbkdf2(password: str, name: str = "sha512") -> dict[str, str]:
    digest = hashlib.pbkdf2_hmac(name, password.encode(), _SALT, 1_000)
    secret = {"value": _text(digest), "salt": _text(_SALT), "additionalParameters": {}}
    costs = {"hashIterations": 1_000, "algorithm": f"pbkdf2-{name}", "additionalParameters": {}}
    return {
        "type": "password",
        "secretData": json.dumps(secret),
        "credentialData": json.dumps(costs),
    }


def _argon2(memory: str) -> dict[str, str]:
    more = {
        "hashLength": ["32"],
        "memory": [memory],
        "type": ["id"],
        "version": ["1.3"],
        "parallelism": ["1"],
    }
    costs = {"hashIterations": 5, "algorithm": "argon2", "additionalParameters": more}
    secret = {"value": _text(_SALT * 2), "salt": _text(_SALT)}
    return {
        "type": "password",
        "secretData": json.dumps(secret),
        "credentialData": json.dumps(costs),
    }


_REALM: dict[str, Any] = {
    "realm": "acme",
    "accessTokenLifespan": 300,
    "roles": {
        "realm": [
            {"name": "reader", "description": "may read"},
            {"name": "chief", "composite": True, "composites": {"realm": ["reader"]}},
            {"name": "offline_access", "description": "${role_offline-access}"},
        ],
        "client": {"shop": [{"name": "buyer"}], "account": [{"name": "view-profile"}]},
    },
    "groups": [
        {
            "name": "staff",
            "path": "/staff",
            "clientRoles": {"shop": ["buyer"]},
            "subGroups": [{"name": "R & D", "path": "/staff/R & D", "subGroups": []}],
        }
    ],
    "users": [
        {
            "id": "8c1d0f3e-0000-4000-8000-000000000001",
            "username": "ada@acme.example",
            "email": "ada@acme.example",
            "emailVerified": True,
            "enabled": True,
            "firstName": "Ada",
            "lastName": "Lovelace",
            "credentials": [_pbkdf2("difference engine"), {"type": "otp", "secretData": "{}"}],
            "realmRoles": ["chief", "offline_access"],
            "groups": ["/staff/R & D"],
            "attributes": {
                "locale": ["not a language"],
                "badge": ["7", "8"],
                "nickname": ["Countess"],
            },
        },
        {
            "username": "admin",
            "email": "boss@acme.example",
            "enabled": False,
            "credentials": [{"type": "password", "value": "plain words"}],
        },
        {"username": "costly", "email": "c@acme.example", "credentials": [_argon2("99999999")]},
        {"username": "argon", "email": "a@acme.example", "credentials": [_argon2("7168")]},
        {"username": "double", "email": "Ada@acme.example"},
        {"username": "nobody-knows"},
        {"username": "service-account-shop", "serviceAccountClientId": "shop"},
    ],
    "clients": [
        {
            "clientId": "shop",
            "name": "Shop",
            "secret": _SECRET,
            "redirectUris": ["https://shop.acme.example/callback", "https://shop.acme.example/*"],
            "directAccessGrantsEnabled": True,
            "serviceAccountsEnabled": True,
            "attributes": {
                "post.logout.redirect.uris": "+##https://shop.acme.example/bye",
                "backchannel.logout.url": "https://shop.acme.example/logout",
                "pkce.code.challenge.method": "S256",
            },
            "protocolMappers": [{"name": "team"}],
        },
        {
            "clientId": "app",
            "publicClient": True,
            "rootUrl": "http://localhost:3000",
            "redirectUris": ["/*", "*"],
            "attributes": {"post.logout.redirect.uris": "+"},
        },
        {
            "clientId": "minus",
            "publicClient": True,
            "redirectUris": ["https://minus.acme.example/cb"],
            "attributes": {"post.logout.redirect.uris": "-"},
        },
        {
            "clientId": "tv",
            "publicClient": True,
            "standardFlowEnabled": False,
            "attributes": {"oauth2.device.authorization.grant.enabled": "true"},
        },
        {"clientId": "weak", "secret": "secret", "redirectUris": ["http://weak.acme.example/cb"]},
        {"clientId": "weaker", "secret": "secret", "redirectUris": ["https://weaker.acme.example"]},
        {"clientId": "old", "protocol": "saml"},
        {"clientId": "api", "bearerOnly": True},
        {"clientId": "https://sp.acme.example", "redirectUris": ["https://sp.acme.example/cb"]},
        {"clientId": "account", "redirectUris": ["/realms/acme/account/*"]},
    ],
    "identityProviders": [{"alias": "google"}],
    "clientScopes": [{"name": "profile"}, {"name": "orders"}],
    "components": {"org.keycloak.storage.UserStorageProvider": [{"name": "ldap"}]},
}


def _convert(here: Path, realm: object = _REALM, *more: str) -> Ran:
    (here / "realm.json").write_text(json.dumps(realm), encoding="utf-8")
    return valetkey("import", "keycloak", "realm.json", "--json", *more, here=here)


def _apply(here: Path) -> dict[str, Any]:
    return tomllib.loads((here / "apply.toml").read_text())


def test_realm_becomes_files_that_are_imported_and_applied(tmp_path: Path) -> None:
    begin(tmp_path)
    ran = _convert(tmp_path)
    assert ran.code == 0, ran.err
    assert (ran.json["users"], ran.json["clients"], ran.json["groups"]) == (4, 5, 5)
    for name in ("users.json", "apply.toml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    done = valetkey("user", "import", "users.json", "--yes", "--json", here=tmp_path)
    assert (done.code, done.json["created"]) == (0, 4)
    applied = valetkey("apply", "apply.toml", "--yes", here=tmp_path)
    assert applied.code == 0, applied.err
    again = valetkey("apply", "apply.toml", "--yes", here=tmp_path)
    assert again.code == 0, again.err
    members = valetkey("group", "members", "staff.R-D", "--json", here=tmp_path)
    assert "ada" in members.out
    with serving(tmp_path) as site:
        answer = httpx2.post(
            f"{site.authorization}/oauth/token",
            data={
                "grant_type": "password",
                "client_id": "shop",
                "client_secret": _SECRET,
                "username": "ada@acme.example",
                "password": "difference engine",
            },
        )
    assert "access_token" in answer.json()


def test_valid_client_metadata_is_converted_and_weak_secret_omitted(tmp_path: Path) -> None:
    assert _convert(tmp_path).code == 0
    clients = {client["client_id"]: client for client in _apply(tmp_path)["clients"]}
    assert list(clients) == ["shop", "app", "minus", "tv", "weaker"]
    shop, app = clients["shop"], clients["app"]
    uris = ["https://shop.acme.example/callback", "https://shop.acme.example/"]
    assert shop["redirect_uris"] == uris
    assert shop["post_logout_redirect_uris"] == [*uris, "https://shop.acme.example/bye"]
    assert shop["backchannel_logout_uri"] == "https://shop.acme.example/logout"
    assert shop["client_secret"] == _SECRET
    assert shop["requires_pkce"] is True
    assert {"password", "client_credentials"} <= set(shop["grant_types"])
    assert app["redirect_uris"] == app["post_logout_redirect_uris"] == ["http://localhost:3000/"]
    assert "post_logout_redirect_uris" not in clients["minus"]
    assert clients["tv"]["grant_types"] == [
        "urn:ietf:params:oauth:grant-type:device_code",
        "refresh_token",
    ]
    assert "client_secret" not in clients["weaker"]


def test_users_keep_hashes_names_groups_and_roles(tmp_path: Path) -> None:
    assert _convert(tmp_path).code == 0
    users = {user["username"]: user for user in json.loads((tmp_path / "users.json").read_text())}
    assert list(users) == ["ada", "admin-acme", "costly", "argon"]
    assert users["ada"]["password_hash"].startswith("$pbkdf2-sha512$i=1000$")
    assert users["ada"]["nickname"] == "Countess"
    assert users["ada"]["email_verified"] is True
    assert users["admin-acme"]["password_hash"].startswith("$argon2id$")
    assert "plain words" not in (tmp_path / "users.json").read_text()
    assert users["argon"]["password_hash"].startswith("$argon2id$v=19$m=7168,t=5,p=1$")
    assert "password_hash" not in users["costly"]
    content = _apply(tmp_path)
    members = {group["name"]: group.get("members", []) for group in content["groups"]}
    assert members == {
        "staff": [],
        "staff.R-D": ["ada"],
        "reader": ["ada"],
        "chief": ["ada"],
        "shop.buyer": ["ada"],
    }
    more = {user["username"]: user for user in content["users"]}
    assert more["ada"]["attributes"]["badge"] == ["7", "8"]
    assert more["ada"]["attributes"]["former_sub"] == _REALM["users"][0]["id"]
    assert more["admin-acme"]["disabled"] is True


def test_omitted_records_are_listed_with_the_reason(tmp_path: Path) -> None:
    left = {
        omission["what"]: omission["reason"] for omission in _convert(tmp_path).json["left_out"]
    }
    for what, why in {
        "user nobody-knows": "no email address",
        "user double": "another user",
        "user admin": "admin-acme",
        "user costly, password": "too costly",
        "user ada@acme.example, otp": "second factors",
        "user ada@acme.example, locale": "language tag",
        "client shop, redirect URI https://shop.acme.example/*": "byte by byte",
        "client app, redirect URI *": "byte by byte",
        "client shop, 1 protocol mappers": "[[claims]]",
        "client weak, redirect_uris http://weak.acme.example/cb": "https",
        "client weak": "no redirect URI",
        "client weaker, secret": "too short",
        "client old": "SAML",
        "client api": "[[apis]]",
        "client https://sp.acme.example": "its id",
        "identityProviders google": "[[federation.providers]]",
        "client scope orders": "[[apis]]",
        "user storage ldap": "SCIM",
        "group /staff/R & D": "staff.R-D",
    }.items():
        assert why in left.pop(what), what
    assert not [what for what in left if "account" in what]


def test_groups_and_roles_with_another_name_are_listed(tmp_path: Path) -> None:
    groups = [{"name": name} for name in ("C++", "C#", "admin", "plain")]
    realm = {"realm": "x", "groups": groups, "roles": {"realm": [{"name": "admin"}]}}
    left = {
        omission["what"]: omission["reason"]
        for omission in _convert(tmp_path, realm).json["left_out"]
    }
    assert list(left) == ["group /C++", "group /C#", "role admin"]
    for what, name in {"group /C++": "C:", "group /C#": "C-2:", "role admin": "admin-2:"}.items():
        assert f"the group is {name}" in left[what]


def test_other_files_and_existing_ones_are_refused(tmp_path: Path) -> None:
    for content in ('{"a": 1}', "[1]", "[]", "{", "[" * 100_000, '[{"realm":"a"},{"realm":"b"}]'):
        (tmp_path / "other.json").write_text(content)
        ran = valetkey("import", "keycloak", "other.json", here=tmp_path)
        assert (ran.code, ran.err[:7], len(ran.err.splitlines())) == (2, "error: ", 2), ran.err
    assert _convert(tmp_path).code == 0
    again = _convert(tmp_path)
    assert (again.code, "--force" in again.err) == (2, True)
    assert _convert(tmp_path, _REALM, "--force").code == 0


def test_malformed_export_does_not_stop_the_conversion(tmp_path: Path) -> None:
    strange: list[Any] = [None, 1, "x", [], {}, [None], [[]], {"a": 1}]
    for number, value in enumerate(strange):
        keys = ("roles", "groups", "users", "clients", "components", "identityProviders")
        realm = {"realm": "x", **dict.fromkeys(keys, value)}
        user = dict.fromkeys(("credentials", "attributes", "groups", "realmRoles"), value)
        client = dict.fromkeys(("redirectUris", "attributes", "secret", "protocolMappers"), value)
        other = {
            "realm": "y",
            "users": [{"username": "u", "email": "u@x.example", **user}],
            "clients": [{"clientId": "c", **client}],
            "groups": [{"name": value, "subGroups": value}],
        }
        for export, folder in ((realm, f"a{number}"), (other, f"b{number}")):
            assert _convert(tmp_path, export, "--output", folder).code == 0, export


def test_users_in_files_of_their_own_belong_to_the_realm(tmp_path: Path) -> None:
    eve = {"username": "eve", "email": "eve@acme.example", "groups": ["/guests"]}
    users = {"realm": "acme", "users": [eve]}
    (tmp_path / "acme-users-0.json").write_text(json.dumps(users))
    ran = _convert(tmp_path, _REALM, "acme-users-0.json")
    assert (ran.code, ran.json["users"], ran.json["groups"]) == (0, 5, 6)
