"""Options of all solvers: those out of their range, or of another type, are refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import Dense
from linops_solvers import (
    admm,
    box,
    conjugate_gradients,
    douglas_rachford,
    estimate_diagonal,
    estimate_trace,
    fista,
    gmres,
    huber,
    irls,
    l0,
    l1_ball,
    l2_ball,
    l2_squared,
    lbfgs,
    lsmr,
    lsqr,
    minres,
    mlem,
    no_penalty,
    nuclear_norm,
    omp,
    operator_norm,
    osem,
    pdhg,
    poisson_likelihood,
    polynomial_preconditioner,
    power_method,
    proximal_gradient,
    richardson_lucy,
    simplex,
    soft_threshold,
    svd,
)

A = Dense(torch.tensor([[2.0, 1.0], [1.0, 3.0]]), ("M", "N"), ("N",), ("M",))
Y = torch.ones(2)
CALLS: dict[str, Callable[..., Any]] = {
    "conjugate_gradients": lambda **o: conjugate_gradients(A, Y, **o),
    "lsqr": lambda **o: lsqr(A, Y, **o),
    "lsmr": lambda **o: lsmr(A, Y, **o),
    "fista": lambda **o: fista(A, Y, no_penalty(), **o),
    "pdhg": lambda **o: pdhg(A, no_penalty(), no_penalty(), Y, **o),
    "admm": lambda **o: admm(A, Y, no_penalty(), **o),
    "proximal_gradient": lambda **o: proximal_gradient(A, Y, no_penalty(), **o),
    "douglas_rachford": lambda **o: douglas_rachford(no_penalty(), no_penalty(), Y, **o),
    "gmres": lambda **o: gmres(A, Y, **o),
    "minres": lambda **o: minres(A, Y, **o),
    "mlem": lambda **o: mlem(A, Y, **o),
    "osem": lambda **o: osem([A, A], [Y, Y], **o),
    "richardson_lucy": lambda **o: richardson_lucy(Y, Y, **o),
    "poisson_likelihood": lambda **o: poisson_likelihood(**{"counts": 1.0, **o}),
    "omp": lambda **o: omp(A, Y, **o),
    "irls": lambda **o: irls(A, Y, **o),
    "lbfgs": lambda **o: lbfgs(lambda x: (x**2).sum(), Y, **o),
    "l1_ball": lambda **o: l1_ball(**o),
    "simplex": lambda **o: simplex(**o),
    "huber": lambda **o: huber(**o),
    "nuclear_norm": lambda **o: nuclear_norm(**o),
    "l0": lambda **o: l0(**o),
    "power_method": lambda **o: power_method(A, Y, **o),
    "operator_norm": lambda **o: operator_norm(A, **o),
    "svd": lambda **o: svd(A, **{"k": 1, **o}),
    "estimate_trace": lambda **o: estimate_trace(A, **o),
    "estimate_diagonal": lambda **o: estimate_diagonal(A, **o),
    "polynomial_preconditioner": lambda **o: polynomial_preconditioner(A, **{"degree": 2, **o}),
    "soft_threshold": lambda **o: soft_threshold(**o),
    "l2_squared": lambda **o: l2_squared(**o),
    "l2_ball": lambda **o: l2_ball(**o),
}
NUMBERS = {
    "conjugate_gradients": ["gtol", "ltol"],
    "lsqr": ["damp", "atol", "btol"],
    "lsmr": ["damp", "atol", "btol"],
    "fista": ["tol"],
    "pdhg": ["eps_abs", "eps_rel"],
    "admm": ["eps_abs", "eps_rel"],
    "power_method": ["tol"],
    "operator_norm": ["tol"],
    "svd": ["tol"],
    "polynomial_preconditioner": ["lower", "upper"],
    "proximal_gradient": ["tol"],
    "douglas_rachford": ["tol"],
    "gmres": ["tol"],
    "minres": ["tol"],
    "mlem": ["tol", "background"],
    "osem": ["tol"],
    "richardson_lucy": ["tol"],
    "poisson_likelihood": ["counts", "background"],
    "omp": ["tol"],
    "irls": ["tol", "damp"],
    "lbfgs": ["tol"],
    "soft_threshold": ["weight"],
    "huber": ["weight"],
    "nuclear_norm": ["weight"],
    "l0": ["weight"],
    "l2_squared": ["weight"],
}
POSITIVE = {
    "fista": ["step"],
    "pdhg": ["tau", "sigma"],
    "admm": ["rho"],
    "proximal_gradient": ["step"],
    "douglas_rachford": ["step", "relaxation"],
    "irls": ["epsilon"],
    "simplex": ["total"],
    "huber": ["delta"],
}
UNBOUNDED = {"lsqr": ["conlim"], "lsmr": ["conlim"], "l2_ball": ["radius"], "l1_ball": ["radius"]}
COUNTS = {
    "conjugate_gradients": [("max_num_iters", 0)],
    "lsqr": [("max_num_iters", 0)],
    "lsmr": [("max_num_iters", 0)],
    "fista": [("max_num_iters", 0)],
    "pdhg": [("max_num_iters", 0)],
    "admm": [("max_num_iters", 0), ("max_cg_iters", 1)],
    "proximal_gradient": [("max_num_iters", 0)],
    "douglas_rachford": [("max_num_iters", 0)],
    "gmres": [("max_num_iters", 0), ("restart", 1)],
    "minres": [("max_num_iters", 0)],
    "mlem": [("max_num_iters", 0)],
    "osem": [("max_num_iters", 0)],
    "richardson_lucy": [("max_num_iters", 0)],
    "omp": [("max_num_iters", 0)],
    "irls": [("max_num_iters", 0), ("max_cg_iters", 1)],
    "lbfgs": [("max_num_iters", 0), ("history_size", 1)],
    "power_method": [("max_iters", 1)],
    "operator_norm": [("max_iters", 1)],
    "svd": [("max_num_iters", 1), ("oversampling", 0), ("k", 1)],
    "estimate_trace": [("num_samples", 2)],
    "estimate_diagonal": [("num_samples", 2)],
    "polynomial_preconditioner": [("degree", 0)],
}
SEEDED = ["operator_norm", "svd", "estimate_trace", "estimate_diagonal"]


def pairs(table: dict[str, list[Any]]) -> Any:
    return [(solver, option) for solver, options in table.items() for option in options]


@pytest.mark.parametrize(("solver", "option"), pairs(NUMBERS) + pairs(POSITIVE) + pairs(UNBOUNDED))
@pytest.mark.parametrize("value", [-1.0, float("nan"), -math.inf])
def test_negative_numbers_and_nan_are_refused(solver: str, option: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{solver}: {option} must be (at least 0|positive)"):
        CALLS[solver](**{option: value})


@pytest.mark.parametrize(("solver", "option"), pairs(NUMBERS) + pairs(POSITIVE))
def test_infinity_is_refused_where_it_means_nothing(solver: str, option: str) -> None:
    with pytest.raises(ValueError, match=rf"{solver}: {option} must be .* and finite, got inf"):
        CALLS[solver](**{option: math.inf})


@pytest.mark.parametrize(("solver", "option"), pairs(POSITIVE))
def test_zero_is_refused_where_it_must_be_positive(solver: str, option: str) -> None:
    with pytest.raises(ValueError, match=rf"{solver}: {option} must be positive and finite, got 0"):
        CALLS[solver](**{option: 0.0})


@pytest.mark.parametrize(("solver", "option"), pairs(NUMBERS) + pairs(POSITIVE) + pairs(UNBOUNDED))
@pytest.mark.parametrize("value", ["1", 1j, True, [1.0]])
def test_what_is_no_real_number_is_refused(solver: str, option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{solver}: {option} must be a real number, got"):
        CALLS[solver](**{option: value})


@pytest.mark.parametrize(("solver", "option"), pairs(COUNTS))
def test_numbers_of_steps_are_integers_and_enough(solver: str, option: tuple[str, int]) -> None:
    name, least = option
    with pytest.raises(ValueError, match=rf"{solver}: {name} must be at least {least}, got"):
        CALLS[solver](**{name: least - 1})
    for value in (2.5, True, "3"):
        with pytest.raises(TypeError, match=rf"{solver}: {name} must be an integer, got"):
            CALLS[solver](**{name: value})


@pytest.mark.parametrize("solver", SEEDED)
def test_a_seed_is_an_integer(solver: str) -> None:
    CALLS[solver](seed=-1)
    with pytest.raises(TypeError, match=rf"{solver}: seed must be an integer, got 0.5"):
        CALLS[solver](seed=0.5)


def test_a_number_may_be_a_tensor_without_dimensions() -> None:
    step_size = 0.9 / operator_norm(A)
    assert pdhg(A, no_penalty(), no_penalty(), Y, tau=step_size, sigma=step_size).shape == (2,)  # type: ignore[arg-type]


def test_a_box_has_a_finite_number_in_it() -> None:
    for bounds in ((math.inf, math.inf), (-math.inf, -math.inf), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match=r"box: lower must be at most upper, with a finite"):
            box(*bounds)


def test_a_dtype_without_arithmetic_is_refused() -> None:
    y = torch.ones(2).to(torch.float8_e5m2)
    with pytest.raises(TypeError, match=r"a floating or complex dtype, got torch.float8_e5m2"):
        conjugate_gradients(torch.clone, y)


HALF: dict[str, Callable[[Dense, Tensor], Tensor]] = {
    "fista": lambda A, y: fista(A, y, soft_threshold(0.1)),
    "pdhg": lambda A, y: pdhg(A, l2_squared(1.0, y), soft_threshold(0.1), torch.zeros_like(y)),
    "admm": lambda A, y: admm(A, y, soft_threshold(0.1)),
    "lsqr": lsqr,
    "power_method": lambda A, y: power_method(A.N, y)[1],
    "operator_norm": lambda A, y: operator_norm(A, y),
    "svd": lambda A, y: svd(A, 2).S,
    "estimate_trace": lambda A, y: estimate_trace(A, 12, method="hutch++").value,
    "estimate_diagonal": lambda A, y: estimate_diagonal(A, 4).value,
    "polynomial_preconditioner": lambda A, y: polynomial_preconditioner(A.N, 6, upper=12.0)(y),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("solver", HALF)
def test_half_precision_gives_what_double_precision_gives(solver: str, dtype: torch.dtype) -> None:
    """But for the rounding of A; numbers are in single precision, vectors in half."""
    matrix = torch.tensor([[2.0, 0.5], [0.5, 3.0]])  # exact in half
    y = torch.tensor([1.5, -2.0])

    def run(dtype: torch.dtype) -> Tensor:
        A = Dense(matrix.to(dtype), ("M", "N"), ("N",), ("M",))
        return HALF[solver](A, y.to(dtype))

    result, wanted = run(dtype), run(torch.float64)
    is_vector = solver in ("fista", "pdhg", "admm", "lsqr", "polynomial_preconditioner")
    assert result.dtype == (dtype if is_vector else torch.float32)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(result.double(), wanted, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize("solver", ["fista", "lsqr"])
def test_an_operator_that_leaves_half_precision_is_refused(solver: str) -> None:
    y = torch.ones(2, dtype=torch.bfloat16)
    options = {"adjoint": torch.clone}
    method: Any = {"fista": fista, "lsqr": lsqr}[solver]
    others = [no_penalty()] if solver == "fista" else []
    with pytest.raises(
        ValueError, match=rf"{solver}: A must return the precision that it is given"
    ):
        method(lambda x: x.float(), y, *others, **options)


def test_a_result_that_half_precision_does_not_hold_is_refused() -> None:
    y = torch.full((2,), 6e4, dtype=torch.float16)
    tiny = torch.tensor(2.0**-6, dtype=torch.float16)
    P = polynomial_preconditioner(lambda x: tiny * x, 1, upper=2.0**-5)
    with pytest.raises(ArithmeticError, match=r"polynomial_preconditioner: the result must be in"):
        P(y)


def test_the_norm_of_an_operator_may_be_past_the_range_of_float16() -> None:
    """Its vectors are not."""
    weight = torch.full((4, 4), 3e4, dtype=torch.float16)
    A = Dense(weight, ("M", "N"), ("N",), ("M",))
    assert float(operator_norm(A, torch.full((4,), 0.1, dtype=torch.float16))) == pytest.approx(
        1.2e5, rel=1e-2
    )


@pytest.mark.parametrize("returned", [None, [1.0], np.ones(2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda f: conjugate_gradients(f, Y),
        lambda f: conjugate_gradients(A.N, Y, preconditioner=f),
        lambda f: gmres(f, Y),
        lambda f: minres(f, Y),
        lambda f: lsqr(f, Y, adjoint=A.H),
        lambda f: lsmr(A, Y, adjoint=f),
        lambda f: fista(f, Y, no_penalty(), adjoint=A.H),
        lambda f: fista(A, Y, no_penalty(), adjoint=f),
        lambda f: fista(A, Y, f),
        lambda f: admm(A, Y, no_penalty(), L=f, L_adjoint=A.H),
        lambda f: pdhg(A, no_penalty(), f, Y),
        lambda f: douglas_rachford(f, no_penalty(), Y),
        lambda f: irls(f, Y, adjoint=A.H),
        lambda f: omp(A, Y, adjoint=f),
        lambda f: mlem(f, Y, adjoint=A.H),
        lambda f: power_method(f, Y),
        lambda f: operator_norm(f, like=Y, adjoint=A.H),
        lambda f: svd(f, 1, Y, adjoint=A.H),
        lambda f: estimate_trace(f, like=Y),
        lambda f: polynomial_preconditioner(f, 2)(Y),
    ],
)
def test_a_function_that_returns_no_tensor_is_refused(
    call: Callable[..., Any], returned: Any
) -> None:
    with pytest.raises(TypeError, match=r" must return a torch\.Tensor, got <class .*as_tensor"):
        call(lambda x, *_: returned)
