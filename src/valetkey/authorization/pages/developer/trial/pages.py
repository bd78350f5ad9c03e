"""The flow tried in the browser: every step's request and answer."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class Told:
    """One parameter or member of an answer; `value` is shown shortened where it is a secret."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer: its beginning, and what it says, "" for one that says nothing."""

    name: str
    value: str
    claims: str = ""


@dataclass(frozen=True, slots=True)
class TryPage:
    """Choose what is asked for. Posts `csrf`, `redirect_uri` and `scope`, to `action`."""

    template: ClassVar[str] = "developer/trial/begin.html"

    app: AppHead
    action: str
    csrf: str
    catcher: str
    redirect_uris: tuple[str, ...]
    scopes: tuple[str, ...]
    #: The flow can be run here: the app uses it, and proves itself by a secret or not at all.
    possible: bool = True
    nothing_chosen: bool = False


@dataclass(frozen=True, slots=True)
class TryRequestPage:
    """The first step: the request, ready to be sent. Posts `csrf`, `trial` and `landed`.

    `url` is the request; with `pasted` the answer goes to the app's own address and is pasted.
    """

    template: ClassVar[str] = "developer/trial/request.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    action: str
    csrf: str
    trial: str
    url: str
    parameters: tuple[Told, ...]
    pasted: bool
    redirect_uri: str
    #: What was pasted, and is no answer to this request.
    landed: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TryAnswerPage:
    """The second step: the answer. Posts `csrf`, `trial`, `code` and `client_secret`."""

    template: ClassVar[str] = "developer/trial/answer.html"

    app: AppHead
    action: str
    csrf: str
    trial: str
    code: str
    parameters: tuple[Told, ...]
    #: The token request as it will be sent.
    request: tuple[Told, ...]
    needs_secret: bool
    #: Where the refusal is explained, "" for none.
    explained: str = ""


@dataclass(frozen=True, slots=True)
class TryTokensPage:
    """The third step: the tokens, or why there are none. Posts `csrf`, `trial` and `token`."""

    template: ClassVar[str] = "developer/trial/tokens.html"

    app: AppHead
    action: str
    csrf: str
    status: int
    request: tuple[Told, ...]
    parameters: tuple[Told, ...]
    tokens: tuple[Token, ...] = ()
    #: The access token, sealed, for the fourth step; "" where that is not possible.
    token: str = ""
    explained: str = ""


@dataclass(frozen=True, slots=True)
class TryUserInfoPage:
    """The fourth step: what userinfo says."""

    template: ClassVar[str] = "developer/trial/userinfo.html"

    app: AppHead
    status: int
    body: str
    url: str
