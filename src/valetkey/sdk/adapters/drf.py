"""Django REST framework: authentication and permission classes."""

# The framework has no types; its values are typed where they enter.
# pyright: reportAssignmentType=false, reportIncompatibleMethodOverride=false
# pyright: reportOptionalSubscript=false, reportPrivateUsage=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Collection
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
from valetkey.sdk.caller import NO_TOKEN, Caller
from valetkey.sdk.protect import demand, demand_role


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The value of `request.user`: no user of this site, but authenticated. `pk` is the subject."""

    caller: Caller
    is_active: ClassVar[bool] = True
    is_anonymous: ClassVar[bool] = False
    is_authenticated: ClassVar[bool] = True

    @property
    def pk(self) -> str:
        """Return the subject, which throttles count by."""
        return self.caller.subject


class Denied(APIException):
    """Carries a refusal to the exception handler; other exceptions are not affected."""

    def __init__(self, denial: Denial) -> None:
        """Store the denial."""
        super().__init__()
        self.denial = denial


class Require:
    """Create the authentication and permission classes of views.

    Set `authentication_classes = [require.authentication]` and `permission_classes =
    [require("notes:read")]`. `request.auth` is then the `Caller`.
    """

    def __init__(self, gate: Gate) -> None:
        """Use `gate`."""
        self._gate = gate
        self._plain = Plain(gate)
        self.urls = self._plain.urls
        self.authentication = self._authentication()

    def __call__(self, *needs: str, roles: Collection[str] = ()) -> type[BasePermission]:
        """Return a permission for callers with any scope in `needs`; others get the error.

        With `roles`, the caller needs one of these roles at the API as well. The challenge names
        the first scope. The permission raises its own response, so combine it with others in a
        list, which means "and", not with `|`.
        """
        gate = self._gate
        gate.needs(needs)

        class HasScope(BasePermission):
            """Admit callers with one of the scopes."""

            def has_permission(self, request: Request, view: APIView) -> bool:
                try:
                    _admit(request.auth, needs, roles)
                except Refused as refused:
                    raise _denied(gate, view, refused.refusal, needs) from None
                return True

        return HasScope

    def _authentication(self) -> type[BaseAuthentication]:
        gate, admit = self._gate, self._plain.background.admit

        class TokenAuthentication(BaseAuthentication):
            """Authenticate callers with a token; leave all others to the next class."""

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
    """Return this gate's authentication and permission classes and the metadata's URL."""
    return Require(gate)


def _admit(auth: object, needs: Collection[str], roles: Collection[str]) -> None:
    if not isinstance(auth, Caller):
        raise Refused(NO_TOKEN)
    if needs:
        demand(auth, *needs)
    if roles:
        demand_role(auth, *roles)


def _denied(gate: Gate, view: APIView, refusal: Refusal, needs: tuple[str, ...] = ()) -> Denied:
    """Return the exception for `refusal`, and make `view` answer it as a problem."""
    others: Callable[[], Callable[..., HttpResponseBase | None]] = view.get_exception_handler

    def answer(error: Exception, context: object) -> HttpResponseBase | None:
        if isinstance(error, Denied):
            return respond(error.denial)
        return others()(error, context)

    # A view lives for one request; a renderer would set the media type of the body.
    view.get_exception_handler = lambda: answer
    return Denied(gate.deny(refusal, needs))
