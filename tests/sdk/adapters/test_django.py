"""Django behind a gate: decorated views, plain and asynchronous, and a whole site."""

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import path

from tests.sdk.adapters.django_site import site
from tests.sdk.adapters.stories import Answer, Ask, every_story, gate, role_story
from valetkey.sdk import Caller, demand
from valetkey.sdk.adapters.django import caller_of, protect
from valetkey.sdk.testing import trusted

guarded_site = protect(gate())
everything = guarded_site.middleware("notes:read", "read", open_paths=["/health"])


def _ask(path: str, headers: dict[str, str]) -> Answer:
    answer: Any = Client().get(path, headers=headers)
    return Answer(answer.status_code, dict(answer.headers), answer.content)


def _story(ask: Ask, *, asynchronous: bool) -> None:
    at = gate()
    require = protect(at)

    @require("notes:read", "read")
    def plain_notes(request: HttpRequest, caller: Caller) -> HttpResponse:
        return JsonResponse({"subject": caller.subject})

    @require("notes:read", "read")
    async def waiting_notes(request: HttpRequest, caller: Caller) -> HttpResponse:
        return JsonResponse({"subject": caller.subject})

    @require("read")
    def plain_late(request: HttpRequest, caller: Caller, number: int) -> HttpResponse:
        demand(caller, "admin")
        return JsonResponse({"number": number})

    @require("read")
    async def waiting_late(request: HttpRequest, caller: Caller, number: int) -> HttpResponse:
        demand(caller, "admin")
        return JsonResponse({"number": number})

    @require("read", roles=("editor", "owner"))
    def plain_editors(request: HttpRequest, caller: Caller) -> HttpResponse:
        return JsonResponse({"subject": caller.subject})

    @require("read", roles=("editor", "owner"))
    async def waiting_editors(request: HttpRequest, caller: Caller) -> HttpResponse:
        return JsonResponse({"subject": caller.subject})

    notes, late = (waiting_notes, waiting_late) if asynchronous else (plain_notes, plain_late)
    editors = waiting_editors if asynchronous else plain_editors

    @require()
    def any_token(request: HttpRequest, caller: Caller) -> HttpResponse:
        return JsonResponse({"subject": caller.subject})

    patterns = [path("notes", notes), path("any", any_token), path("late/<int:number>", late)]
    patterns.append(path("editors", editors))
    with override_settings(ROOT_URLCONF=site(*patterns, *require.urls())), trusted(at) as mint:
        every_story(ask, mint)
        role_story(ask, mint)
        assert ask("/late/7", mint.headers("read")).status == 403
        assert ask("/late/7", mint.headers("read admin")).json() == {"number": 7}


def test_decorated_view_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    _story(_ask, asynchronous=False)


def test_asynchronous_view_is_protected_in_a_synchronous_server() -> None:
    _story(_ask, asynchronous=True)


def test_asynchronous_view_is_protected_in_an_asynchronous_server() -> None:
    def ask(path: str, headers: dict[str, str]) -> Answer:
        async def once() -> Answer:
            answer: Any = await AsyncClient().get(path, headers=headers)
            return Answer(answer.status_code, dict(answer.headers), answer.content)

        return asyncio.run(once())

    _story(ask, asynchronous=True)


def test_middleware_protects_the_whole_site() -> None:
    def notes(request: HttpRequest) -> HttpResponse:
        return JsonResponse({"subject": caller_of(request).subject})

    def health(request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"well")

    patterns = [path("notes", notes), path("health", health), *guarded_site.urls()]
    with (
        override_settings(ROOT_URLCONF=site(*patterns), MIDDLEWARE=[f"{__name__}.everything"]),
        trusted(guarded_site.gate) as mint,
    ):
        every_story(_ask, mint, wide=False)
        assert _ask("/health", {}).body == b"well"
        assert _ask("/nowhere", {}).status == 401
