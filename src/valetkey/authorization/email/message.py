"""Render queued email: plain text, HTML with a button, and headers that cannot be injected.

Messages do not track their readers: no image, no address of another server.
"""

import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache, partial

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from valetkey.authorization.authentication.places import PLACES
from valetkey.authorization.layout.assets import DARK_CARD, LIGHT_CARD
from valetkey.authorization.layout.brand import Brand, accent_shades
from valetkey.authorization.layout.language import ENGLISH, Language, chosen, translations
from valetkey.authorization.layout.render import OURS
from valetkey.authorization.model.email import Email
from valetkey.authorization.model.user import LABEL, ascii_email
from valetkey.kernel.moment import Instant

# Those of features are in their folders, as the templates of their pages are.
_TEMPLATES = ChoiceLoader([PackageLoader("valetkey.authorization.email"), OURS])
_WIDTH = 72
_ADDRESS = re.compile(r"https?://[!-~]+")
# No value contains it: `_BREAKS` removes control characters.
_SEPARATOR = "\x01"
# A break in a value could begin a paragraph of its own; marks of direction could turn a sentence.
_BREAKS = re.compile(r"[\x00-\x20\x7f-\xa0\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]+")


class Paragraph(Struct, frozen=True):
    """A paragraph: text, or a URL on a button with this label.

    The last one of an email may be a note, which says why it was sent.
    """

    text: str
    label: str = ""
    is_note: bool = False

    @property
    def is_address(self) -> bool:
        """Whether the paragraph is a URL."""
        return _ADDRESS.fullmatch(self.text) is not None


class RenderedEmail(Struct, frozen=True):
    """The rendered text of an email."""

    subject: str
    paragraphs: tuple[Paragraph, ...]
    language: Language

    @property
    def text(self) -> str:
        """The email as plain text, with lines short enough for every reader."""
        return "\n\n".join(
            f"{paragraph.label}:\n{paragraph.text}".removeprefix(":\n")
            if paragraph.is_address
            else textwrap.fill(
                paragraph.text, _WIDTH, break_long_words=False, break_on_hyphens=False
            )
            for paragraph in self.paragraphs
        )


def write(email: Email, *, brand: Brand) -> RenderedEmail:
    """Render an email in its language. Raises UndefinedError for a missing value."""
    language = chosen((email.language,)) or ENGLISH
    environment = _environment(language)
    values = {name: _BREAKS.sub(" ", value).strip() for name, value in email.values.items()}
    values["brand"] = _BREAKS.sub(" ", brand.name)
    text = environment.get_template(email.kind.template).render(values)
    subject, *paragraphs = (
        " ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()
    )
    shown = [_paragraph(paragraph) for paragraph in paragraphs]
    if "username" in values:
        note = environment.get_template("note.txt").render(values).strip()
        shown.append(Paragraph(note, is_note=True))
    return RenderedEmail(subject, tuple(shown), language)


def _paragraph(text: str) -> Paragraph:
    label, separator, url = text.partition(_SEPARATOR)
    return Paragraph(url, label) if separator else Paragraph(text)


def _button(label: str, url: str) -> str:
    return f"{label}{_SEPARATOR}{url}"


def message_of(
    email: Email,
    *,
    brand: Brand,
    mail_id: str,
    from_address: str,
    from_name: str,
    at: Instant,
) -> EmailMessage:
    """Build the message to send. Raises ValueError for an address that email cannot be sent to.

    `mail_id` names it, the same at every attempt, so that a reader who gets it twice can tell.
    """
    written = write(email, brand=brand)
    message = EmailMessage(policy=SMTP)
    sender = Address(from_name or brand.name, addr_spec=from_address)
    message["From"] = sender
    message["To"] = _receiver(email.to)
    message["Subject"] = written.subject
    message["Date"] = format_datetime(datetime.fromtimestamp(at, UTC))
    message["Message-ID"] = f"<{mail_id}@{sender.domain}>"
    message["Content-Language"] = written.language.tag
    # Automatic responders do not answer these (RFC 3834 section 5).
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message.set_content(written.text + "\n")
    message.add_alternative(_html(written, brand), subtype="html")
    return message


def _receiver(to: str) -> Address:
    # The library takes some of these for other addresses than they are.
    if not to.isprintable() or set(to) & set(' <>()[],;:"\\') or to.count("@") != 1:
        raise ValueError("no email can be sent to this address")
    local, _, domain = ascii_email(to).rpartition("@")
    if not local or not domain:
        raise ValueError("half of the address is missing")
    if not all(map(LABEL.fullmatch, domain.split("."))):
        raise ValueError("the domain of the address is invalid")
    return Address(username=local, domain=domain)


def _html(written: RenderedEmail, brand: Brand) -> str:
    values: Mapping[str, object] = {
        "subject": written.subject,
        "paragraphs": written.paragraphs,
        "language": written.language,
        "brand": brand,
        "light": accent_shades(brand.accent, LIGHT_CARD),
        "dark": accent_shades(brand.accent, DARK_CARD),
    }
    return _frames().get_template("frame.html").render(values)


@cache
def _frames() -> Environment:
    return Environment(
        loader=_TEMPLATES,
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _environment(language: Language) -> Environment:
    environment = Environment(
        loader=_TEMPLATES,
        autoescape=False,  # noqa: S701 - plain text: the HTML beside it is made by `_frames`
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["ext.i18n.trimmed"] = True
    words = translations(language)
    environment.filters["translated"] = words.gettext
    environment.filters["place"] = partial(PLACES.place_of, language=language.tag)
    environment.globals["button"] = _button  # pyright: ignore[reportArgumentType]
    environment.install_gettext_translations(  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        words, newstyle=True
    )
    return environment
