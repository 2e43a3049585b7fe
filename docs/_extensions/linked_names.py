"""Link the public names that pages mention to the reference.

A README is read on its own, too, and has nothing but backticks around a name. What stands between
them is a name of ours if there is exactly one class, function, exception or type so called.
"""

from typing import cast

from docutils import nodes
from public_names import OF_TORCH
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata

KINDS = ["class", "exception", "function", "type"]
SHORT = ("tl.", "torchlinops.")
UNLINKED = (nodes.reference, nodes.title, nodes.term)
STRATEGIES = ".strategies."  # plain words, most of them
AMBIGUOUS = [*OF_TORCH, "batch_sizes"]  # the latter is a parameter, and a strategy


def meant(domain: PythonDomain, text: str) -> str | None:
    """Return the documented name that ``text`` is, or None where it is none or several."""
    for prefix in SHORT:
        text = text.removeprefix(prefix)
    found = [
        name
        for name, entry in domain.objects.items()
        if entry.objtype in KINDS
        and not entry.aliased
        and (name == text or name.endswith(f".{text}"))
        and (STRATEGIES not in name or "." in text)
    ]
    return found[0] if len(found) == 1 and text not in AMBIGUOUS else None


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    domain = cast(PythonDomain, app.env.domains["py"])
    for literal in list(doctree.findall(nodes.literal)):
        ancestor: nodes.Node = literal
        while ancestor.parent is not None and not isinstance(ancestor, UNLINKED):
            ancestor = ancestor.parent
        name = meant(domain, literal.astext().removesuffix("()"))
        if isinstance(ancestor, UNLINKED) or name is None:
            continue
        entry = domain.objects[name]
        literal.replace_self(
            make_refnode(app.builder, docname, entry.docname, entry.node_id, literal.deepcopy())
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
