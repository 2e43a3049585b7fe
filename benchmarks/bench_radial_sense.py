"""An image from radial k-space of several coils, from locations and maps to the last iteration.

All ways solve the same least squares by 30 iterations of conjugate gradients, with everything that
is set up for them, and are compared with the same iteration in double precision.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from interleaved import interleaved, print_timings
from peers import importable
from results import record
from torch import Tensor

from linops_core import Dense
from linops_imaging import NUFFT, phantoms, trajectories
from linops_solvers import conjugate_gradients

N, N_COILS, N_SPOKES, N_ITERATIONS = 256, 8, 402, 30


def main() -> None:
    """Check that all ways are equally exact, and time them in turns, in one thread."""
    torch.set_num_threads(1)
    locs = trajectories.radial_2d(N_SPOKES, N, N)
    coils = phantoms.CoilSeries.around(N_COILS)
    maps, y = coils.on_grid([N, N]), phantoms.shepp_logan_kspace(locs, [N, N], coils)
    ways: dict[str, Callable[[], Tensor]] = {
        "linops-imaging": lambda: ours(locs, maps, y, tol=1e-3)
    }
    libraries = importable(("sigpy", "mrpro"))
    if "sigpy" in libraries:
        ways["sigpy, SenseRecon"] = lambda: by_sigpy(libraries["sigpy"], locs, maps, y)
    if "mrpro" in libraries:
        ways["mrpro, Toeplitz"] = lambda: by_mrpro(libraries["mrpro"], locs, maps, y)

    title = f"radial SENSE, {locs[..., 0].numel()} points, {N_COILS} x {N} x {N}, with set-up"
    expected = ours(locs.double(), maps.to(torch.complex128), y.to(torch.complex128), tol=1e-9)
    errors = {
        name: float((way() - expected).norm() / expected.norm()) for name, way in ways.items()
    }
    for name, error in errors.items():
        print(f"  error of {name}: {error:.1e}")
        record(title, f"error of {name}", error, "")
    assert errors["linops-imaging"] <= 1.1 * min(errors.values()) < 1e-2, errors

    for name, target, rounds in (("sigpy, SenseRecon", 0.5, 1), ("mrpro, Toeplitz", 1.0, 7)):
        if name in ways:
            pair = {key: ways[key] for key in (name, "linops-imaging")}
            print_timings(title, interleaved(pair, rounds), {"linops-imaging": target})


def ours(locs: Tensor, maps: Tensor, y: Tensor, tol: float) -> Tensor:
    """Return what 30 iterations find."""
    with torch.no_grad():
        S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
        A = NUFFT(locs, (N, N), ("S", "K"), batch_shape=("C",), tol=tol, toeplitz=True) @ S
        return conjugate_gradients(A.N, A.H(y), max_num_iters=N_ITERATIONS, gtol=0, ltol=0)


def by_sigpy(sigpy: Any, locs: Tensor, maps: Tensor, y: Tensor) -> Tensor:
    """Return what sigpy finds, as its users write it."""
    app = importlib.import_module("sigpy.mri.app").SenseRecon(
        y.numpy(), maps.numpy(), coord=locs.numpy(), max_iter=N_ITERATIONS, show_pbar=False
    )
    return torch.from_numpy(app.run())


def by_mrpro(mrpro: Any, locs: Tensor, maps: Tensor, y: Tensor) -> Tensor:
    """Return what mrpro finds, by its operators and its conjugate gradients."""
    ky, kx = locs[None, None, None].unbind(-1)
    trajectory = mrpro.data.KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    operators = mrpro.operators
    F = operators.NonUniformFastFourierOp(("y", "x"), [N, N], [N, N], trajectory)
    A = F @ operators.SensitivityOp(maps[None, :, None])
    cg = mrpro.algorithms.optimizers.cg
    with torch.no_grad():
        (rhs,) = A.H(y[None, :, None])
        (x,) = cg(A.gram, rhs, max_iterations=N_ITERATIONS, tolerance=0)
    result: Tensor = x[0, 0, 0]
    return result


if __name__ == "__main__":
    main()
