"""Warn of pages that do not hold together, or that need a network.

Sphinx checks what it resolves itself. It does not look at raw HTML, at what a theme adds, at a link
to an anchor of another page, or at what a browser would have to fetch from elsewhere. Neither does
it know which words users search for, and which names are not for them.
"""

from pathlib import Path

from pages import faults, not_found
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

log = logging.getLogger(__name__)


def check(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for fault in faults(Path(app.outdir)):
            log.warning("%s", fault)
        for word in not_found(Path(app.outdir, "searchindex.js")):
            log.warning("the search must find %r", word)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
