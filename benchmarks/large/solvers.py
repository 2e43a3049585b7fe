"""Solvers of diagonal systems with n unknowns, and proximal maps of n entries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

import linops_core as core
import linops_solvers as alg

Solve: TypeAlias = Callable[[int, torch.dtype, int, Any], Tensor]


def spread(n: int, dtype: torch.dtype, least: float = 0.5) -> Tensor:
    """Return numbers from ``least`` to 1, the same in both precisions."""
    generator = torch.Generator().manual_seed(0)
    return (least + (1 - least) * torch.rand(n, generator=generator)).to(dtype)


def data(n: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(1)).to(dtype)


def diagonal(n: int, dtype: torch.dtype) -> core.NamedLinop:
    return core.Diagonal(spread(n, dtype), ("N",))


def shown(callback: Any) -> dict[str, Any]:
    """Return the arguments of a run that is watched."""
    return {"callback": callback, "progress": callback is not None}


TOLERANCES = {"tol", "gtol", "ltol", "atol", "btol", "conlim", "eps_rel"}


def of_usual_arguments(solver: Any) -> Solve:
    """Return how to call a solver of a system, or of one with a penalty, without a tolerance."""
    takes = inspect.signature(solver).parameters
    options = {name: 0.0 for name in takes if name in TOLERANCES}
    if "step" in takes:
        options["step"] = 0.9
    given = [alg.soft_threshold(0.1)] if "proximal" in takes else []

    def solve(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
        A, y = diagonal(n, dtype), data(n, dtype)
        x: Tensor = solver(A, y, *given, max_num_iters=steps, **options, **shown(callback))
        return x

    return solve


def of_counts(solver: Any) -> Solve:
    def solve(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
        options = {"subsets": {"A": 2}} if solver is alg.osem else {}
        A = core.Dense(spread(8, dtype).view(4, 2), ("A", "B"), ("B", "N"), ("A", "N"))
        counts = spread(n, dtype).view(4, n // 4)
        x: Tensor = solver(A, counts, max_num_iters=steps, **shown(callback), **options)
        return x

    return solve


def douglas_rachford(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    near = alg.l2_squared(1.0, data(n, dtype))
    x0 = torch.zeros(n, dtype=dtype)
    return alg.douglas_rachford(
        alg.soft_threshold(0.1), near, x0, steps, tol=0.0, **shown(callback)
    )


def pdhg(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    near, x0 = alg.l2_squared(1.0, data(n, dtype)), torch.zeros(n, dtype=dtype)
    return alg.pdhg(
        diagonal(n, dtype),
        alg.soft_threshold(0.1),
        near,
        x0,
        steps,
        tau=0.7,
        sigma=0.7,
        eps_rel=0.0,
        **shown(callback),
    )


def lbfgs(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    w, y = spread(n, dtype), data(n, dtype)

    def objective(x: Tensor) -> Tensor:
        return (w * x - y).square().sum() / n

    x0 = torch.zeros(n, dtype=dtype)
    return alg.lbfgs(objective, x0, 4 * steps, tol=0.0, **shown(callback))


def richardson_lucy(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    counts = spread(n, dtype).view(-1, 4096)
    psf = torch.ones(3, 3, dtype=dtype) / 9
    return alg.richardson_lucy(counts, psf, None, steps, **shown(callback))


def omp(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    A = core.Dense(data(4 * (n // 4), dtype).view(4, -1), ("M", "N"), ("N",), ("M",))
    return alg.omp(A, data(4, dtype), min(steps, 3), 0.0, **shown(callback))


def power_method(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    v, value = alg.power_method(diagonal(n, dtype), data(n, dtype), steps, 0.0, **shown(callback))
    return torch.cat([v, value.reshape(1).to(v)])


def operator_norm(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    return alg.operator_norm(
        diagonal(n, dtype), data(n, dtype), steps, 0.0, **shown(callback)
    ).reshape(1)


def svd(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    short = core.Dense(data(4 * (n // 4), dtype).view(4, -1), ("M", "N"), ("N",), ("M",))
    result = alg.svd(short, 2, max_num_iters=steps, tol=0.0, **shown(callback))
    return result.S


def estimate_trace(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    like = torch.zeros(1, dtype=dtype).expand(n)
    return alg.estimate_trace(diagonal(n, dtype), steps, like, **shown(callback)).value.reshape(1)


def estimate_diagonal(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    like = torch.zeros(1, dtype=dtype).expand(n)
    return alg.estimate_diagonal(diagonal(n, dtype), steps, like, **shown(callback)).value


def polynomial_preconditioner(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
    P: Any = alg.polynomial_preconditioner(diagonal(n, dtype), 3)
    x: Tensor = P(data(n, dtype))
    return x


OF_OTHER_ARGUMENTS: Mapping[str, Solve] = {
    "douglas_rachford": douglas_rachford,
    "estimate_diagonal": estimate_diagonal,
    "estimate_trace": estimate_trace,
    "lbfgs": lbfgs,
    "mlem": of_counts(alg.mlem),
    "omp": omp,
    "operator_norm": operator_norm,
    "osem": of_counts(alg.osem),
    "pdhg": pdhg,
    "polynomial_preconditioner": polynomial_preconditioner,
    "power_method": power_method,
    "richardson_lucy": richardson_lucy,
    "svd": svd,
}
# These have few steps, or none.
NO_CALLBACK = {"omp", "polynomial_preconditioner", "svd"}


def row(n: int) -> tuple[int, ...]:
    return (n,)


def pair(n: int) -> tuple[int, ...]:
    return 2, n // 2


def matrix(n: int) -> tuple[int, ...]:
    return n // 4, 4


REAL, COMPLEX = torch.float32, torch.complex64
Penalty: TypeAlias = tuple[Callable[[int], Any], torch.dtype, Callable[[int], Any]]
OTHER_PENALTIES: Mapping[str, Penalty] = {
    "box": (lambda n: alg.box(-0.5, 0.6), REAL, row),
    "conjugate": (lambda n: alg.conjugate(alg.soft_threshold(0.4)), COMPLEX, row),
    "group_soft_threshold": (lambda n: alg.group_soft_threshold(0.4, 0), COMPLEX, pair),
    "group_soft_threshold of all": (lambda n: alg.group_soft_threshold(0.4, 0), COMPLEX, row),
    "in_basis": (lambda n: alg.in_basis(core.FFT(1), alg.soft_threshold(0.4)), COMPLEX, row),
    "l0": (lambda n: alg.l0(0.3), REAL, row),
    "l1_ball": (lambda n: alg.l1_ball(1000.0), REAL, row),
    "l2_ball": (lambda n: alg.l2_ball(10.0), COMPLEX, row),
    "nuclear_norm": (lambda n: alg.nuclear_norm(0.4), COMPLEX, matrix),
    "poisson_likelihood": (lambda n: alg.poisson_likelihood(3.0, 0.1), REAL, row),
    "separable": (
        lambda n: alg.separable(lambda z, t: z / (1 + t), lambda x: x.square().sum() / 2),
        REAL,
        row,
    ),
    "simplex": (lambda n: alg.simplex(100.0), REAL, row),
}


def needed(function: Any) -> set[str]:
    """Return the parameters without a default."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.default is each.empty}


def public() -> set[str]:
    """Return the public functions of the package that compute."""
    functions = {name for name in vars(alg)["__all__"] if name[0].islower()}
    return functions - {"from_proximal", "from_pyproximal", "to_pyproximal"}


def of_default_arguments(make: Any) -> Penalty:
    return lambda n: make(), COMPLEX, row


# Those that need no other arguments have no entry above.
SOLVERS = {**OF_OTHER_ARGUMENTS}
PROXIMALS = {**OTHER_PENALTIES}
for name in sorted(public() - OF_OTHER_ARGUMENTS.keys() - OTHER_PENALTIES.keys()):
    function = getattr(alg, name)
    if needed(function) <= {"A", "y", "proximal", "watching"} and needed(function):
        SOLVERS[name] = of_usual_arguments(function)
    elif not needed(function):
        PROXIMALS[name] = of_default_arguments(function)
