"""The peer built on Django: django-oauth-toolkit as its documentation sets it up.

Run inside the peer's own environment. `python toolkit_app.py prepare` makes the database; gunicorn
serves `toolkit_app:application`.
"""

# ruff: noqa: PLC0415 - Django wants its settings before anybody imports its models

import os
import sys
from importlib import import_module
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

HERE = Path(os.environ["PEER_FOLDER"])
SECRET = "a-secret-of-the-bench-with-more-than-32-letters"
CALLBACK = "https://app.example/cb"

ON_SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": HERE / "toolkit.db",
    "CONN_MAX_AGE": None,
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    },
}
ON_POSTGRESQL = {
    "ENGINE": "django.db.backends.postgresql",
    "USER": os.environ.get("PEER_DATABASE_USER", ""),
    "HOST": os.environ.get("PEER_DATABASE_HOST", ""),
    "NAME": os.environ.get("PEER_DATABASE_NAME", ""),
    "CONN_MAX_AGE": None,
}

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={"default": ON_POSTGRESQL if "PEER_DATABASE_NAME" in os.environ else ON_SQLITE},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "oauth2_provider",
    ],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    OAUTH2_PROVIDER={
        "OIDC_ENABLED": True,
        "OIDC_RSA_PRIVATE_KEY": os.environ.get("PEER_RSA_KEY", ""),
        "PKCE_REQUIRED": True,
        "ROTATE_REFRESH_TOKEN": True,
        "SCOPES": {"openid": "OpenID", "notes:read": "read", "introspection": "introspect"},
    },
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only-for-the-bench",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    USE_TZ=True,
)
django.setup()


def sign_in(request: HttpRequest) -> HttpResponse:
    """Ada, without a password: what is measured begins when she is signed in."""
    from django.contrib.auth import get_user_model, login

    login(request, get_user_model().objects.get(username="ada"))
    return HttpResponse(b"signed in")


urlpatterns = [
    path("sign-in", sign_in),
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
]
application = get_wsgi_application()


def prepare() -> None:
    """Tables, a user, and the clients of the bench."""
    from django.contrib.auth import get_user_model

    call_command("migrate", verbosity=0)
    ada = get_user_model().objects.create_user("ada", "ada@example.com", "unused")
    make = import_module("oauth2_provider.models").get_application_model().objects.create
    for name in ("service", "reference"):
        make(
            client_id=name,
            client_secret=SECRET,
            client_type="confidential",
            authorization_grant_type="client-credentials",
            name=name,
            # Its default hashes secrets as if they were passwords: two requests a second.
            hash_client_secret=False,
        )
    make(
        client_id="phone",
        client_secret="",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=CALLBACK,
        skip_authorization=True,
        algorithm="RS256",
        name="phone",
        user=ada,
    )


if __name__ == "__main__" and sys.argv[1:] == ["prepare"]:
    prepare()
