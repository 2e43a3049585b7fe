"""Richardson-Lucy deconvolution in three dimensions, against scikit-image: the same result.

Ratios are of processor time. The scene has a dark border, because scikit-image leaves out the
sensitivity of voxels at borders. With several boundaries it is the same job for ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from interleaved import interleaved, print_timings
from peers import importable
from torch import Tensor

from linops_core import Convolution
from linops_solvers import richardson_lucy

GRID, TAPS, BORDER, STEPS = (48, 96, 96), (9, 15, 15), 8, 20
ROUNDS = 5
TARGET = 1.0


def problem() -> tuple[Tensor, Tensor]:
    """Return counts with a dark border, and the point spread function."""
    generator = torch.Generator().manual_seed(0)
    axes = [torch.linspace(-2, 2, n).square() for n in TAPS]
    psf = torch.exp(-(axes[0][:, None, None] + axes[1][:, None] + axes[2]))
    psf /= psf.sum()
    scene = torch.zeros(GRID)
    inner = scene[tuple(slice(2 * BORDER, -2 * BORDER) for _ in GRID)]
    inner += 200 * (torch.rand(inner.shape, generator=generator) < 0.02)
    return torch.poisson(Convolution(psf)(scene).clamp(min=0), generator=generator), psf


def ways(y: Tensor, psf: Tensor) -> Mapping[str, Callable[[], Tensor]]:
    """Return the job with each library and boundary, from their first image."""
    half = torch.full_like(y, 0.5)
    found: dict[str, Callable[[], Tensor]] = {}
    skimage = importable(["skimage.restoration"])
    if skimage:
        theirs = skimage["skimage.restoration"].richardson_lucy
        image, kernel = y.numpy(), psf.numpy()
        found["scikit-image"] = lambda: torch.from_numpy(theirs(image, kernel, STEPS, clip=False))
    for boundary in ("zeros", "extended"):

        def ours(boundary: str = boundary) -> Tensor:
            return richardson_lucy(y, psf, half, STEPS, boundary=boundary)

        found[f"richardson_lucy, {boundary}"] = ours
    return found


def main() -> None:
    """Time all ways after checking that their results are equal."""
    y, psf = problem()
    jobs = ways(y, psf)
    first, *others = (job() for job in jobs.values())
    for other in others:
        error = float((other - first).norm() / first.norm())
        assert error < 1e-3, error
    targets = {"richardson_lucy, zeros": TARGET} if "scikit-image" in jobs else {}
    shape = " x ".join(map(str, GRID))
    print_timings(
        f"Richardson-Lucy, {STEPS} steps, {shape} float32, psf of {TAPS}, processor time",
        interleaved(jobs, ROUNDS, clock=time.process_time),
        targets,
    )


if __name__ == "__main__":
    main()
