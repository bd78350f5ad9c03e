"""Client assertions as Authlib signs them, with its own idea of how long they live."""

import json
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from authlib.oauth2.rfc7523 import client_secret_jwt_sign, private_key_jwt_sign

from tests.attacks.outgoing.apps import SECRET, apps, jwks
from tests.support.pages import Page, pages

# What they say of themselves to whoever builds on them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::authlib.deprecate.AuthlibDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning"),
]


def test_authlib_client_secret_jwt_assertion_is_accepted(tmp_path: Path) -> None:
    with apps(tmp_path) as it:
        it.app("app", SECRET, token_endpoint_auth_method="client_secret_jwt")
        sign: Any = client_secret_jwt_sign
        answer = it.prove("app", sign(SECRET, "app", f"{it.auth}/oauth/token"))
        assert answer.status_code == 200, answer.text


def test_authlib_assertion_is_verified_with_a_key_from_jwks_uri(tmp_path: Path) -> None:
    with apps(tmp_path, ip_network("127.0.0.0/8")) as it, pages() as there:
        there.at["/jwks"] = Page(jwks(it.key))
        it.app("app", jwks_uri=f"{there.url}/jwks")
        key, url = json.loads(it.key.private_jwk()), f"{it.auth}/oauth/token"
        sign: Any = private_key_jwt_sign
        for more in ({}, {"header": {"kid": it.key.kid}}):
            answer = it.prove("app", sign(key, "app", url, alg="ES256", **more))
            assert answer.status_code == 200, answer.text


def test_fractional_times_and_unknown_claims_of_any_type_are_accepted(tmp_path: Path) -> None:
    with apps(tmp_path) as it:
        it.app("app")
        now = it.claims("app")["iat"]
        assert isinstance(now, int)
        odd = [[[[[[[[[1]]]]]]]]]
        # As `time.time()` gives it.
        for more in ({"exp": now + 60.5, "iat": now - 0.25}, {"x": 2.0**80}, {"x": odd}):
            answer = it.prove("app", it.assertion("app", **more))
            assert answer.status_code == 200, answer.text
        for wrong in ({"exp": now - 60.5}, {"exp": str(now + 60)}, {"iat": now + 3_600.5}):
            assert it.prove("app", it.assertion("app", **wrong)).status_code == 401
