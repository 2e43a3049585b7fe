"""Document the public names of a module in groups.

The directive ``public`` takes a module and some of its names. It writes a table of them, with the
first sentence of each, and below the table their entries. Members of a class that only do what its
base promises, and say so in one line, have no entry of their own.
"""

import importlib
import inspect
import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.ext.autosummary import Autosummary
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec, stringify_annotation
from torch.nn import Module

log = logging.getLogger(__name__)


class Public(SphinxDirective):
    """A table of public names and an entry for each."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {"inherited-members": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        module, names = self.arguments[0], " ".join(self.content).split()
        table = [".. summary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        entries = [line for name in names for line in self.entry(module, name)]
        lines = [f".. currentmodule:: {module}", "", *(table if names[1:] else []), *entries]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=False)

    def entry(self, module: str, name: str) -> list[str]:
        """Return the lines that document ``name``."""
        value = inspect.unwrap(getattr(importlib.import_module(module), name))  # of a question
        if not isinstance(value, type | FunctionType):
            return constant(module, name, value)
        kind = "function" if isinstance(value, FunctionType) else "class"
        if isinstance(value, type) and issubclass(value, BaseException):
            kind = "exception"
        if kind == "function":
            return [f".. autofunction:: {name}", ""]
        options = [f"   :{option}: {text}" for option, text in self.options.items()]
        return [f".. auto{kind}:: {name}", "   :members:", *options, ""]


class Summary(Autosummary):
    """A table of names that says of constants and aliases what they are, not what their type is."""

    def get_items(self, names: list[str]) -> list[tuple[str, str | None, str, str]]:
        module = self.env.ref_context["py:module"]
        return [
            (shown, signature, (said_of(module, name) or summary).rstrip(",.:") + ".", real)
            for name, (shown, signature, summary, real) in zip(
                names, super().get_items(names), strict=True
            )
        ]


def said_of(module: str, name: str) -> str | None:
    """Return one sentence on a constant or an alias, None for what has a docstring of its own."""
    value = inspect.unwrap(getattr(sys.modules[module], name))
    if not isinstance(value, type | FunctionType):
        return " ".join(docs_of_constant(module, name)).partition(". ")[0]
    return None if value.__name__ == name else f"Another name of {value.__name__}"


def docs_of_constant(module: str, name: str) -> list[str]:
    analyzer = ModuleAnalyzer.for_module(defining_module(module, name))
    return analyzer.find_attr_docs().get(("", name), [])


def constant(module: str, name: str, value: object) -> list[str]:
    """Return the lines that document a constant or the name of a type."""
    text = docs_of_constant(module, name)
    if not text:
        log.warning("a public name must have a docstring, got none for %s.%s", module, name)
    if isinstance(value, str):
        head = [f".. py:data:: {name}", f"   :value: {value!r}"]
    elif isinstance(value, (tuple, list, Mapping)):
        head = [f".. py:data:: {name}"]
    else:
        canonical = stringify_annotation(value, "smart")
        head = [f".. py:type:: {name}", f"   :canonical: {canonical}"]
    return [*head, "", *(f"   {line}" for line in text), ""]


def defining_module(module: str, name: str) -> str:
    """Return the module that says what a constant is, where ``module`` may only import it."""
    package, value = module.split(".", 1)[0], getattr(sys.modules[module], name)
    for found, contents in list(sys.modules.items()):
        if found.split(".", 1)[0] == package and vars(contents).get(name) is value:
            if ("", name) in ModuleAnalyzer.for_module(found).find_attr_docs():
                return found
    return module


def follow(app: Sphinx, module: str, name: str) -> str | None:
    """Return where to look for the source of a constant; that of others is found without it."""
    value = getattr(sys.modules[module], name, None)
    is_known = value is None or isinstance(value, type | FunctionType)
    return None if is_known else defining_module(module, name)


def skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    return True if says_nothing_new(name, obj) else None


def says_nothing_new(name: str, member: Any) -> bool:
    """Whether ``member`` overrides what a public base documents, and has one line to say."""
    function = function_of(member)
    text = inspect.cleandoc(getattr(function, "__doc__", None) or "")
    if not isinstance(function, FunctionType) or "\n" in text:
        return False
    owner: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split(".")[:-1]:
        owner = getattr(owner, part, None)
    bases = filter(is_public, owner.__mro__ if isinstance(owner, type) else ())
    others = [function_of(inspect.getattr_static(base, name, None)) for base in bases]
    return any(other is not function and getattr(other, "__doc__", "") for other in others)


def function_of(member: Any) -> Any:
    """Return the function behind a property, a static or a class method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def is_public(base: type) -> bool:
    """Whether users find ``base`` in a reference: ours, or that of torch."""
    package = sys.modules[base.__module__.split(".", 1)[0]]
    return base is Module or base.__name__ in getattr(package, "__all__", ())


def setup(app: Sphinx) -> ExtensionMetadata:
    app.setup_extension("sphinx.ext.autosummary")
    app.add_directive("public", Public)
    app.add_directive("summary", Summary)
    app.connect("autodoc-skip-member", skip)
    app.connect("viewcode-follow-imported", follow)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
