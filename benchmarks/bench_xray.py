"""The X-ray transform against ASTRA on the CPU: equal line integrals, ratios of times.

Run it on one thread: this part of ASTRA has no more. Without ASTRA, the operators are timed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from interleaved import interleaved, print_timings
from peers import importable
from torch import Tensor

from linops_imaging import FanBeam, ParallelBeam, phantoms

N, VIEWS, DETECTORS = 256, 180, 384
SOURCE, DETECTOR, SPACING = 500.0, 300.0, 1.6
TARGET = 0.9


def main() -> None:
    """Time both beams after checking that they see what ASTRA does, and that adjoints are."""
    torch.manual_seed(0)
    angles = torch.arange(VIEWS) * (math.pi / VIEWS)
    beams: dict[str, ParallelBeam | FanBeam] = {
        "linear": ParallelBeam(angles, DETECTORS, N, batch_shape=()),
        "line_fanflat": FanBeam(angles, DETECTORS, N, SOURCE, DETECTOR, SPACING, batch_shape=()),
    }
    image = phantoms.shepp_logan([N, N])
    astra = importable(["astra"]).get("astra")
    with torch.no_grad():
        for projector, A in beams.items():
            compare(A, projector, image, astra)


def compare(A: ParallelBeam | FanBeam, projector: str, image: Tensor, astra: Any) -> None:
    """Time an operator, its adjoint, and what ASTRA has for both."""
    y = A(image)
    back = A.H(y)
    matched = float(
        torch.vdot(y.flatten(), y.flatten()) / torch.vdot(image.flatten(), back.flatten())
    )
    assert abs(matched - 1) < 1e-5
    name = type(A).__name__
    ways: dict[str, Callable[[], object]] = {f"{name}": lambda: A(image)}
    adjoint_ways: dict[str, Callable[[], object]] = {f"{name}, adjoint": lambda: A.H(y)}
    if astra is not None:
        theirs = of_astra(astra, A, projector, image, y)
        expected, their_back = (run() for run in theirs.values())
        # For fans, ASTRA on the CPU has lengths in pixels and does not interpolate.
        accuracy = 1e-3 if projector == "linear" else 3e-2
        for own, other in ((y, expected), (back, their_back)):
            error = float((own - other).norm() / other.norm())
            assert error < accuracy, error
        there, again = theirs
        ways = {there: theirs[there]} | ways
        adjoint_ways = {again: theirs[again]} | adjoint_ways
    what = f"{N} x {N} float32, {VIEWS} views of {DETECTORS} rays"
    targets = {name: TARGET, f"{name}, adjoint": TARGET} if projector == "linear" else {}
    print_timings(f"{name}, {what}", interleaved(ways), targets)
    print_timings(f"its adjoint, {what}", interleaved(adjoint_ways), targets)


def of_astra(
    astra: Any, A: ParallelBeam | FanBeam, projector: str, image: Tensor, y: Tensor
) -> Mapping[str, Callable[[], Tensor]]:
    """Return the projection and the back projection, which ASTRA keeps ready."""
    angles = A.angles.double().numpy()
    volume = astra.create_vol_geom(N, N)
    if isinstance(A, FanBeam):
        lengths = SPACING, DETECTORS, angles, SOURCE, DETECTOR
        rays = astra.create_proj_geom("fanflat", *lengths)
    else:
        rays = astra.create_proj_geom("parallel", 1.0, DETECTORS, angles)
    used = astra.create_projector(projector, rays, volume)

    def prepared(kind: str, given: int, result: int, data: Any) -> Callable[[], Tensor]:
        options = astra.astra_dict(kind)
        options["ProjectorId"] = used
        options["ProjectionDataId"] = result if kind == "FP" else given
        options["VolumeDataId" if kind == "FP" else "ReconstructionDataId"] = (
            given if kind == "FP" else result
        )
        algorithm = astra.algorithm.create(options)

        def run() -> Tensor:
            astra.algorithm.run(algorithm)
            return torch.from_numpy(data.get_shared(result))

        return run

    # ASTRA: rows from the top down are y, columns are x.
    upright = image.T.flip(0).contiguous().numpy()
    volumes = astra.data2d.create("-vol", volume, upright), astra.data2d.create("-vol", volume)
    sinograms = astra.data2d.create("-sino", rays), astra.data2d.create("-sino", rays, y.numpy())
    there = prepared("FP", volumes[0], sinograms[0], astra.data2d)
    back = prepared("BP", sinograms[1], volumes[1], astra.data2d)
    return {
        f"ASTRA, {projector}, FP": there,
        f"ASTRA, {projector}, BP": lambda: back().flip(0).T,
    }


if __name__ == "__main__":
    main()
