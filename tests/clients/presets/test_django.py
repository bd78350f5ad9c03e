"""Django apps of three packages, each with the settings of its preset, in Chromium."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from bench.ports import free_port
from tests.clients.presets.site import register, running, sign_in
from valetkey.testing.server import Servers

# What `django-admin startproject` writes, as far as the packages need it.
SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
ALLOWED_HOSTS = ["localhost"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "site.db"}}
DEBUG = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "urls"
SECRET_KEY = "a secret of this test"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
"""
URLS = """
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.urls import path

def home(request):
    form = '<form method=post><input type=hidden name=csrfmiddlewaretoken value="%s"><button>'
    return HttpResponse("<!DOCTYPE html>" + form % get_token(request))

@login_required
def profile(request):
    user = request.user
    return JsonResponse({"email": user.email, "name": user.get_full_name()})

urlpatterns = [path("", home), path("profile", profile), path("logout", LogoutView.as_view())]
"""
RUN = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django
from django.core.management import call_command
django.setup()
call_command("migrate", verbosity=0)
call_command("runserver", sys.argv[1], use_reloader=False)
"""


@contextmanager
def django_site(servers: Servers, preset: str, callback: str, folder: Path) -> Generator[str]:
    """A new Django site to which the configuration of the preset is added."""
    url = f"http://localhost:{free_port()}"
    register(servers, preset, f"{url}{callback}").write(folder)
    for name, start in (("settings.py", SETTINGS), ("urls.py", URLS)):
        added = (folder / name).read_text()
        (folder / name).write_text(f"{start}\n{added}")
    (folder / "run.py").write_text(RUN)
    command = [sys.executable, "run.py", url.removeprefix("http://")]
    with running(command, folder, url, {"PATH": os.environ["PATH"]}):
        yield url


def sign_out(tab: Page, url: str, path: str) -> None:
    """Press a button that posts to the path, with Django's token against forged requests."""
    tab.goto(url)
    tab.evaluate(f"document.forms[0].action = '{path}'")
    tab.click("button")


def test_mozilla_django_oidc_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    with django_site(servers, "mozilla-django-oidc", "/oidc/callback/", tmp_path) as url:
        tab.goto(f"{url}/profile")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile")
        assert json.loads(tab.inner_text("body"))["email"] == "ada@example.com"
        sign_out(tab, url, "/oidc/logout/")
        tab.wait_for_url(f"{servers.auth_url}/oauth/logout?*")
        tab.click("#sign-out")
        tab.wait_for_url(f"{url}/*")
        tab.goto(f"{url}/profile")
        assert tab.locator("#sign-in").count(), "the session at the server has ended as well"


def test_django_allauth_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    path = "/accounts/oidc/valetkey/login/"
    with django_site(servers, "django-allauth", f"{path}callback/", tmp_path) as url:
        tab.goto(f"{url}{path}?next=/profile")
        tab.click("button[type=submit]")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile")
        profile = {"email": "ada@example.com", "name": "Ada Lovelace"}
        assert json.loads(tab.inner_text("body")) == profile
        sign_out(tab, url, "/accounts/logout/")
        tab.wait_for_url(f"{url}/")
        tab.goto(f"{url}/profile")
        assert tab.url.startswith(f"{url}/accounts/login/")


def test_social_auth_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    with django_site(servers, "social-auth", "/complete/oidc/", tmp_path) as url:
        tab.goto(f"{url}/profile")
        tab.click("button")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile")
        profile = {"email": "ada@example.com", "name": "Ada Lovelace"}
        assert json.loads(tab.inner_text("body")) == profile
        sign_out(tab, url, "/logout")
        tab.wait_for_url(f"{url}/logout")
        tab.goto(f"{url}/profile")
        assert tab.url.startswith(f"{url}/sign-in/")
