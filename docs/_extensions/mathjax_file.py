"""Render formulas by MathJax from a file beside the pages, so that they need no network.

A distribution ships MathJax; of its 24 MB one file is copied, which has all of TeX and the glyphs.
"""

from importlib.metadata import files

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

DISTRIBUTION, FILE = "sphinx-mathjax-offline", "tex-svg-full.js"


def add_file(app: Sphinx) -> None:
    (script,) = (found for found in files(DISTRIBUTION) or () if found.name == FILE)
    (app.outdir / "_static").mkdir(exist_ok=True)
    (app.outdir / "_static" / FILE).write_bytes(script.read_binary())


def setup(app: Sphinx) -> ExtensionMetadata:
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = FILE
    app.connect("builder-inited", add_file)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
