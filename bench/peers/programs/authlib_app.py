"""The peer built on Authlib: its Flask integration on SQLAlchemy, as its documentation shows it.

Run inside the peer's own environment. `python authlib_app.py prepare` makes the database; gunicorn
serves `authlib_app:application`.
"""

# ruff: noqa: ANN001, ANN003, ANN201, ANN202, RUF012 - as its documentation writes it

import json
import os
import sys
import time

from authlib.integrations.flask_oauth2 import (
    AuthorizationServer,
    ResourceProtector,
    current_token,
)
from authlib.integrations.sqla_oauth2 import (
    OAuth2AuthorizationCodeMixin,
    OAuth2ClientMixin,
    OAuth2TokenMixin,
    create_bearer_token_validator,
    create_query_client_func,
    create_query_token_func,
    create_save_token_func,
)
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode as BareOpenIDCode
from flask import Flask, jsonify, request, session
from flask_sqlalchemy import SQLAlchemy
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import Column, ForeignKey, Integer, String, event
from sqlalchemy.engine import Engine

FOLDER = os.environ["PEER_FOLDER"]
ISSUER = os.environ["PEER_ISSUER"]
SECRET = "a-secret-of-the-bench-with-more-than-32-letters"
CALLBACK = "https://app.example/cb"
KEY = ECKey.import_key(json.loads(os.environ["PEER_EC_KEY"]))
RSA_KEY = RSAKey.import_key(json.loads(os.environ["PEER_RSA_KEY"]))

ON_POSTGRESQL = "PEER_DATABASE_NAME" in os.environ
if ON_POSTGRESQL:
    user, host, name = (os.environ[f"PEER_DATABASE_{part}"] for part in ("USER", "HOST", "NAME"))
    DATABASE = {"SQLALCHEMY_DATABASE_URI": f"postgresql+psycopg://{user}@/{name}?host={host}"}
else:
    DATABASE = {
        "SQLALCHEMY_DATABASE_URI": f"sqlite:///{FOLDER}/authlib.db",
        "SQLALCHEMY_ENGINE_OPTIONS": {"connect_args": {"timeout": 20}},
    }

application = Flask(__name__)
application.config.update(
    SECRET_KEY="only-for-the-bench",
    **DATABASE,
    OAUTH2_REFRESH_TOKEN_GENERATOR=True,
)
db = SQLAlchemy(application)


@event.listens_for(Engine, "connect")
def durable(connection, record):
    """As durable as the others: an answer comes when the row is on disk."""
    if ON_POSTGRESQL:
        return
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


class User(db.Model):
    """A person."""

    id = Column(Integer, primary_key=True)
    username = Column(String(40), unique=True)
    email = Column(String(80))

    def get_user_id(self):
        """The subject."""
        return self.id


class Client(db.Model, OAuth2ClientMixin):
    """An app."""

    id = Column(Integer, primary_key=True)
    user_id = Column(Integer, ForeignKey("user.id"))


class Code(db.Model, OAuth2AuthorizationCodeMixin):
    """An authorization code."""

    id = Column(Integer, primary_key=True)
    user_id = Column(Integer, ForeignKey("user.id"))


class Token(db.Model, OAuth2TokenMixin):
    """An access token, and the refresh token that came with it."""

    # Its mixin has room for opaque tokens only.
    access_token = Column(String(1_000), unique=True, nullable=False)
    id = Column(Integer, primary_key=True)
    user_id = Column(Integer, ForeignKey("user.id"))


class AuthorizationCodeGrant(grants.AuthorizationCodeGrant):
    """Codes in the table."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    def save_authorization_code(self, code, request):
        """Keep it."""
        payload = request.payload
        db.session.add(
            Code(
                code=code,
                client_id=request.client.client_id,
                redirect_uri=payload.redirect_uri,
                scope=payload.scope,
                user_id=request.user.id,
                code_challenge=payload.data.get("code_challenge"),
                code_challenge_method=payload.data.get("code_challenge_method"),
            )
        )
        db.session.commit()

    def query_authorization_code(self, code, client):
        """Find it while it lives."""
        stored_code = Code.query.filter_by(code=code, client_id=client.client_id).first()
        return stored_code if stored_code and not stored_code.is_expired() else None

    def delete_authorization_code(self, authorization_code):
        """Spend it."""
        db.session.delete(authorization_code)
        db.session.commit()

    def authenticate_user(self, authorization_code):
        """Whose it is."""
        return db.session.get(User, authorization_code.user_id)


class RefreshTokenGrant(grants.RefreshTokenGrant):
    """Refresh with rotation."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        """Find it unless it was used."""
        stored_token = Token.query.filter_by(refresh_token=refresh_token).first()
        return stored_token if stored_token and not stored_token.is_revoked() else None

    def authenticate_user(self, credential):
        """Whose it is."""
        return db.session.get(User, credential.user_id)

    def revoke_old_credential(self, credential):
        """End it."""
        credential.refresh_token_revoked_at = int(time.time())
        db.session.add(credential)
        db.session.commit()


class ClientCredentialsGrant(grants.ClientCredentialsGrant):
    """Machines post their secret."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_post"]


class OpenIDCode(BareOpenIDCode):
    """ID tokens by ES256, and by RS256 for one of both apps."""

    def exists_nonce(self, nonce, request):
        """None is sent."""
        return False

    def resolve_client_private_key(self, client):
        """The key of its algorithm."""
        return RSA_KEY if client.client_id == "phone-rs256" else KEY

    def get_client_algorithm(self, client):
        """By its name."""
        return "RS256" if client.client_id == "phone-rs256" else "ES256"

    def get_client_claims(self, client):
        """Who issues."""
        return {"iss": ISSUER}

    def generate_user_info(self, user, scope):
        """Who it is."""
        return UserInfo(sub=str(user.id))


class Introspection(IntrospectionEndpoint):
    """What a token is worth."""

    CLIENT_AUTH_METHODS = ["client_secret_post"]

    query_token = staticmethod(create_query_token_func(db.session, Token))

    def check_permission(self, token, client, request):
        """Confidential clients may ask."""
        return True

    def introspect_token(self, token):
        """What the table says."""
        return {
            "active": not token.is_expired() and not token.is_revoked(),
            "client_id": token.client_id,
            "token_type": token.token_type,
            "scope": token.get_scope(),
            "iss": ISSUER,
            "exp": token.issued_at + token.expires_in,
            "iat": token.issued_at,
        }


class Jwts(JWTBearerTokenGenerator):
    """Access tokens of RFC 9068."""

    def get_jwks(self):
        """The key."""
        return KEY


opaque = None
jwts = Jwts(ISSUER, alg="ES256")


def of_machines(grant_type, client, user=None, scope=None, **more):
    """JWTs for one of both machines."""
    generate = jwts if client.client_id == "service" else opaque
    return generate(grant_type=grant_type, client=client, user=user, scope=scope, **more)


server = AuthorizationServer(
    application,
    query_client=create_query_client_func(db.session, Client),
    save_token=create_save_token_func(db.session, Token),
)
opaque = server.create_bearer_token_generator(application.config)
server.register_token_generator("client_credentials", of_machines)
server.register_grant(AuthorizationCodeGrant, [OpenIDCode(), CodeChallenge(required=True)])
server.register_grant(RefreshTokenGrant)
server.register_grant(ClientCredentialsGrant)
server.register_endpoint(Introspection)
require_oauth = ResourceProtector()
require_oauth.register_token_validator(create_bearer_token_validator(db.session, Token)())


@application.get("/sign-in")
def sign_in():
    """Ada, without a password: what is measured begins when she is signed in."""
    session["id"] = User.query.filter_by(username="ada").one().id
    return "signed in"


@application.get("/authorize")
def authorize():
    """She allowed it before."""
    user = db.session.get(User, session["id"])
    grant = server.get_consent_grant(end_user=user)
    return server.create_authorization_response(grant_user=user, grant=grant)


@application.post("/token")
def token():
    """The token endpoint."""
    return server.create_token_response()


@application.post("/introspect")
def introspect():
    """The introspection endpoint."""
    return server.create_endpoint_response(Introspection.ENDPOINT_NAME)


@application.get("/userinfo")
@require_oauth("openid")
def userinfo():
    """Who it is."""
    user = db.session.get(User, current_token.user_id)
    return jsonify(sub=str(user.id))


@application.get("/jwks")
def jwks():
    """The keys that sign."""
    return jsonify(keys=[key.as_dict(private=False) for key in (KEY, RSA_KEY)])


@application.get("/.well-known/openid-configuration")
def discovery():
    """Written by hand: it has no endpoint of its own for it."""
    return jsonify(
        issuer=ISSUER,
        authorization_endpoint=request.url_root + "authorize",
        token_endpoint=request.url_root + "token",
        userinfo_endpoint=request.url_root + "userinfo",
        introspection_endpoint=request.url_root + "introspect",
        jwks_uri=request.url_root + "jwks",
        scopes_supported=["openid", "notes:read"],
        response_types_supported=["code"],
        grant_types_supported=["authorization_code", "refresh_token", "client_credentials"],
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=["ES256", "RS256"],
        token_endpoint_auth_methods_supported=["none", "client_secret_post"],
        code_challenge_methods_supported=["S256"],
    )


def prepare():
    """Tables, a user, and the clients of the bench."""
    with application.app_context():
        db.create_all()
        db.session.add(User(username="ada", email="ada@example.com"))
        for name in ("service", "reference"):
            _client(
                name,
                SECRET,
                grant_types=["client_credentials"],
                token_endpoint_auth_method="client_secret_post",
                scope="notes:read",
            )
        for name in ("phone", "phone-rs256"):
            _client(
                name,
                "",
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method="none",
                redirect_uris=[CALLBACK],
                response_types=["code"],
                scope="openid notes:read",
            )
        db.session.commit()


def _client(name, secret, **metadata):
    client = Client(client_id=name, client_secret=secret)
    client.set_client_metadata(metadata)
    db.session.add(client)


if __name__ == "__main__" and sys.argv[1:] == ["prepare"]:
    prepare()
