"""Let rows of pictures in tutorials be scrolled where the page is too narrow for their titles."""

from pathlib import Path

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx_gallery.directives import imgsgnode

WIDE = 2.1  # times as wide as high


def wrap(app: Sphinx, doctree: nodes.document) -> None:
    for picture in list(doctree.findall(imgsgnode)):
        with Image.open(Path(app.srcdir, picture["uri"].lstrip("/"))) as image:
            width, height = image.size
        if width > WIDE * height:
            frame = nodes.container(classes=["scrolled"])
            picture.replace_self(frame)
            frame += picture


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("doctree-read", wrap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
