"""A volume from radial k-space of several coils, from locations and maps to the last iteration.

All ways take 20 steps of conjugate gradients: processor time of one thread, and the largest memory
beside the data and the libraries. Each way runs in a process of its own with 1 and 3 steps, from
which the time of 20 follows. Our ``tol`` is the default, and no transform of the others is more
exact on these images.
"""

from __future__ import annotations

import importlib
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import torch
from nufft_peers import apart, resident
from peers import importable
from results import record
from torch import Tensor

from linops_core import Dense
from linops_imaging import NUFFT, phantoms, trajectories
from linops_imaging.io import read_cfl, write_cfl
from linops_solvers import conjugate_gradients

N, N_COILS, N_SPOKES, N_STEPS, ROUNDS = 128, 8, 1563, 20, 1
STEPS = 1, 3


def main() -> None:
    """Compare errors of the transforms, times, memory and images."""
    torch.set_num_threads(1)
    libraries = importable(("sigpy", "mrpro"))
    is_there = {"sigpy": "sigpy" in libraries, "mrpro": "mrpro" in libraries}
    is_there |= {"BART": shutil.which("bart") is not None, "linops-imaging": True}
    names = [name for name in WAYS if is_there[name.split(",")[0]]]
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        errors = {name: alone(error_of, name, folder) for name in names}
        for _ in range(ROUNDS):
            for name in names:
                rows[name].append(of_all_steps(name, folder))
    title = f"radial SENSE, {N_SPOKES * N} points, {N_COILS} x {N}^3, {N_STEPS} steps, with set-up"
    print(title)
    for name in names:
        seconds, peak, apart = (
            sorted(column)[ROUNDS // 2] for column in zip(*rows[name], strict=True)
        )
        print(
            f"  {name:30} {seconds:7.1f} s {peak / 2**20:7.0f} MiB; error of the transform "
            f"{errors[name]:.1e}; image differs by {apart:.1e}"
        )
        record(title, f"{name}: processor time", seconds, "s")
        record(title, f"{name}: memory", peak / 2**20, "MiB")
        record(title, f"{name}: error of the transform", errors[name], "")


def prepare(folder: Path) -> None:
    """Write the data, the k-space of two coils' images, and the image that the steps find."""
    locs = trajectories.radial_3d(N_SPOKES, N, N)
    coils = phantoms.CoilSeries.around(N_COILS, 3)
    maps, y = coils.on_grid([N] * 3), phantoms.shepp_logan_kspace(locs, [N] * 3, coils)
    images = maps[:2] * phantoms.shepp_logan([N] * 3)
    E = NUFFT(locs.double(), (N,) * 3, ("S", "K"), batch_shape=("C",), tol=1e-8)
    torch.save((locs, maps, y), folder / "data")
    torch.save((images, E(images.to(torch.complex128))), folder / "transform")
    torch.save(ours(locs, maps, y, STEPS[1], tol=1e-5, toeplitz=False), folder / "image")


def alone(work: Callable[[str, str], Any], name: str, folder: str) -> Any:
    """Return what it finds in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, name, folder).result()


def error_of(name: str, folder: str) -> float:
    """Return the error of a library's transform, up to its scale."""
    locs, _, _ = torch.load(Path(folder, "data"))
    images, exact = torch.load(Path(folder, "transform"))
    torch.set_num_threads(1)
    return apart(TRANSFORMS[name.split(",")[0]](locs, images).to(exact.dtype), exact)


def of_all_steps(name: str, folder: str) -> tuple[float, float, float]:
    """Return what the job takes, from jobs of fewer steps."""
    (first, _, _), (last, peak, apart) = (alone(partial(whole_job, n), name, folder) for n in STEPS)
    step = (last - first) / (STEPS[1] - STEPS[0])
    return first + (N_STEPS - STEPS[0]) * step, peak, apart


def whole_job(n_steps: int, name: str, folder: str) -> tuple[float, float, float]:
    """Return seconds, bytes beside what was there before, and the distance from the image."""
    torch.set_num_threads(1)
    locs, maps, y = torch.load(Path(folder, "data"))
    if name == "BART":
        return with_bart(n_steps, locs, maps, y, folder)
    some = torch.ones(N_COILS, 8, 8, 8, dtype=torch.complex64)
    WAYS[name](locs[:32, ::8] / 16, some, y[:, :32, ::8].contiguous(), 2)  # loads and compiles
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = process_time()
    result = WAYS[name](locs, maps, y, n_steps)
    seconds, peak = process_time() - start, resident("VmHWM") - before
    return seconds, peak, apart(result, torch.load(Path(folder, "image")))


def with_bart(
    n_steps: int, locs: Tensor, maps: Tensor, y: Tensor, folder: str
) -> tuple[float, float, float]:
    """Return the same of a command; its peak is beside its input files, which it maps."""
    for_bart(folder, locs=locs, kspace=y, maps=maps)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = ("-l2", "-r", "0", "-w1", "-i", str(n_steps), "-t", "locs")
    bart(folder, "pics", *options, "kspace", "maps", "found")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss * 1024 - sum(x.nbytes for x in (maps, y)) - 2 * locs.nbytes
    result = read_cfl(Path(folder, "found")).contiguous()
    return seconds, peak, apart(result, torch.load(Path(folder, "image")))


def for_bart(folder: str, **arrays: Tensor) -> None:
    """Write arrays as BART has them."""
    for name, array in arrays.items():
        x = array.to(torch.complex64)
        if name == "locs":
            x = x.permute(2, 1, 0)  # axis, readout, spokes
        elif name == "kspace":
            x = x.permute(2, 1, 0)[None]  # readout, spokes, coils
        else:
            x = x.movedim(0, -1)
        write_cfl(Path(folder, name), x)


def bart(folder: str, *command: str) -> None:
    subprocess.run(["bart", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def ours(
    locs: Tensor, maps: Tensor, y: Tensor, n_steps: int, tol: float, toeplitz: bool = True
) -> Tensor:
    """Return what the steps find."""
    with torch.no_grad():
        image = ("Nx", "Ny", "Nz")
        S = Dense(maps, ("C", *image), image, ("C", *image))
        F = NUFFT(locs, maps.shape[1:], ("S", "K"), batch_shape=("C",), tol=tol, toeplitz=toeplitz)
        A = F @ S
        return conjugate_gradients(A.N, A.H(y), max_num_iters=n_steps, gtol=0, ltol=0)


def by_sigpy(locs: Tensor, maps: Tensor, y: Tensor, n_steps: int, toeplitz: bool) -> Tensor:
    """Return what sigpy finds; a product of its operators does not use the convolution."""
    sigpy = importlib.import_module("sigpy")
    S = sigpy.linop.Multiply(maps.shape[1:], maps.numpy())
    F = sigpy.linop.NUFFT(S.oshape, locs.numpy(), toeplitz=toeplitz)
    rhs = S.H * F.H * y.numpy()
    x = 0 * rhs
    cg = sigpy.alg.ConjugateGradient(S.H * F.N * S, rhs, x, max_iter=n_steps)
    while not cg.done():
        cg.update()
    return torch.from_numpy(x)


def by_mrpro(locs: Tensor, maps: Tensor, y: Tensor, n_steps: int, oversampling: float) -> Tensor:
    """Return what mrpro finds."""
    mrpro = importable(("mrpro",))["mrpro"]
    A = mrpro_transform(locs, maps[0].shape, oversampling) @ mrpro.operators.SensitivityOp(
        maps[None]
    )
    cg = mrpro.algorithms.optimizers.cg
    with torch.no_grad():
        (rhs,) = A.H(y[None, :, None])
        (x,) = cg(A.gram, rhs, max_iterations=n_steps, tolerance=0)
    result: Tensor = x[0, 0]
    return result


def mrpro_transform(locs: Tensor, size: torch.Size, oversampling: float = 2.0) -> Any:
    mrpro = importable(("mrpro",))["mrpro"]
    kz, ky, kx = locs[None, None, None].unbind(-1)
    trajectory = mrpro.data.KTrajectory(kz=kz, ky=ky, kx=kx)
    sizes = list(size)
    return mrpro.operators.NonUniformFastFourierOp(
        ("z", "y", "x"), sizes, sizes, trajectory, oversampling
    )


def transform_by_bart(locs: Tensor, images: Tensor) -> Tensor:
    with tempfile.TemporaryDirectory() as folder:
        for_bart(folder, locs=locs, images=images)
        bart(folder, "nufft", "locs", "images", "found")
        return read_cfl(Path(folder, "found"))[0].permute(2, 1, 0).contiguous()


TRANSFORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linops-imaging": lambda locs, x: NUFFT(
        locs, x.shape[1:], ("S", "K"), batch_shape=("C",), tol=1e-3
    )(x),
    "sigpy": lambda locs, x: torch.from_numpy(
        importlib.import_module("sigpy").nufft(x.numpy(), locs.numpy())
    ),
    "mrpro": lambda locs, x: mrpro_transform(locs, x.shape[1:], 1.25)(x[None])[0][0, :, 0],
    "BART": transform_by_bart,
}
WAYS: dict[str, Callable[[Tensor, Tensor, Tensor, int], Tensor]] = {
    "linops-imaging": partial(ours, tol=1e-3, toeplitz=False),
    "linops-imaging, toeplitz": partial(ours, tol=1e-3),
    "mrpro, upsampling of 1.25": partial(by_mrpro, oversampling=1.25),
    "sigpy": partial(by_sigpy, toeplitz=False),
    "sigpy, toeplitz": partial(by_sigpy, toeplitz=True),
    "BART": lambda *_: torch.empty(0),
}

if __name__ == "__main__":
    main()
