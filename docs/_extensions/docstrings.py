"""Read the NumPy style by napoleon's reader, but those of values like those of methods.

Left to itself, napoleon takes the first line of a property, an attribute or a constant for
"type: text", splits it at the first colon, and takes the sections that follow for text.
"""

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.typing import ExtensionMetadata

OF_A_FIELD = "Alias for field number"  # what Python itself says of each field of a NamedTuple


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    kind = "method" if what in ("attribute", "data", "property") else what
    lines[:] = NumpyDocstring(lines, app.config, app, kind, name, obj, options).lines()


def skip(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any) -> bool | None:
    return True if str(getattr(obj, "__doc__", "")).startswith(OF_A_FIELD) else None


def setup(app: Sphinx) -> ExtensionMetadata:
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
