"""Compile templates so that what is the same on every page of a language is computed once.

An environment has one language, so a translated literal is a constant of it. And a template that is
imported "with context" runs again for every page: one that uses nothing of the context runs once.
The indentation of a template is not sent.
"""

import re
from collections.abc import Callable
from functools import cache

from jinja2 import Environment, TemplateNotFound
from jinja2.compiler import CodeGenerator, Frame
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
from jinja2.visitor import NodeTransformer


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
        said = self._gettext(text)
        if node.kwargs:
            filled = [Pair(Const(each.key), each.value) for each in node.kwargs]
            return Mod(MarkSafe(Const(said)), Dict(filled))
        try:
            return MarkSafe(Const(said % {}))
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
