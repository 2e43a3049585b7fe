"""Draw the pictures that pages show and no tutorial draws, anew at each build."""

from pathlib import Path

import torch
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from linops_core import Diagonal
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import simulated


def timeline() -> str:
    """Return a picture of eight tiles on two devices."""
    with simulated(3):
        spec = BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="sim:0")
        batched = create_batched_linop(Diagonal(torch.ones(8), ("C",)), spec)
    return batched.timeline(compute=3).to_svg()


def draw(app: Sphinx) -> None:
    folder = Path(app.srcdir, "gallery", "images")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "timeline.svg").write_text(timeline(), "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
