"""The page that carries an answer to the app by a form (OAuth Form Post Response Mode)."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FormPostPage:
    """Post `fields` to the app: by itself where scripts run, by a button where they do not.

    Send it with a policy that names `script_nonce` and lets forms go to `action` alone.
    """

    template: ClassVar[str] = "layout/form_post.html"

    action: str
    fields: tuple[tuple[str, str], ...]
    app_name: str
    script_nonce: str
