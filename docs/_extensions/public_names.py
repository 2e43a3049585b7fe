"""Link the names that annotations and docstrings give to the names that users import.

An annotation says ``linops_core._operators._fft.FFT``, a docstring says ``FFT``; the reference
has it as ``linops_core.FFT``. A type is never a method or an attribute, whatever their names: the
``device`` of a parameter is not that of an action.
"""

from typing import cast

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

NO_TYPES = ["attribute", "function", "method", "property"]
OF_TORCH = ["Tensor"]  # but within memmap.dataflow, where the domain finds its own


def search_exactly(app: Sphinx, doctree: nodes.document) -> None:
    """Let the domain find types by their whole names alone; the others are looked up here."""
    for node in doctree.findall(pending_xref):
        if node.get("refdomain") == "py" and node.get("reftype") == "class":
            node.attributes.pop("refspecific", None)  # the domain asks whether it is there


def public_name(domain: PythonDomain, target: str, kind: str) -> str | None:
    """Return the documented name of ``target``, or None where there is none or several."""
    public = ".".join(part for part in target.split(".") if not part.startswith("_"))
    if public in domain.objects:
        return public
    found = [
        name
        for name, entry in domain.objects.items()
        if name.endswith(f".{target}")
        and not entry.aliased
        and not (kind == "class" and entry.objtype in NO_TYPES)
    ]
    return found[0] if len(found) == 1 else None


def is_private(target: str) -> bool:
    """Whether ``target`` is not for users: a type variable, or a base class of something public."""
    return any(part.startswith("_") for part in target.split("."))


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.TextElement
) -> nodes.Element | None:
    """Resolve a reference that the Python domain itself could not."""
    if node.get("refdomain") != "py":
        return None
    if node["reftarget"] in OF_TORCH:
        return contents
    domain = cast(PythonDomain, env.domains["py"])
    name = public_name(domain, node["reftarget"], node["reftype"])
    if name is None:
        return contents if is_private(node["reftarget"]) else None
    node["refspecific"] = False
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contents)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("doctree-read", search_exactly)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
