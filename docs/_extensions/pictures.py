"""Draw the pictures that pages show and no tutorial draws, anew at each build."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from linops_core import Diagonal
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import simulated
from memmap import MemoryReport
from nameddim import NamedShape

ROOT = Path(__file__).parents[2]
BOX = {"boxstyle": "round", "facecolor": "white", "edgecolor": "tab:blue"}


def timeline(path: Path) -> None:
    """Draw eight tiles on two devices."""
    with simulated(3):
        spec = BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="sim:0")
        batched = create_batched_linop(Diagonal(torch.ones(8), ("C",)), spec)
    path.write_text(batched.timeline(compute=3).to_svg(), "utf-8")


def storages(path: Path) -> None:
    """Draw where two weights that share four elements and a tied one lie."""
    flat = torch.zeros(12)
    weights = {"a": flat[:6], "b": flat[2:8], "tied": flat[2:8], "other": torch.zeros(5)}
    path.write_text(MemoryReport(weights).to_svg(), "utf-8")


def names(path: Path) -> None:
    """Draw what the wildcard in the shape of a Fourier transform stands for."""
    pattern = NamedShape(("...", "Nx", "Ny"), ("...", "Kx", "Ky"))
    resolved = pattern.resolve(ishape=("C", "Nz", "Nx", "Ny"))
    figure = Figure(figsize=(7.5, 2.2), layout="constrained")
    axes = figure.add_subplot(xlim=(-0.5, 8.5), ylim=(-0.4, 1.7))
    axes.set_axis_off()
    above = (0.5, 2, 3)  # the wildcard is between the two dimensions that it stands for
    line = {"arrowstyle": "-", "color": "gray", "shrinkA": 12, "shrinkB": 12}
    for side, left in (("ishape", 0), ("oshape", 5)):
        axes.text(left + 1.5, 1.5, side, ha="center")
        for row, ats, dims in (
            (1, above, getattr(pattern, side)),
            (0, range(4), getattr(resolved, side)),
        ):
            for at, dim in zip(ats, dims, strict=True):
                text = {"ha": "center", "va": "center", "family": "monospace"}
                axes.text(left + at, row, str(dim), bbox=BOX, **text)
        for at, start in enumerate((above[0], *above)):
            axes.annotate("", (left + at, 0), (left + start, 1), arrowprops=line)
    for row in (0, 1):
        axes.annotate("", (4.6, row), (3.4, row), arrowprops={"arrowstyle": "->"})
    figure.savefig(path)


def packages(path: Path) -> None:
    """Draw which package needs which, from what they declare."""
    needs = {}
    for file in ROOT.glob("packages/*/pyproject.toml"):
        project: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))["project"]
        siblings = {line.split(">")[0] for line in project["dependencies"]}
        needs[project["name"]] = siblings
    needs = {name: found & needs.keys() for name, found in needs.items()}
    needs = {
        name: found - set().union(*(needs[other] for other in found))
        for name, found in needs.items()
    }
    levels: dict[str, int] = {}
    while len(levels) < len(needs):
        for name, found in needs.items():
            if found <= levels.keys():
                levels[name] = 1 + max((levels[other] for other in found), default=-1)
    places = {}
    for level in set(levels.values()):
        row = sorted(name for name in levels if levels[name] == level)
        places |= {name: (k - (len(row) - 1) / 2, level) for k, name in enumerate(row)}
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.add_subplot(xlim=(-1.2, 1.2), ylim=(-0.4, max(levels.values()) + 0.4))
    axes.set_axis_off()
    for name, found in needs.items():
        for other in found:
            arrow = {"arrowstyle": "->", "color": "gray", "shrinkA": 14, "shrinkB": 14}
            axes.annotate("", places[other], places[name], arrowprops=arrow)
    for name, place in places.items():
        axes.text(*place, name, ha="center", va="center", bbox=BOX)
    figure.savefig(path)


def readme(path: Path) -> None:
    """Draw what the example of README.md computes."""
    text = (ROOT / "README.md").read_text("utf-8")
    found: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(text.partition("```python\n")[2].partition("```")[0], found)
    zero_filled = abs(found["A"].H(found["y"]))
    pictures = {
        "head": (found["head"], 0.5),
        "k-space, measured": (found["mask"], 1),
        "zero-filled": (zero_filled, zero_filled.max() / 2),
        "x": (abs(found["x"]), 0.5),
    }
    figure = Figure(figsize=(8, 2.3), layout="constrained")
    for place, (title, (picture, largest)) in zip(
        figure.subplots(1, len(pictures)), pictures.items(), strict=True
    ):
        place.imshow(picture.T.flip(0).numpy(), cmap="gray", vmin=0, vmax=largest)
        place.set(title=title, xticks=[], yticks=[])
    figure.savefig(path, dpi=160)


PICTURES: dict[str, Callable[[Path], None]] = {
    "names.svg": names,
    "packages.svg": packages,
    "readme.png": readme,
    "storages.svg": storages,
    "timeline.svg": timeline,
}


def draw(app: Sphinx) -> None:
    folder = Path(app.srcdir, "gallery", "images")
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "docs"}):
        for name, picture in PICTURES.items():
            picture(folder / name)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
