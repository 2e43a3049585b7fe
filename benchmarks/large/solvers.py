"""Solvers of diagonal systems with n unknowns, and proximal maps of n entries."""

from __future__ import annotations

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


def of_system(solver: Any, **given: Any) -> Solve:
    def solve(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
        options = {**shown(callback), **{key: 0.0 for key in given}}
        x: Tensor = solver(diagonal(n, dtype), data(n, dtype), None, steps, **options)
        return x

    return solve


def of_penalty(solver: Any, **given: Any) -> Solve:
    def solve(n: int, dtype: torch.dtype, steps: int, callback: Any) -> Tensor:
        A, penalty = diagonal(n, dtype), alg.soft_threshold(0.1)
        x: Tensor = solver(
            A, data(n, dtype), penalty, max_num_iters=steps, **shown(callback), **given
        )
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
    found = alg.svd(short, 2, max_num_iters=steps, tol=0.0, **shown(callback))
    return found.S


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


SOLVERS: Mapping[str, Solve] = {
    "admm": of_penalty(alg.admm, eps_rel=0.0),
    "conjugate_gradients": of_system(alg.conjugate_gradients, gtol=0.0, ltol=0.0),
    "douglas_rachford": douglas_rachford,
    "estimate_diagonal": estimate_diagonal,
    "estimate_trace": estimate_trace,
    "fista": of_penalty(alg.fista, tol=0.0, step=0.9),
    "gmres": of_system(alg.gmres, tol=0.0),
    "irls": of_system(alg.irls, tol=0.0),
    "lbfgs": lbfgs,
    "lsmr": of_system(alg.lsmr, atol=0.0, btol=0.0, conlim=0.0),
    "lsqr": of_system(alg.lsqr, atol=0.0, btol=0.0, conlim=0.0),
    "minres": of_system(alg.minres, tol=0.0),
    "mlem": of_counts(alg.mlem),
    "omp": omp,
    "operator_norm": operator_norm,
    "osem": of_counts(alg.osem),
    "pdhg": pdhg,
    "polynomial_preconditioner": polynomial_preconditioner,
    "power_method": power_method,
    "proximal_gradient": of_penalty(alg.proximal_gradient, tol=0.0, step=0.9),
    "richardson_lucy": richardson_lucy,
    "split_bregman": of_penalty(alg.split_bregman, eps_rel=0.0),
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
PROXIMALS: Mapping[str, tuple[Callable[[int], Any], torch.dtype, Callable[[int], Any]]] = {
    "box": (lambda n: alg.box(-0.5, 0.6), REAL, row),
    "conjugate": (lambda n: alg.conjugate(alg.soft_threshold(0.4)), COMPLEX, row),
    "group_soft_threshold": (lambda n: alg.group_soft_threshold(0.4, 0), COMPLEX, pair),
    "group_soft_threshold of all": (lambda n: alg.group_soft_threshold(0.4, 0), COMPLEX, row),
    "huber": (lambda n: alg.huber(0.8, 0.5), COMPLEX, row),
    "in_basis": (lambda n: alg.in_basis(core.FFT(1), alg.soft_threshold(0.4)), COMPLEX, row),
    "l0": (lambda n: alg.l0(0.3), REAL, row),
    "l1_ball": (lambda n: alg.l1_ball(1000.0), REAL, row),
    "l2_ball": (lambda n: alg.l2_ball(10.0), COMPLEX, row),
    "l2_squared": (lambda n: alg.l2_squared(0.8), COMPLEX, row),
    "no_penalty": (lambda n: alg.no_penalty(), COMPLEX, row),
    "nuclear_norm": (lambda n: alg.nuclear_norm(0.4), COMPLEX, matrix),
    "poisson_likelihood": (lambda n: alg.poisson_likelihood(3.0, 0.1), REAL, row),
    "separable": (
        lambda n: alg.separable(lambda z, t: z / (1 + t), lambda x: x.square().sum() / 2),
        REAL,
        row,
    ),
    "simplex": (lambda n: alg.simplex(100.0), REAL, row),
    "soft_threshold": (lambda n: alg.soft_threshold(0.4), COMPLEX, row),
}


def public() -> set[str]:
    """Return the public functions of the package that compute."""
    functions = {name for name in vars(alg)["__all__"] if name[0].islower()}
    return functions - {"from_proximal", "from_pyproximal", "to_pyproximal"}
