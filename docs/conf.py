"""Settings of the documentation: Sphinx, Markdown pages, reference from the docstrings."""

import builtins
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "torchlinops"
copyright = "the authors of torchlinops"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "docstrings",
    "mathjax_file",
    "public_names",
]
html_theme = "furo"
html_title = "torchlinops"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_numpy_docstring = False  # the extension docstrings reads them
napoleon_use_ivar = True  # an attribute may have a docstring of its own
napoleon_use_rtype = False

# References to our own names must resolve. The names of other projects, and the words of a
# "Parameters" section ("int or None", "tensor of shape (C, N)"), are not ours to resolve.
nitpicky = True
OURS = ["linops_core", "linops_multigpu", "linops_split", "memmap", "nameddim", "torchlinops"]
OTHERS = [*dir(builtins), *sys.stdlib_module_names, "hypothesis", "numpy", "np", "scipy", "torch"]
nitpick_ignore_regex = [
    (r"py:.*", rf"({'|'.join(OTHERS)})(\..*)?"),
    (r"py:class", rf"(?!({'|'.join(OURS)})\.).*"),
]
