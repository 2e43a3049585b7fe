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
    "sphinx_gallery.gen_gallery",
    "checked_pages",
    "docstrings",
    "linked_names",
    "mathjax_file",
    "pictures",
    "printed_output",
    "public_names",
    "public_reference",
    "scrolled_pictures",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = "torchlinops"
html_favicon = "_static/favicon.svg"
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # only such lines are copied, where there are some
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.sphx-glr-script-out) > div.highlight > pre"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_domain_indices = False  # the general index has all names
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Every script is run at each build; one that raises, or warns, ends it.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"/plot_\d",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "min_reported_time": 1e9,  # how long a script took says more of the machine than of the script
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", "warnings_in_scripts.raise_warnings"),
    "reset_modules_order": "both",
    "run_stale_examples": True,  # a script that has not changed may show a library that has
    "show_signature": False,
    "write_computation_times": False,
}

default_role = "code"
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    "ArrayLike": "numpy.typing.ArrayLike",
    "npt.DTypeLike": "numpy.typing.DTypeLike",
}
napoleon_google_docstring = False
napoleon_numpy_docstring = False  # the extension docstrings reads them
napoleon_use_ivar = True  # an attribute may have a docstring of its own
napoleon_use_rtype = False

# References to our own names must resolve. The names of other projects, and the words of a
# "Parameters" section ("int or None", "tensor of shape (C, N)"), are not ours to resolve.
nitpicky = True
OURS = [
    "linops_core",
    "linops_distributed",
    "linops_imaging",
    "linops_multigpu",
    "linops_solvers",
    "linops_split",
    "memmap",
    "nameddim",
    "torchlinops",
]
OTHERS = [*dir(builtins), *sys.stdlib_module_names, "hypothesis", "numpy", "np", "scipy", "torch"]
nitpick_ignore_regex = [
    (r"py:.*", rf"({'|'.join(OTHERS)})(\..*)?"),
    (r"py:class", rf"(?!({'|'.join(OURS)})\.).*"),
    (r"py:class", r".*\.T"),  # a type variable
]
