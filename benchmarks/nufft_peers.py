"""Other libraries' non-uniform Fourier transforms: of their settings the cheapest exact enough."""

from __future__ import annotations

import importlib
import math
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from peers import importable
from torch import Tensor

from linops_imaging.io import read_cfl, write_cfl

Ways = dict[str, Callable[[], Tensor]]
Pair = tuple[Callable[[], Tensor], Callable[[], Tensor]]


def with_peers(
    A: Any,
    locs: Tensor,
    x: Tensor,
    y: Tensor,
    only: tuple[str, ...] = ("finufft", "mrinufft", "sigpy", "torchkbnufft", "BART"),
) -> tuple[Ways, Ways, dict[str, float]]:
    """Return the ways there and back, the first those of finufft if it is installed.

    Parameters
    ----------
    A : NUFFT
        Of the tolerance that counts.
    locs, x, y : Tensor
        Points, coils' images and, for the adjoint, values: complex64.

    Returns
    -------
    tuple
        Ways of the transform, of its adjoint, and errors of the transform relative to the norm, up
        to the scale of the library. Each library has the cheapest setting with an error of at most
        1.2 of that of ``A``, or the most exact one.
    """
    E = type(A)(locs.double(), x.shape[1:], ("K",), tol=1e-6, method="finufft")
    exact = E(x.to(torch.complex128)).to(x.dtype)
    result: dict[str, Pair] = {}
    errors = {"NUFFT": apart(A(x), exact)}
    makers = {"finufft": _finufft, "mrinufft": _mrinufft}
    makers |= {"sigpy": _sigpy, "torchkbnufft": _torchkbnufft, "BART": _bart}
    libraries = importable(name for name in only if name != "BART")
    if "BART" in only and shutil.which("bart"):
        libraries["BART"] = None
    for name, library in libraries.items():
        for setting, there, back in makers[name](library, locs, x, y):
            error = apart(there(), exact)
            if name not in result or error < errors[name]:
                result[name], errors[name] = (there, back), error
                print(f"  {name}, {setting}: error {error:.1e}")
            if error <= 1.2 * errors["NUFFT"]:
                break
        if name == "finufft":
            result["NUFFT"] = (lambda: A(x), lambda: A.H(y))
    result.setdefault("NUFFT", (lambda: A(x), lambda: A.H(y)))
    forward, adjoint = ({name: pair[way] for name, pair in result.items()} for way in (0, 1))
    return forward, adjoint, errors


def apart(result: Tensor, expected: Tensor) -> float:
    """Return the distance of arrays up to a factor, relative to the norm."""
    result, expected = (x.to(torch.complex128) for x in (result, expected))  # long sums need it
    factor = torch.vdot(result.flatten(), expected.flatten()) / result.norm() ** 2
    return float((factor * result - expected).norm() / expected.norm())


def finufft_plans(
    sizes: tuple[int, ...], locs: Tensor, n_coils: int, eps: float, dtype: torch.dtype
) -> tuple[Any, Any]:
    """Return plans there and back with the library's best setting, an upsampling of 1.25."""
    way = {"dtype": str(dtype).removeprefix("torch."), "upsampfac": 1.25, "nthreads": 1}
    plans = []
    for kind, sign in ((2, -1), (1, 1)):
        plan = importlib.import_module("finufft").Plan(kind, sizes, n_coils, eps, sign, **way)
        plan.setpts(*(at.contiguous().numpy() for at in angles(locs, sizes).unbind(-1)))
        plans.append(plan)
    return plans[0], plans[1]


def angles(locs: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return radians per pixel."""
    return locs * (2 * math.pi / torch.tensor(sizes, dtype=locs.dtype))


EPS = [10 ** (-step / 4) for step in range(6, 40)]


def _finufft(library: Any, locs: Tensor, x: Tensor, y: Tensor) -> Iterator[tuple[str, Any, Any]]:
    for eps in EPS:
        there, back = finufft_plans(tuple(x.shape[1:]), locs, len(x), eps, x.dtype)
        yield (
            f"eps {eps:.1e}",
            lambda there=there: torch.from_numpy(there.execute(x.numpy())),
            lambda back=back: torch.from_numpy(back.execute(y.numpy())),
        )


def _mrinufft(library: Any, locs: Tensor, x: Tensor, y: Tensor) -> Iterator[tuple[str, Any, Any]]:
    samples = angles(locs, tuple(x.shape[1:])).float().numpy()
    for eps in EPS:
        F = library.get_operator("finufft")(
            samples,
            tuple(x.shape[1:]),
            n_coils=len(x),
            n_trans=len(x),
            squeeze_dims=True,
            eps=eps,
            upsampfac=1.25,
            nthreads=1,
        )
        yield (
            f"finufft, eps {eps:.1e}",
            lambda F=F: torch.from_numpy(F.op(x.numpy())),
            lambda F=F: torch.from_numpy(F.adj_op(y.numpy())),
        )


def _sigpy(library: Any, locs: Tensor, x: Tensor, y: Tensor) -> Iterator[tuple[str, Any, Any]]:
    coord, shape = locs.numpy(), tuple(x.shape)
    for width in range(2, 9):
        yield (
            f"width {width}",
            lambda way={"width": width}: torch.from_numpy(library.nufft(x.numpy(), coord, **way)),
            lambda way={"width": width}: torch.from_numpy(
                library.nufft_adjoint(y.numpy(), coord, shape, **way)
            ),
        )


def _torchkbnufft(
    library: Any, locs: Tensor, x: Tensor, y: Tensor
) -> Iterator[tuple[str, Any, Any]]:
    sizes = tuple(x.shape[1:])
    omega = angles(locs, sizes).mT.contiguous()
    for oversampling, n_points in ((1.25, 3), (1.25, 4), (2, 3), (1.25, 5), (2, 4), (2, 5), (2, 6)):
        grid = [int(size * oversampling) for size in sizes]
        way = {"im_size": sizes, "grid_size": grid, "numpoints": n_points}
        there, back = library.KbNufft(**way), library.KbNufftAdjoint(**way)
        yield (
            f"{n_points} points, oversampling {oversampling}",
            lambda there=there: there(x[None], omega)[0],
            lambda back=back: back(y[None], omega)[0],
        )


def _bart(library: None, locs: Tensor, x: Tensor, y: Tensor) -> Iterator[tuple[str, Any, Any]]:
    folder, sizes = mkdtemp(), tuple(x.shape[1:])
    in_3d = (*sizes, *[1] * (3 - len(sizes)))
    coords = torch.zeros(3, 1, len(locs), dtype=torch.complex64)
    coords[: len(sizes), 0] = locs.mT
    write_cfl(Path(folder, "locs"), coords)
    write_cfl(Path(folder, "x"), x.movedim(0, -1).reshape(*in_3d, len(x)))
    write_cfl(Path(folder, "y"), y.mT[None, None])

    def run(*options: str) -> Tensor:
        command = ["bart", "nufft", *options, "found"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return read_cfl(Path(folder, "found"))

    def there() -> Tensor:
        return run("locs", "x").reshape(len(locs), len(x)).mT

    def back() -> Tensor:
        result = run("-a", "-d", ":".join(map(str, in_3d)), "locs", "y")
        return result.reshape(*sizes, len(x)).movedim(-1, 0)

    yield "a process with files", there, back


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has run."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def toeplitz_of_peers(locs: Tensor, x: Tensor) -> Ways:
    """Return the normal as a convolution by those that have one."""
    ways: Ways = {}
    libraries = importable(("sigpy", "torchkbnufft"))
    if "sigpy" in libraries:
        linop = importlib.import_module("sigpy.linop")
        A = linop.NUFFT(tuple(x.shape), locs.numpy(), toeplitz=True)
        ways["sigpy"] = lambda: torch.from_numpy(A.N(x.numpy()))
    if "torchkbnufft" in libraries:
        kb, omega = libraries["torchkbnufft"], angles(locs, tuple(x.shape[1:])).mT.contiguous()
        kernel = kb.calc_toeplitz_kernel(omega, tuple(x.shape[1:]))
        toeplitz = kb.ToepNufft()
        ways["torchkbnufft"] = lambda: toeplitz(x[None], kernel)[0]
    return ways


def resident(kind: str) -> int:
    """Return the resident memory of this process in bytes: VmRSS is now, VmHWM the largest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))
