"""Render a page: a frozen context and its template, compiled once, as HTML in UTF-8.

An environment has one language, so a translated literal is a constant of it. And a template that is
imported "with context" runs again for every page: one that uses nothing of the context runs once.
The indentation of a template is not sent.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import ClassVar, Protocol

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateNotFound,
)
from jinja2.compiler import CodeGenerator, Frame
from jinja2.filters import do_mark_safe
from jinja2.meta import find_referenced_templates, find_undeclared_variables
from jinja2.nodes import (
    Call,
    Const,
    Dict,
    Expr,
    FromImport,
    Import,
    MarkSafe,
    Mod,
    Name,
    Node,
    Pair,
    TemplateData,
)
from jinja2.nodes import Template as Tree
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from valetkey.authorization.authentication.places import PLACES
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import ENGLISH, Language, day, moment, number
from valetkey.authorization.layout.theme import TEMPLATES, Theme, words
from valetkey.authorization.layout.viewer import ANYBODY, NOWHERE, Navigation, Viewer
from valetkey.authorization.model.user import shown_email
from valetkey.kernel.text import FilledText
from valetkey.kernel.url import origin


def page_compiler(gettext: Callable[[str], str]) -> type[CodeGenerator]:
    """Return the template compiler for the language of `gettext`."""

    class PageCompiler(CodeGenerator):
        def visit_Template(self, node: Tree, frame: Frame | None = None) -> None:  # noqa: N802 - Jinja's name
            super().visit_Template(_Constants(self.environment, gettext).visit(node), frame)

    return PageCompiler


_INDENTATION = re.compile(r"\n\s+")
_PREFORMATTED = re.compile(r"(<pre\b.*?(?:</pre>|\Z))", re.DOTALL)


class _Constants(NodeTransformer):
    """Translates literals; imports without the context what does not use it; removes indents."""

    def __init__(self, environment: Environment, gettext: Callable[[str], str]) -> None:
        self._environment = environment
        self._gettext = gettext
        self._is_preformatted = False

    def visit_TemplateData(self, node: TemplateData) -> Node:  # noqa: N802 - Jinja's name
        """Leave one newline of each indentation, except in `<pre>`.

        The nodes are visited in the order of the text, and a `<pre>` may hold several.
        """
        text = f"<pre>{node.data}" if self._is_preformatted else node.data
        parts = _PREFORMATTED.split(text)
        parts[::2] = [_INDENTATION.sub("\n", part) for part in parts[::2]]
        sent = "".join(parts).removeprefix("<pre>" if self._is_preformatted else "")
        self._is_preformatted = len(parts) > 1 and not parts[-1] and "</pre>" not in parts[-2]
        return TemplateData(sent).set_lineno(node.lineno).set_environment(self._environment)

    def visit_Call(self, node: Call) -> Node:  # noqa: N802 - Jinja's name
        """Replace `_("text")` by its translation, and the sentences of `{% trans %}` likewise."""
        self.generic_visit(node)
        match node:
            case Call(
                node=Name(name="_" | "gettext"),
                args=[Const(value=str(text))],
                dyn_args=None,
                dyn_kwargs=None,
            ):
                return self._translated(node, text)
            case _:
                return node

    def visit_Import(self, node: Import) -> Node:  # noqa: N802 - Jinja's name
        """Import it without the context if it uses nothing of it."""
        return self._without_needless_context(node)

    def visit_FromImport(self, node: FromImport) -> Node:  # noqa: N802 - Jinja's name
        """Import it without the context if it uses nothing of it."""
        return self._without_needless_context(node)

    def _translated(self, node: Call, text: str) -> Expr:
        # Texts of the catalogues may hold markup; what fills them is escaped.
        translation = self._gettext(text)
        if node.kwargs:
            filled = [Pair(Const(keyword.key), keyword.value) for keyword in node.kwargs]
            return Mod(MarkSafe(Const(translation)), Dict(filled))
        try:
            return MarkSafe(Const(translation % {}))
        except (ValueError, KeyError, TypeError):
            # A percent sign that is no place to fill: the page that shows it says so.
            return node

    def _without_needless_context(self, node: Import | FromImport) -> Node:
        match node.template:
            case Const(value=str(name)) if node.with_context:
                node.with_context = _uses_context(self._environment, name)
            case _:
                pass
        return node


@cache
def _uses_context(environment: Environment, name: str) -> bool:
    """Return whether this template, or one that it uses, reads a variable of the page."""
    seen, left = set[str](), [name]
    while left and environment.loader is not None:
        seen.add(name := left.pop())
        try:
            source = environment.loader.get_source(environment, name)[0]
        except TemplateNotFound:
            return True
        tree = environment.parse(source)
        if find_undeclared_variables(tree) - environment.globals.keys():
            return True
        for used in find_referenced_templates(tree):
            if used is None:
                return True
            if used not in seen:
                left.append(used)
    return False


_SLASHES = r"//[^\n]*|/\*.*?\*/"
_HASH = r"(?<![^\s])#[^\n]*"
_MARKUP = r"<!--.*?-->"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_LONG = r'"""(?:[^\\]|\\.)*?"""'
_BACKTICKS = r"`(?:[^`\\]|\\.)*`"

_C_LIKE = (
    "abstract as async await break case catch class const continue default defer do else enum"
    " export extends final finally for from func function go guard if implements import in"
    " interface internal is let namespace new nil null override package private protected public"
    " readonly record return sealed static struct super switch this throw throws true false try"
    " type typeof using use var void while yield bool int string"
)
_PYTHON = (
    "and as assert async await break class continue def del elif else except finally for from"
    " global if import in is lambda None nonlocal not or pass raise return True False try while"
    " with yield"
)
_RUBY = (
    "and begin class def do else elsif end ensure false if in module next nil not or require"
    " rescue return self super then true unless until when while yield"
)
_SHELL = "case do done elif else esac export fi for function if in local then while"

_SYNTAXES = {
    "c": (_SLASHES, f"{_LONG}|{_QUOTED}|{_BACKTICKS}", _C_LIKE),
    "php": (f"{_SLASHES}|{_HASH}", _QUOTED, _C_LIKE),
    "python": (_HASH, f"{_LONG}|{_QUOTED}", _PYTHON),
    "ruby": (_HASH, _QUOTED, _RUBY),
    "shell": (_HASH, f"{_QUOTED}|{_BACKTICKS}", _SHELL),
    "data": (_HASH, _QUOTED, "true false null yes no on off"),
    "markup": (_MARKUP, _QUOTED, ""),
}
_ENDINGS = {
    **dict.fromkeys(("js", "mjs", "ts", "tsx", "jsx", "go", "java", "kt", "cs", "swift"), "c"),
    **dict.fromkeys(("json", "toml", "yml", "yaml", "ini", "conf", "properties", "env"), "data"),
    **dict.fromkeys(("html", "xml", "csproj"), "markup"),
    **dict.fromkeys(("sh", "bash"), "shell"),
    "php": "php",
    "py": "python",
    "rb": "ruby",
    "ru": "ruby",
}
_LARGEST = 50_000


def highlighted(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the text in pieces, each with its kind: "comment", "string", "keyword", "number" or "".

    `name` is the name of the file, or its ending. Joined, the pieces are the text.
    """
    syntax = _ENDINGS.get(name.rpartition(".")[2].lower(), "")
    if not syntax or len(text) > _LARGEST:
        yield "", text
        return
    end = 0
    for match in _pattern(syntax).finditer(text):
        if match.start() > end:
            yield "", text[end : match.start()]
        yield match.lastgroup or "", match[0]
        end = match.end()
    if end < len(text):
        yield "", text[end:]


@lru_cache(maxsize=len(_SYNTAXES))
def _pattern(syntax: str) -> re.Pattern[str]:
    comment, string, keywords = _SYNTAXES[syntax]
    words = "|".join(keywords.split()) or "(?!)"
    return re.compile(
        rf"(?P<comment>{comment})|(?P<string>{string})"
        rf"|(?<![\w.$-])(?P<keyword>{words})(?![\w-])|(?<![\w.-])(?P<number>\d+(?:\.\d+)?)(?![\w.-])",
        re.DOTALL,
    )


# No character that could end an attribute, a header's value or a directive in it.
_HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][!#-&(-;=?-~]*)?")
# Browsers read a backslash as a slash, and two slashes as another server.
_OWN_PATH = re.compile(r"/(?:[!-.0-\[\]-~][!-~]*)?")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?=[/?#]|$)")
# Characters that change the text direction or are invisible: a name could reorder a sentence.
_UNSEEN = dict.fromkeys(
    [
        *range(0x09),
        *range(0x0E, 0x20),
        *range(0x7F, 0xA0),
        0x061C,
        0x200B,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
    ]
)
_HAS_UNSEEN = re.compile(f"[{re.escape(''.join(map(chr, _UNSEEN)))}]").search
# Screen readers read it as what it is (WCAG 2.2, 3.1.2).
_ENGLISH = do_mark_safe('<span lang="en">{}</span>')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


_AUTHORIZATION = Path(__file__).parent.parent
TREES = {
    "": "site",
    "layout/": "layout",
    **{f"{file.parent.name}/": file.parent.name for file in _AUTHORIZATION.glob("*/feature.py")},
}
"""The folder of our templates, by what their names begin with; each feature has its own."""

_PACKAGE = "valetkey.authorization"
OURS: BaseLoader = ChoiceLoader(
    (
        PrefixLoader(
            {name[:-1]: PackageLoader(_PACKAGE, folder) for name, folder in TREES.items() if name}
        ),
        PackageLoader(_PACKAGE, TREES[""]),
    )
)
"""Loads our templates."""


class PageContext(Protocol):
    """A frozen Struct whose fields are the variables of its template; `render` adds those of all.

    A `title`, translatable, replaces that of the Page: a class variable if the page is declared
    without one or shows several contexts, a field if the object determines it.
    A page that needs a script names it in a class variable `scripts`: its file under
    layout/scripts. Except for passkeys, such a page must work without its script.
    """

    __struct_fields__: ClassVar[tuple[str, ...]]
    template: ClassVar[str]


def render(
    page: PageContext,
    *,
    brand: Brand,
    viewer: Viewer = ANYBODY,
    navigation: Navigation = NOWHERE,
    csrf: str = "",
) -> bytes:
    """Render the page as HTML in UTF-8, in the theme of `brand`, for `viewer`.

    `csrf` is the token of its forms. Every value is escaped. Send the page with
    `content_security_policy`. Raises UndefinedError if the template uses a name that the context
    does not have.
    """
    values = {name: getattr(page, name) for name in page.__struct_fields__}
    files = assets(brand)
    environment = environment_of(viewer.language, brand.theme)
    template = environment.get_template(page.template)
    # As `Template.render` does, which takes 100 microseconds longer to put the globals together.
    context = environment.context_class(
        environment,
        {
            **environment.globals,
            **values,
            "brand": brand,
            "viewer": viewer,
            "assets": files,
            "scripts": [files.scripts[name].path for name in scripts_of(page, navigation)],
            "address": ADDRESSES,
            "csrf": csrf,
            "page_title": getattr(page, "title", navigation.title),
            "menu": navigation.menu,
            "docs_page": navigation.docs,
            "search_url": navigation.search,
        },
        template.name,
        template.blocks,
    )
    try:
        html = "".join(template.root_render_func(context))
    except Exception:  # noqa: BLE001 - raised again, with the lines of the template
        environment.handle_exception()
    return html.encode()


_SEARCH = "search.js"


def scripts_of(page: PageContext, navigation: Navigation = NOWHERE) -> tuple[str, ...]:
    """Return the scripts that this page loads: its own, and that of the search of its area."""
    named: tuple[str, ...] = getattr(page, "scripts", ())
    return (*named, _SEARCH) if navigation.search else named


_CONNECTING = frozenset({"live.js", "preview.js", "explorer.js", _SEARCH})


def connects(page: PageContext, navigation: Navigation = NOWHERE) -> bool:
    """Return whether a script of this page sends requests."""
    return not _CONNECTING.isdisjoint(scripts_of(page, navigation))


def content_security_policy(
    *,
    returns_to: str = "",
    script_nonce: str = "",
    scripts: bool = False,
    connects: bool = False,
    frames: Sequence[str] = (),
) -> str:
    """Return the Content-Security-Policy of a page: our stylesheet, no script, and these frames.

    With `scripts` the page may load scripts of this server; with `connects` these may send requests
    to it.

    Images are ours alone; the logos of apps are copies. `returns_to` is the redirect URI that a
    form of the page may end at, because browsers hold `form-action` against the redirect after a
    form.
    With a `script_nonce` the page has one script of that nonce, and its form goes there alone.
    """
    targets = [target for target in (_form_target(returns_to),) if target]
    forms = " ".join(("form-action", "'self'", *targets))
    if script_nonce:
        script = f"script-src 'nonce-{script_nonce}'; "
        forms = script + " ".join(("form-action", *(targets or ("'none'",))))
    return "; ".join(
        (
            "default-src 'none'",
            "style-src 'self'",
            *(("script-src 'self'",) if scripts else ()),
            *(("connect-src 'self'",) if connects else ()),
            "img-src 'self'",
            forms,
            "frame-ancestors 'none'",
            "base-uri 'none'",
            *((f"frame-src {' '.join(dict.fromkeys(map(origin, frames)))}",) if frames else ()),
        )
    )


def https_only(url: str) -> str:
    """Return the URL if pages may link to it, else ""."""
    return url if _HTTPS.fullmatch(url) else ""


def https_or_own(url: str) -> str:
    """Return the operator's URL if it is `https` or a path of this server, else ""."""
    return own_path(url) or https_only(url)


def own_path(url: str) -> str:
    """Return the URL if it is a path of this server, else ""."""
    return url if _OWN_PATH.fullmatch(url) else ""


def initial(name: str) -> str:
    """Return the placeholder of an app without a logo: the first letter or digit of its name."""
    return next((letter.upper()[0] for letter in name if letter.isalnum()), "·")


def initials(name: str) -> str:
    """Return the placeholder of a user without a picture: of the first and the last word."""
    words = [word for word in name.split() if any(map(str.isalnum, word))] or [""]
    return "".join(map(initial, dict.fromkeys((words[0], words[-1]))))


def sentence(text: str) -> str:
    """Return the description of an error as a sentence: with a capital letter and a full stop.

    A name of the protocol such as `redirect_uri` keeps its first letter.
    """
    if text.partition(" ")[0].isalpha():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) or not text else f"{text}."


def _form_target(url: str) -> str:
    """Return the CSP source of a redirect URI: its origin, or its scheme if it has no host."""
    # A private scheme has no origin, and source expressions cannot name an IPv6 address.
    match = _ORIGIN.match(url) or _SCHEME.match(url)
    return match[0] if match else ""


class _Exact(str):
    __slots__ = ()


def exact(text: str) -> str:
    """Return the text for a hidden field: escaped, with every character preserved."""
    return _Exact(text)


def _visible(value: object) -> object:
    """Convert the value of a template expression to what is put on the page."""
    # Printable text has no invisible characters, and is detected much faster.
    if not isinstance(value, str) or value.isprintable() or isinstance(value, _Exact):
        return value
    return value.translate(_UNSEEN) if _HAS_UNSEEN(value) else value


def loader_of(theme: Theme | None) -> BaseLoader:
    """Load templates from the theme, then from us. `ours/…` is ours in any case."""
    if theme is None:
        return OURS
    theirs = FileSystemLoader(theme.directory / TEMPLATES)
    return ChoiceLoader((theirs, OURS, PrefixLoader({"ours": OURS})))


@lru_cache(maxsize=1_024)  # themes of all issuers of the process, each in its languages
def environment_of(language: Language, theme: Theme | None = None) -> Environment:
    """Return the environment of all templates in this language, with this theme."""
    texts = words(language, theme)
    # Ours hold nothing that would have to be kept in; they are faster without.
    kind = Environment if theme is None else ImmutableSandboxedEnvironment
    environment = kind(
        loader=loader_of(theme),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        auto_reload=False,
        finalize=_visible,
        lstrip_blocks=True,
    )
    # A sentence is the same wherever its lines break.
    environment.policies["ext.i18n.trimmed"] = True
    environment.code_generator_class = page_compiler(texts.gettext)
    environment.filters["initial"] = initial
    environment.filters["initials"] = initials
    environment.filters["exact"] = exact
    environment.filters["shown_email"] = shown_email

    def translated(text: str) -> str:
        if isinstance(text, FilledText):
            return texts.gettext(text.template) % text.values
        # The translation of the empty text is the header of the catalogue.
        return texts.gettext(text) if text else ""

    def translated_or_english(text: str) -> str:
        """Translate a text that may have been written for programs; mark it as English if so."""
        translation = translated(text)
        return translation if translation != text or language is ENGLISH else _ENGLISH.format(text)

    def sentence_of(text: str) -> str:
        translation = translated(text)
        return (
            sentence(translation) if translation != text else translated_or_english(sentence(text))
        )

    environment.filters["translated_or_english"] = translated_or_english
    environment.filters["sentence"] = sentence_of
    # For sentences that are values: `_` would take a percent sign in them for a place to fill.
    environment.filters["translated"] = translated
    environment.filters["number"] = partial(number, language=language)
    environment.filters["place"] = partial(PLACES.place_of, language=language.tag)
    environment.filters["day"] = partial(day, gettext=texts.gettext)
    environment.filters["moment"] = partial(moment, gettext=texts.gettext)
    environment.filters["https_only"] = https_only
    environment.filters["https_or_own"] = https_or_own
    environment.filters["own_path"] = own_path
    # Typed as one of Jinja's own filters, of which none takes two texts.
    environment.filters["highlighted"] = highlighted  # pyright: ignore[reportArgumentType]
    # The extension adds this method, which type checkers cannot see. `newstyle` escapes what is
    # put into a translated sentence.
    environment.install_gettext_translations(  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        texts, newstyle=True
    )
    return environment
