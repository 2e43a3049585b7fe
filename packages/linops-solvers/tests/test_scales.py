"""Solvers at scales of A and y near the limits of single precision: right, or refused."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import (
    Record,
    admm,
    conjugate_gradients,
    fista,
    gmres,
    irls,
    l2_squared,
    lsmr,
    lsqr,
    minres,
    mlem,
    no_penalty,
    omp,
    pdhg,
    proximal_gradient,
    soft_threshold,
)

SQUARE: dict[str, Callable[[Dense, Tensor], Tensor]] = {
    "conjugate_gradients": lambda A, y: conjugate_gradients(A, y, gtol=1e-5, ltol=0),
    "gmres": gmres,
    "minres": minres,
    "lsqr": lsqr,
    "lsmr": lsmr,
    "fista": lambda A, y: fista(A, y, no_penalty(), max_num_iters=500, tol=1e-6),
    "proximal_gradient": lambda A, y: proximal_gradient(A, y, no_penalty(), None, 500, 1e-7),
    "admm": lambda A, y: admm(A, y, no_penalty(), eps_rel=1e-6, rho=scale_of(A) ** 2),
    "irls": lambda A, y: irls(A, y, p=2.0, tol=1e-9),
    "omp": lambda A, y: omp(A, y, 3),
    "mlem": lambda A, y: mlem(A, y, max_num_iters=300),
}
MATRIX = torch.tensor([[3.0, 1.0, 0.5], [1.0, 2.0, 0.25], [0.5, 0.25, 1.5]])
TRUTH = torch.tensor([1.0, 2.0, 0.5])
SCALES = (1e-30, 1.0, 1e15, 1e30)


def scale_of(A: Dense) -> float:
    return float(A.weight[0, 0]) / 3


@pytest.mark.parametrize("name", SQUARE)
def test_the_solution_is_right_where_the_dtype_holds_it(name: str) -> None:
    for of_A, of_y in product(SCALES, SCALES):
        A = Dense(MATRIX * of_A, ("M", "N"), ("N",), ("M",))
        y = (MATRIX @ TRUTH) * of_y
        if 1e-36 < of_y / of_A < 1e36:
            x = SQUARE[name](A, y).double() / (of_y / of_A)
            torch.testing.assert_close(x, TRUTH.double(), rtol=0, atol=2e-3)
        elif not 1e-46 < of_y / of_A < 1e40:
            with pytest.raises(
                ArithmeticError, match=r"the scale of A (and y )?must be |must stay finite"
            ):
                SQUARE[name](A, y)


def test_weights_and_step_sizes_are_those_of_the_user() -> None:
    """A penalty in the unit of A, and what is reported."""
    for of_A in (1e-15, 1.0, 1e15):
        A = Dense(MATRIX * of_A, ("M", "N"), ("N",), ("M",))
        y, penalty = MATRIX @ TRUTH, l2_squared(of_A**2)
        wanted = torch.linalg.solve(MATRIX.T @ MATRIX + torch.eye(3), MATRIX.T @ y) / of_A
        record = Record()
        x = fista(A, y, penalty, tol=1e-6, callback=record)
        torch.testing.assert_close(x, wanted, rtol=1e-3, atol=0)
        assert 0.01 < record.values["step"][-1] * of_A**2 < 1
        given = fista(A, y, penalty, tol=1e-6, step=0.05 / of_A**2, max_num_iters=500)
        torch.testing.assert_close(given, wanted, rtol=1e-3, atol=0)
        with pytest.raises(ValueError, match=r"step must be at most 1 / \|A\|\^2, got "):
            fista(A, y, penalty, step=2 / of_A**2)
        x = admm(
            A,
            y,
            penalty,
            eps_rel=1e-6,
            rho=of_A**2,
            is_rho_fixed=True,
            callback=record,
        )
        torch.testing.assert_close(x, wanted, rtol=1e-3, atol=0)
        assert record.values["rho"][-1] == pytest.approx(of_A**2)


def test_step_sizes_of_pdhg_out_of_range_are_refused() -> None:
    A = Dense(MATRIX * 1e-30, ("M", "N"), ("N",), ("M",))
    with pytest.raises(ArithmeticError, match="pdhg: tau and sigma must be in the range of"):
        pdhg(A, l2_squared(1.0), no_penalty(), torch.ones(3), sigma=1.0)


@pytest.mark.parametrize("at", [30, 44, 52])
def test_data_out_of_the_range_of_a_do_not_make_it_tiny(at: int) -> None:
    """A blurs by a Gaussian transfer function, which nearly hides an entry of y: x is about 0."""
    A = Diagonal(torch.exp(-((torch.arange(64.0) / 4) ** 2) / 2), ("N",))
    y = torch.zeros(64)
    y[at] = 1.0
    gain = float(A.weight[at])
    sparse = soft_threshold(0.01)
    assert float(admm(A, y, sparse).abs().max()) <= 2 * gain
    assert float(irls(A, y, damp=0.1).abs().max()) <= 200 * gain
    assert not fista(A, y, sparse).any() and not proximal_gradient(A, y, sparse).any()
    (found,) = omp(A, y, 1).nonzero()
    assert found == at
    x = fista(A, y, l2_squared(0.1))
    assert float(x[at]) == pytest.approx(gain / 0.1, rel=1e-3)


def test_columns_of_omp_that_need_infinity_are_refused() -> None:
    A = Diagonal(torch.tensor([1.0, 1e-42]), ("N",))
    with pytest.raises(ArithmeticError, match="omp: values must stay finite, got inf"):
        omp(A, torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("name", sorted(SQUARE.keys() - {"admm", "proximal_gradient"}))
@pytest.mark.parametrize(
    ("dtype", "scale", "rtol"),
    [(torch.float16, 1e-5, 0.01), (torch.float16, 1e-6, 0.06), (torch.float32, 1e-39, 1e-3)],
)
def test_the_solution_may_be_as_small_as_y_and_as_coarse(
    name: str, dtype: torch.dtype, scale: float, rtol: float
) -> None:
    A = Dense((MATRIX / 3.6).to(dtype), ("M", "N"), ("N",), ("M",))
    y = (MATRIX / 3.6 @ TRUTH).double().mul(scale).to(dtype)
    wanted = torch.linalg.solve(A.weight.double(), y.double()) / scale
    x = SQUARE[name](A, y)
    assert x.dtype is dtype
    torch.testing.assert_close(x.double() / scale, wanted, rtol=0, atol=rtol * 2)


def test_means_of_zero_and_the_smallest_counts_make_no_nan() -> None:
    A = Diagonal(torch.tensor([1.0, 0.0]), ("N",))
    y = torch.tensor([1e-39, 0.0])
    torch.testing.assert_close(mlem(A, y, max_num_iters=5), y, rtol=1e-5, atol=0)


def test_a_solution_much_smaller_than_y_is_refused_in_half_precision() -> None:
    A = Dense((MATRIX * 1000).half(), ("M", "N"), ("N",), ("M",))
    y = (MATRIX @ TRUTH * 1e-4).half()
    rule = "the scale of A and y must be .* got numbers too small for it; .* by .float"
    with pytest.raises(ArithmeticError, match=rule):
        lsqr(A, y)
    assert lsqr(A.float(), y.float()).any()


@pytest.mark.parametrize("scale", [1e155, 1e-155])
def test_an_objective_out_of_range_is_infinite_or_zero_and_x_is_right(scale: float) -> None:
    A, y = Dense(MATRIX.double(), ("M", "N"), ("N",), ("M",)), (MATRIX @ TRUTH).double() * scale
    record, like = Record(), torch.zeros(3).double()
    found = {
        "irls": irls(A, y, p=2.0, tol=1e-9, callback=record),
        "fista": fista(A, y, no_penalty(), max_num_iters=500, tol=1e-9, callback=record),
        "admm": admm(A, y, no_penalty(), eps_rel=1e-9, callback=record),
        "pdhg": pdhg(A, l2_squared(1.0, y), no_penalty(), like, max_num_iters=3000),
    }
    for name, x in found.items():
        torch.testing.assert_close(x / scale, TRUTH.double(), rtol=0, atol=1e-4, msg=name)
