"""A Django site with views of every kind; importing this configures Django for the process."""

from types import ModuleType
from typing import Any

import django
from django.conf import settings

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF="tests.sdk.adapters.django_site",
        SECRET_KEY="only-for-tests",
        USE_TZ=True,
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"],
        REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},
    )
    django.setup()

urlpatterns: list[Any] = []


def site(*patterns: Any) -> ModuleType:
    """A module of URL patterns, as `ROOT_URLCONF` wants it."""
    module = ModuleType("site")
    module.urlpatterns = list(patterns)  # type: ignore[attr-defined]
    return module
