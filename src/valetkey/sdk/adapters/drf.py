"""Django REST framework: authentication and permission classes."""

# The framework has no types; what it gives is typed where it comes in.
# pyright: reportAssignmentType=false, reportIncompatibleMethodOverride=false
# pyright: reportOptionalSubscript=false, reportPrivateUsage=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from django.http import HttpRequest, HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from valetkey.kernel.refusal import Refusal, Refused
from valetkey.sdk.adapters.django import Require as Plain
from valetkey.sdk.adapters.django import authorization, respond
from valetkey.sdk.adapters.gate import Denial, Gate
from valetkey.sdk.caller import Caller
from valetkey.sdk.challenge import NO_TOKEN
from valetkey.sdk.protect import demand


@dataclass(frozen=True, slots=True)
class TokenUser:
    """What `request.user` is: nobody of this site's own, but authenticated. `pk` is the subject."""

    caller: Caller
    is_active: ClassVar[bool] = True
    is_anonymous: ClassVar[bool] = False
    is_authenticated: ClassVar[bool] = True

    @property
    def pk(self) -> str:
        """The subject, which is what throttles count by."""
        return self.caller.subject


class Denied(APIException):
    """A refusal on its way to the answer; what is raised by other means is not touched."""

    def __init__(self, denial: Denial) -> None:
        """Carry `denial`."""
        super().__init__()
        self.denial = denial


class Require:
    """Makes classes: `authentication_classes = [require.authentication]`.

    And `permission_classes = [require("notes:read")]`. `request.auth` is then the `Caller`.
    """

    def __init__(self, gate: Gate) -> None:
        """Ask `gate`."""
        self._gate = gate
        self._plain = Plain(gate)
        self.urls = self._plain.urls
        self.authentication = self._authentication()

    def __call__(self, *needs: str) -> type[BasePermission]:
        """A permission for callers with any of the scopes in `needs`; others are told why not.

        They are told to ask for the first. It answers by itself, so it is combined with others in
        a list, which means "and", not with `|`.
        """
        gate = self._gate
        gate.needs(needs)

        class HasScope(BasePermission):
            """Lets in callers with one of the scopes."""

            def has_permission(self, request: Request, view: APIView) -> bool:
                try:
                    _admit(request.auth, *needs)
                except Refused as refused:
                    raise _denied(gate, view, refused.refusal, needs) from None
                return True

        return HasScope

    def _authentication(self) -> type[BaseAuthentication]:
        gate, admit = self._gate, self._plain.background.admit

        class TokenAuthentication(BaseAuthentication):
            """Knows the callers that show a token; leaves all others to the next class."""

            def authenticate(self, request: Request) -> tuple[TokenUser, Caller] | None:
                plain: HttpRequest = request._request  # noqa: SLF001
                try:
                    caller = admit(authorization(plain))
                except Refused as refused:
                    if refused.refusal == NO_TOKEN:
                        return None
                    view: APIView = request.parser_context["view"]
                    raise _denied(gate, view, refused.refusal) from None
                return TokenUser(caller), caller

            def authenticate_header(self, request: Request) -> str:
                return dict(gate.deny(NO_TOKEN).headers)["www-authenticate"]

        return TokenAuthentication


def protect(gate: Gate) -> Require:
    """What makes authentication and permission classes, and the metadata's URL, for this gate."""
    return Require(gate)


def _admit(auth: object, *needs: str) -> None:
    if not isinstance(auth, Caller):
        raise Refused(NO_TOKEN)
    if needs:
        demand(auth, *needs)


def _denied(gate: Gate, view: APIView, refusal: Refusal, needs: tuple[str, ...] = ()) -> Denied:
    """The exception for `refusal`, after `view` has learned to answer it as a problem."""
    others: Callable[[], Callable[..., HttpResponseBase | None]] = view.get_exception_handler

    def answer(error: Exception, context: object) -> HttpResponseBase | None:
        if isinstance(error, Denied):
            return respond(error.denial)
        return others()(error, context)

    # A view lives for one request; a renderer would name the body by its own media type.
    view.get_exception_handler = lambda: answer
    return Denied(gate.deny(refusal, needs))
