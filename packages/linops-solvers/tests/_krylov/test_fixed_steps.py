"""Steps of which no number is read are those of the solver that reads them, or NaN."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import conjugate_gradients, power_method
from linops_solvers._shared import _graphs

WITHOUT: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0}
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def in_a_graph(solver: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Return what a solver computes where a compiler follows it."""
    with patch.object(_graphs, "is_compiling", return_value=True):
        return solver(*args, **keywords)


def positive(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(*shape, shape[-1], dtype=dtype, generator=generator)
    return half.mH @ half + 0.5 * torch.eye(shape[-1], dtype=dtype)


@example(5, 2, torch.float64, 1, 5, True, False, 1.0)  # the last step divides rounded numbers
@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from(DTYPES),
    st.integers(0, 2**16),
    st.integers(0, 8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 1e-25, 1e25]),
)
def test_they_are_the_steps_of_the_solver(
    n: int,
    n_systems: int,
    dtype: torch.dtype,
    seed: int,
    n_steps: int,
    has_guess: bool,
    has_preconditioner: bool,
    scale: float,
) -> None:
    matrices = positive((n_systems, n), dtype, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    y = torch.randn(n_systems, n, dtype=dtype, generator=generator) * scale
    options: dict[str, Any] = {"max_num_iters": n_steps, "batch_dims": 1, **WITHOUT}
    if has_guess:
        options["x0"] = torch.randn(n_systems, n, dtype=dtype, generator=generator) * scale
    if has_preconditioner:
        inverses = 1 / matrices.diagonal(dim1=-2, dim2=-1)
        options["preconditioner"] = lambda x: inverses * x
    A = lambda x: (matrices @ x.unsqueeze(-1)).squeeze(-1)  # noqa: E731
    x = in_a_graph(conjugate_gradients, A, y, **options)
    expected = conjugate_gradients(A, y, **options)
    # In double precision, in which squares of scaled numbers are in range.
    wide = expected.to(torch.promote_types(dtype, torch.float64))
    error = (x - wide).norm() / wide.norm().clamp(min=1e-30)
    assert error <= 100 * torch.finfo(dtype).eps * torch.linalg.cond(matrices).max()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_unit_of_the_operator_does_not_matter(scale: float) -> None:
    matrix, y = positive((4,), torch.float32, 0), torch.randn(4)
    x = in_a_graph(conjugate_gradients, lambda x: matrix.mv(x) * scale, y, **WITHOUT)
    expected = torch.linalg.solve(matrix, y) / scale
    torch.testing.assert_close(x, expected, rtol=1e-3, atol=0)


def rotation(x: Tensor) -> Tensor:
    return torch.stack([-x[1], x[0]])


def sheared(x: Tensor) -> Tensor:
    return torch.tensor([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]]).mv(x)


MINUS = Diagonal(torch.tensor([1.0, -1.0]), ("N",))
ONES = Diagonal(torch.ones(2), ("N",))


@pytest.mark.parametrize(
    ("A", "y", "options"),
    [
        (MINUS, torch.tensor([1.0, 2.0]), {}),
        (lambda x: -x, torch.ones(2), {}),
        (lambda x: 1j * x, torch.ones(2, dtype=torch.complex64), {}),
        (rotation, torch.tensor([1.0, 0.0]), {}),
        (sheared, torch.tensor([1.0, 1.0, 3.0]), {}),
        (lambda x: 0 * x, torch.ones(2), {}),
        (ONES, torch.tensor([1.0, torch.nan]), {}),
        (ONES, torch.tensor([1.0, torch.inf]), {}),
        (lambda x: x / 0, torch.ones(2), {}),
        (ONES, torch.ones(2), {"preconditioner": MINUS}),
        (ONES, torch.ones(2), {"x0": torch.tensor([1.0, torch.nan])}),
    ],
)
def test_what_is_refused_outside_of_a_graph_is_nan_in_it(
    A: Any, y: Tensor, options: dict[str, Any]
) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        conjugate_gradients(A, y, **options, **WITHOUT)
    assert in_a_graph(conjugate_gradients, A, y, **options, **WITHOUT).isnan().all()


def test_a_system_that_is_refused_leaves_the_others_alone() -> None:
    A = Diagonal(torch.tensor([[1.0, -1.0], [1.0, 4.0]]), ("B", "N"))
    y = torch.tensor([[1.0, 2.0], [1.0, 4.0]])
    x = in_a_graph(conjugate_gradients, A, y, batch_dims="B", **WITHOUT)
    assert x[0].isnan().all()
    torch.testing.assert_close(x[1], torch.ones(2))


def test_what_is_solved_stays_as_it_is_also_where_the_operator_is_singular() -> None:
    mask = Diagonal(torch.tensor([1.0, 0.0, 3.0]), ("N",))
    y = torch.tensor([1.0, 0.0, 2.0])
    x = in_a_graph(conjugate_gradients, mask, y, max_num_iters=30, **WITHOUT)
    torch.testing.assert_close(x, torch.tensor([1.0, 0.0, 2 / 3]))
    zero = in_a_graph(conjugate_gradients, mask, torch.zeros(3), **WITHOUT)
    assert torch.equal(zero, torch.zeros(3))
    half = in_a_graph(conjugate_gradients, mask.to(torch.float16), y.half(), **WITHOUT)
    torch.testing.assert_close(half, torch.tensor([1.0, 0.0, 2 / 3]).half())


def test_gradients_are_those_of_the_solver() -> None:
    matrix, y = positive((4,), torch.float64, 3), torch.randn(4, dtype=torch.float64)
    results = []
    for run in (in_a_graph, lambda solver, *args, **keywords: solver(*args, **keywords)):
        leaves = [matrix.clone().requires_grad_(), y.clone().requires_grad_()]
        x = run(conjugate_gradients, leaves[0].mv, leaves[1], max_num_iters=3, **WITHOUT)
        results.append(torch.autograd.grad(x.square().sum(), leaves))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize(
    "options",
    [{"gtol": 1e-3}, {"ltol": 1e-3}, {"callback": print}, {"tqdm_kwargs": {}}, {"implicit": True}],
)
def test_options_for_which_numbers_are_read_are_refused_in_an_export(
    options: dict[str, Any],
) -> None:
    (name,) = options
    with pytest.raises(RuntimeError, match=f"the number of steps is fixed: .* got {name}"):
        in_a_graph(conjugate_gradients, lambda x: x, torch.ones(2), **WITHOUT | options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_the_power_method_does_all_of_its_steps(dtype: torch.dtype, scale: float) -> None:
    matrices = positive((2, 4), dtype, 1) * scale
    A = Dense(matrices, ("B", "M", "N"), ("B", "N"), ("B", "M"))
    v = torch.randn(2, 4, dtype=dtype)
    options: dict[str, Any] = {"max_iters": 7, "tol": 0.0, "batch_dims": "B"}
    result = in_a_graph(power_method, A, v, **options)
    torch.testing.assert_close(result, power_method(A, v, **options))


def test_the_power_method_of_zero_is_zero_and_from_zero_nan() -> None:
    v, eigenvalue = in_a_graph(power_method, lambda x: 0 * x, torch.ones(4), tol=0.0)
    assert torch.equal(v, torch.full((4,), 0.5)) and eigenvalue == 0
    assert in_a_graph(power_method, rotation, torch.zeros(2), tol=0.0)[0].isnan().all()


def test_fixed_steps_run_within_vmap() -> None:
    matrix, b = positive((3,), torch.float64, 1), torch.rand(2, 3, dtype=torch.float64)
    A = Dense(matrix, ("M", "N"), ("N",), ("M",))
    x = torch.func.vmap(lambda y: conjugate_gradients(A, y, max_num_iters=3, **WITHOUT))(b)
    torch.testing.assert_close(x, torch.linalg.solve(matrix, b.mT).mT)
    values = torch.func.vmap(lambda v: power_method(A, v, max_iters=3, tol=0)[1])(b)
    expected = torch.stack([power_method(A, v, max_iters=3, tol=0)[1] for v in b])
    torch.testing.assert_close(values, expected)
