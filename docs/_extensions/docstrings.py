"""Read the NumPy style by napoleon's reader, with what it gets wrong put right.

Left to itself, napoleon takes the first line of a property, an attribute or a constant for
"type: text", splits it at the first colon, and takes the sections that follow for text. It takes
the first of several attributes on one line for a type. And docutils takes an author's initial at
the beginning of a line for the first item of a list.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_annotation, literal_strong
from sphinx.application import Sphinx
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.typing import ExtensionMetadata

OF_A_FIELD = "Alias for field number"  # what Python itself says of each field of a NamedTuple
FUNCTION = re.compile(r"<(?:ufunc|(?:built-in )?function) '?(\w+)[^>]*>")  # of NumPy, as defaults
INITIAL = re.compile(r"^(\s*)([A-Z]\.) (?=[A-Z])")


class Docstring(NumpyDocstring):
    """A docstring in which attributes may share a line, as parameters may."""

    def _consume_fields(
        self, parse_type: bool = True, prefer_type: bool = False, multiple: bool = False
    ) -> list[tuple[str, str, list[str]]]:
        return super()._consume_fields(parse_type, prefer_type, multiple or not prefer_type)


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    kind = "method" if what in ("attribute", "data", "property") else what
    escaped = [INITIAL.sub(r"\1\\\2 ", line) for line in lines]
    lines[:] = Docstring(escaped, app.config, app, kind, name, obj, options).lines()


def sign(
    app: Sphinx, what: str, name: str, obj: object, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Write defaults that are functions, or made anew, as they can be read as Python."""
    named = FUNCTION.sub(r"np.\1", signature or "")
    return signature and (named.replace("<factory>", "..."), returned)


def skip(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any) -> bool | None:
    return True if str(getattr(obj, "__doc__", "")).startswith(OF_A_FIELD) else None


def hide_classes(app: Sphinx, doctree: nodes.document) -> None:
    """Leave out the value of an attribute that lists classes: their paths are not for users."""
    for annotation in list(doctree.findall(desc_annotation)):
        if "<class '" in annotation.astext():
            annotation.parent.remove(annotation)


def join_parameters(app: Sphinx, doctree: nodes.document) -> None:
    """Write several parameters with one description as one item: the reader repeats the text."""
    for items in list(doctree.findall(nodes.bullet_list)):
        if not isinstance(items.parent, nodes.field_body):
            continue
        last, last_text = None, ""
        for item in list(items.children):
            paragraph = item.next_node(nodes.paragraph)
            name = paragraph.children[0] if paragraph and paragraph.children else None
            if not isinstance(name, literal_strong):
                last = None
                continue
            text = "".join(n.pformat() for n in (*paragraph.children[1:], *item.children[1:]))
            if last is not None and text and text == last_text:
                last.parent.insert(last.parent.index(last) + 1, [nodes.Text(", "), name])
                items.remove(item)
            last, last_text = name, text


def setup(app: Sphinx) -> ExtensionMetadata:
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-read", hide_classes)
    app.connect("doctree-read", join_parameters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
