"""Steps of one vector, whose norms are roots of floats, have the numbers of general steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_solvers import ConvergenceWarning, conjugate_gradients
from linops_solvers._krylov import _conjugate_steps
from linops_solvers._krylov._conjugate_steps import ConjugateSteps
from linops_solvers._krylov._convergence_check import ConvergenceCheck, on_host
from linops_solvers._shared._reports import Callback

NUMBERS = ["norm", "norm_of_x", "loss", "residual", "energy", "searched", "age", "n_steps"]


def system(n: int, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return a matrix with eigenvalues from 1 to 100, and a right-hand side."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(n, n, dtype=dtype, generator=generator))
    matrix = (basis * torch.logspace(0, 2, n, dtype=torch.float64)) @ basis.mH
    # Little of the largest eigenvalues: later steps show the norm.
    weights = torch.logspace(0, -9, n, dtype=torch.float64)
    return (matrix + matrix.mH) / 2, basis @ (weights * torch.ones(n, dtype=dtype))


def general(steps: ConjugateSteps, pairs: Any, vectors: Any) -> list[Any]:
    """Measure numbers as of many systems."""
    return on_host(*steps.space.measured(pairs, vectors))


def numbers_of(
    matrix: Tensor, y: Tensor, *, are_plain: bool = True, n_steps: int = 12
) -> tuple[Tensor, dict[str, Any]]:
    """Return the solution and the numbers of the check after some steps."""
    checks = []

    class Noted(ConvergenceCheck):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            checks.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_conjugate_steps, "ConvergenceCheck", Noted)
        if not are_plain:
            patch.setattr(ConjugateSteps, "numbers", general)
        x = conjugate_gradients(matrix.mv, y, max_num_iters=n_steps, gtol=1e-12, ltol=0)
    return x, {name: vars(checks[0])[name] for name in NUMBERS}


@given(st.sampled_from([torch.float64, torch.complex128]), st.integers(0, 2**16))
def test_their_numbers_are_those_of_general_steps(dtype: torch.dtype, seed: int) -> None:
    matrix, y = system(20, dtype, seed)
    x, numbers = numbers_of(matrix, y)
    same, measured = numbers_of(matrix, y, are_plain=False)
    torch.testing.assert_close(x, same, rtol=1e-10, atol=1e-10)
    assert numbers == pytest.approx(measured, rel=1e-6)
    _, of_first_steps = numbers_of(matrix, y, n_steps=3)
    assert numbers["norm"] > 1.1 * of_first_steps["norm"]


def test_a_matrix_whose_curvature_is_negative_late_is_refused() -> None:
    matrix, y = system(20, torch.float64, 0)
    calls = 0

    def changing(p: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return matrix.mv(p) if calls < 8 else -matrix.mv(p)

    with pytest.raises(ValueError, match="A must be Hermitian and positive definite"):
        conjugate_gradients(changing, y, max_num_iters=12, gtol=1e-12, ltol=0)


def test_an_output_of_another_shape_in_a_late_step_is_refused() -> None:
    matrix, y = system(20, torch.float64, 0)
    calls = 0

    def changing(p: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return matrix.mv(p)[: 20 if calls < 8 else 19]

    with pytest.raises(
        ValueError, match=r"A must map a space to itself, got an output of shape \(19"
    ):
        conjugate_gradients(changing, y, max_num_iters=12, gtol=1e-12, ltol=0)


def ill_conditioned(n: int, dtype: torch.dtype, decades: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return a matrix of eigenvalues from 1 to 10^-decades, and a right-hand side."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))
    values = torch.logspace(0, -decades, n, dtype=torch.float64)
    y = torch.randn(n, dtype=torch.float64, generator=generator)
    matrix = (basis * values) @ basis.mH
    return ((matrix + matrix.mH) / 2).to(dtype), y.to(dtype)


@example(5, torch.float64, 16.0, 0.0, 1787, 1e-5)  # directions are conjugate within rounding only
@given(
    st.integers(1, 20),
    st.sampled_from([torch.float32, torch.float64, torch.complex128]),
    st.floats(0, 18),
    st.sampled_from([0.0, 0.0, 1e-6, 1.0]),
    st.integers(0, 2**16),
    st.sampled_from([0.0, 1e-3, 1e-12]),
)
def test_a_callback_changes_neither_bits_nor_refusals(
    n: int, dtype: torch.dtype, decades: float, skew: float, seed: int, gtol: float
) -> None:
    matrix, y = ill_conditioned(n, dtype, decades, seed)
    part = torch.randn(n, n, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    matrix = matrix + skew * (part - part.mH)

    def found(callback: Callback | None) -> tuple[str, Tensor]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return "", conjugate_gradients(matrix.mv, y, None, 12, gtol, 0, callback=callback)
        except (ValueError, ArithmeticError) as error:
            return str(error), y

    (message, x), (same, shown) = found(None), found(lambda step: None)
    assert message == same
    assert torch.equal(x, shown)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("steps", [2, 8])
@pytest.mark.parametrize("of", ["y", "x0", "the weight", "the weight of a preconditioner"])
def test_derivatives_by_transforms_are_those_of_backward(of: str, steps: int) -> None:
    matrix, y = system(10, torch.float64, 0)
    given = torch.linspace(1, 2, 10, dtype=torch.float64)

    def A(weight: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: matrix.mv(x) + weight * x

    def solution(changed: Tensor) -> Tensor:
        x0 = changed if of == "x0" else None
        inverse = (lambda r: changed * r) if of.endswith("preconditioner") else None
        return conjugate_gradients(
            A(changed if of == "the weight" else given),
            changed if of == "y" else y,
            x0,
            steps,
            1e-12,
            0,
            preconditioner=inverse,
        )

    wanted = torch.autograd.functional.jacobian(solution, given)
    assert wanted.any()
    along = torch.func.jvp(solution, (given,), (y,))[1]
    torch.testing.assert_close(along, wanted @ y)
    torch.testing.assert_close(torch.func.jacrev(solution, chunk_size=1)(given), wanted)


@pytest.mark.parametrize("are_plain", [True, False])
def test_a_function_that_keeps_its_input_must_copy_it(are_plain: bool) -> None:
    matrix, y = system(20, torch.float64, 0)
    kept: list[Tensor] = []
    copies: list[Tensor] = []

    def A(p: Tensor) -> Tensor:
        kept.append(p)
        copies.append(p.clone())
        return matrix.mv(p)

    with pytest.MonkeyPatch.context() as patch:
        if not are_plain:
            patch.setattr(ConjugateSteps, "numbers", general)
        conjugate_gradients(A, y, max_num_iters=6, gtol=1e-12, ltol=0)
    assert all(p is kept[0] for p in kept[:6])
    directions = torch.stack(copies[:6])
    products = directions @ matrix @ directions.mT
    norms = products.diagonal().sqrt()
    torch.testing.assert_close(products / torch.outer(norms, norms), torch.eye(6).double())


def test_a_function_that_returns_an_image_of_the_last_input_is_refused() -> None:
    matrix, y = system(20, torch.float64, 0)
    known: dict[int, Tensor] = {}

    def A(p: Tensor) -> Tensor:
        """Return what it returned for the same object, which has new values by now."""
        return known.setdefault(id(p), matrix.mv(p))

    with pytest.raises(ValueError, match="A must be Hermitian and positive definite"):
        conjugate_gradients(A, y, max_num_iters=6, gtol=1e-12, ltol=0)
