"""The page that shows a new secret, once."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from valetkey.kernel.text import translatable

COPY_NOW = translatable("The secret is shown only once. Copy it now.")
COPY_THE_SECRET = translatable("Copy the secret")
COPY_THE_TOKEN = translatable("Copy the token")
NEW_SECRET = translatable("New secret")
NEW_TOKEN = translatable("New token")
COPIED = translatable("I have copied it")


class ShownValue(Struct, frozen=True):
    """A value; `button` copies it, "" for none. Its label and its button are translatable."""

    id: str
    value: str
    button: str = ""
    label: str = ""


class NewSecretPage(Struct, frozen=True):
    """A new secret and what is used with it. Texts are translatable; `before` has `values`."""

    template: ClassVar[str] = "shown_once.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    title: str
    #: The page that `done` leads to, and its title or the name of its subject.
    back: str
    above: str
    copied: tuple[ShownValue, ...]
    before: tuple[str, ...] = (COPY_NOW,)
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    after: tuple[str, ...] = ()
    #: A command that uses the secret.
    example: str = ""
    done: str = translatable("Done")
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None
