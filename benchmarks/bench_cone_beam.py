"""Cones of rays against RTK on the CPU: equal line integrals, ratios of processor times.

RTK is compiled code with the same method (Joseph's). ``pip install itk-rtk`` installs it. Without
it, the operators are timed alone. ASTRA projects volumes on a GPU only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from interleaved import interleaved, print_timings
from peers import importable
from torch import Tensor

from linops_imaging import ConeBeam, fdk

CASES = ((64, 60), (128, 20))
TARGET = 1.5


def main() -> None:
    """Time both directions after checking that RTK sees the same."""
    torch.manual_seed(0)
    itk = importable(["itk"]).get("itk")
    with torch.no_grad():
        for size, n_views in CASES:
            compare(size, n_views, itk)


def compare(size: int, n_views: int, itk: Any) -> None:
    """Time the projection of a cube of voxels, the adjoint and FDK."""
    angles = torch.arange(n_views) * (2 * math.pi / n_views)
    lengths = 4.0 * size, 2.0 * size, 1.5
    A = ConeBeam(angles, (size, size), size, *lengths, batch_shape=())
    # RTK follows rays to the centres of the voxels of the border, where this volume is zero.
    x = torch.zeros(size, size, size)
    x[2:-2, 2:-2, 2:-2] = torch.rand(size - 4, size - 4, size - 4)
    y = A(x)
    ways: dict[str, Callable[[], object]] = {"ConeBeam": lambda: A(x)}
    back_ways: dict[str, Callable[[], object]] = {"ConeBeam, adjoint": lambda: A.H(y)}
    fdk_ways: dict[str, Callable[[], object]] = {"fdk": lambda: fdk(y, A)}
    if itk is not None:
        theirs, their_back, their_fdk = of_rtk(itk, A, x, y)
        within = (slice(2, -2),) * 3
        # What the README of linops-imaging says; measured: 2.1e-7 to 2.7e-7, and 3.7e-7 to 9.9e-7.
        for own, other, most in (
            (y, theirs(), 5e-7),
            (A.H(y)[within], their_back()[within], 2e-6),
        ):
            error = float((own - other).norm() / own.norm())
            assert error < most, error
        ways = {"RTK, Joseph": theirs} | ways
        back_ways = {"RTK, Joseph's back projection": their_back} | back_ways
        fdk_ways = {"RTK, FDK": their_fdk} | fdk_ways
    what = f"{size}^3 float32, {n_views} views of {size} x {size} rays"
    for title, own_ways in ((what, ways), (f"adjoint, {what}", back_ways)):
        timings = interleaved(own_ways, rounds=7, clock=time.process_time)
        print_timings(f"cone beam, {title}", timings, {list(own_ways)[-1]: TARGET})
    timings = interleaved(fdk_ways, rounds=7, clock=time.process_time)
    print_timings(f"cone beam, fdk, {what}", timings)


def of_rtk(
    itk: Any, A: ConeBeam, x: Tensor, y: Tensor
) -> tuple[Callable[[], Tensor], Callable[[], Tensor], Callable[[], Tensor]]:
    """Return the projection, the back projection and FDK, in our order of axes."""
    threads = itk.MultiThreaderBase
    threads.SetGlobalMaximumNumberOfThreads(torch.get_num_threads())
    threads.SetGlobalDefaultNumberOfThreads(torch.get_num_threads())
    image = itk.Image[itk.F, 3]
    size, n_views, spacing = A.grid_size[0], len(A.angles), 1.5
    geometry = itk.RTK.ThreeDCircularProjectionGeometry.New()
    far = A.source_distance + A.detector_distance
    for angle in A.angles.double().rad2deg().tolist():
        geometry.AddProjection(A.source_distance, far, angle)

    def placed(values: Tensor, *spacings: float) -> Any:
        result = itk.image_from_array(values.contiguous().numpy())
        result.SetSpacing(spacings)
        result.SetOrigin(
            [-(n - 1) / 2 * s for n, s in zip(reversed(values.shape), spacings, strict=True)]
        )
        return result

    def zeros(sizes: tuple[int, ...], *spacings: float) -> Any:
        return placed(torch.zeros(sizes), *spacings)

    # RTK turns about its axis 1; arrays have the last axis first.
    volume = placed(x.permute(1, 2, 0).flip(0), 1.0, 1.0, 1.0)
    views = placed(y, spacing, spacing, 1.0)

    def run(kind: Any, first: Any, second: Any) -> Tensor:
        work = kind[image, image].New()
        work.SetGeometry(geometry)
        work.SetInput(0, first)
        work.SetInput(1, second)
        work.Update()
        return torch.from_numpy(itk.array_from_image(work.GetOutput()))

    def there() -> Tensor:
        empty = zeros((n_views, size, size), spacing, spacing, 1.0)
        return run(itk.RTK.JosephForwardProjectionImageFilter, empty, volume)

    def back() -> Tensor:
        empty = zeros((size, size, size), 1.0, 1.0, 1.0)
        result = run(itk.RTK.JosephBackProjectionImageFilter, empty, views)
        return result.flip(0).permute(2, 0, 1)

    def of_fdk() -> Tensor:
        work = itk.RTK.FDKConeBeamReconstructionFilter[image].New()
        work.SetGeometry(geometry)
        work.SetInput(0, zeros((size, size, size), 1.0, 1.0, 1.0))
        work.SetInput(1, views)
        work.Update()
        return torch.from_numpy(itk.array_from_image(work.GetOutput()))

    return there, back, of_fdk


if __name__ == "__main__":
    main()
