"""Django REST framework behind a gate."""

from typing import Any

from django.test import override_settings
from django.urls import path
from rest_framework.exceptions import NotFound
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from tests.sdk.adapters.django_site import site
from tests.sdk.adapters.stories import Answer, every_story, gate, role_story
from valetkey.sdk import Caller
from valetkey.sdk.adapters.drf import TokenUser, protect
from valetkey.sdk.testing import trusted


def test_view_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    at = gate()
    require = protect(at)

    class Notes(APIView):
        authentication_classes = (require.authentication,)
        permission_classes = (require("notes:read", "read"),)

        def get(self, request: Request) -> Response:
            assert isinstance(request.auth, Caller)
            assert isinstance(request.user, TokenUser)
            assert request.user.pk == request.auth.subject
            return Response({"subject": request.auth.subject})

    class _Fine(Exception):
        """Stands for whatever a view of this site raises."""

    def answer(error: Exception, context: object) -> Response:
        return Response({"by": "the site"}, status=200 if isinstance(error, _Fine) else 404)

    class AnyToken(APIView):
        authentication_classes = (require.authentication,)
        permission_classes = (IsAuthenticated,)

        def get(self, request: Request) -> Response:
            raise NotFound if "missing" in request.query_params else _Fine

        def get_exception_handler(self) -> Any:
            return answer

    class Editors(Notes):
        permission_classes = (require("read", roles=("editor", "owner")),)

    patterns = [path("notes", Notes.as_view()), path("any", AnyToken.as_view()), *require.urls()]
    patterns.append(path("editors", Editors.as_view()))
    client: Any = APIClient()

    def ask(path: str, headers: dict[str, str]) -> Answer:
        response = client.get(path, headers=headers)
        return Answer(response.status_code, dict(response.headers), response.content)

    with override_settings(ROOT_URLCONF=site(*patterns)), trusted(at) as mint:
        every_story(ask, mint)
        role_story(ask, mint)
        assert ask("/any?missing", mint.headers()).json() == {"by": "the site"}


def test_framework_permission_class_returns_the_challenge() -> None:
    at = gate()
    require = protect(at)

    class View(APIView):
        authentication_classes = (require.authentication,)
        permission_classes = (IsAuthenticated,)

    with override_settings(ROOT_URLCONF=site(path("", View.as_view()))):
        answer: Any = APIClient().get("/")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer realm=")
