"""Mark what programs printed in columns, whose lines are not to be broken."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

OUTPUT = "sphx-glr-script-out"
GAP = re.compile(r"\S {2,}\S")


def mark(app: Sphinx, doctree: nodes.document) -> None:
    for block in doctree.findall(nodes.literal_block):
        lines = block.astext().splitlines()
        is_printed = OUTPUT in block["classes"] or block.get("language") in ("text", "none")
        if is_printed and sum(bool(GAP.search(line)) for line in lines) > 1:
            block["classes"].append("columns")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
