"""Flask: a decorator that gives the view its typed caller."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from flask import Flask, Response, current_app, request

from valetkey.kernel.refusal import Refused
from valetkey.sdk.adapters.gate import METADATA_HEADERS, Background, Gate
from valetkey.sdk.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")


class Require:
    """Create decorators: `@require("notes:read")` below `@app.get(...)`."""

    def __init__(self, gate: Gate) -> None:
        """Use `gate`."""
        self._gate = gate
        self._background = Background(gate)

    def __call__(
        self, *needs: str, roles: Collection[str] = ()
    ) -> Callable[[Callable[Concatenate[Caller, P], R]], Callable[P, R | Response]]:
        """Return a decorator that passes the caller to the view first, or answers with the error.

        Any one scope in `needs` suffices, and any one role in `roles`; the challenge names the
        first scope. `Refused` that the view raises, by `demand` for example, is answered likewise.
        """
        self._gate.needs(needs)

        def decorate(view: Callable[Concatenate[Caller, P], R]) -> Callable[P, R | Response]:
            @wraps(view)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> R | Response:
                fields = request.headers.getlist("authorization")
                try:
                    caller = self._background.admit(fields, *needs, roles=roles)
                    called: Callable[..., R] = current_app.ensure_sync(view)
                    return called(caller, *args, **kwargs)
                except Refused as refused:
                    denial = self._gate.deny(refused.refusal, needs)
                    return Response(denial.body, denial.status, list(denial.headers))

            return guarded

        return decorate


def protect(app: Flask, gate: Gate) -> Require:
    """Let `app` serve its metadata; return the factory of decorators.

    If views are defined before the application, create decorators with `Require(gate)`.
    """
    if gate.metadata_path:

        def metadata() -> Response:
            return Response(gate.metadata(), mimetype="application/json", headers=METADATA_HEADERS)

        app.add_url_rule(gate.metadata_path, "valetkey_metadata", metadata)
    return Require(gate)
