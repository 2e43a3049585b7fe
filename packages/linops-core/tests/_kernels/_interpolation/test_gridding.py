"""Sums over neighbours against tables of all of them, in every order of derivatives."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import jacrev, vmap

from linops_core._kernels._interpolation import _gridding
from linops_core._kernels._interpolation._gridding import gridded, interpolated

N_POINTS = 30


def tables(
    widths: Sequence[int], n_points: int, joint: bool = False, seed: int = 0
) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    largest = N_POINTS // len(widths)
    positions = [torch.randint(largest, (w, n_points), generator=generator) for w in widths]
    lengths = [torch.Size(widths).numel()] if joint else widths
    weights = [torch.randn(w, n_points, dtype=torch.float64, generator=generator) for w in lengths]
    return positions, weights


def matrix(positions: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Return the matrix (P, n) by loops."""
    n_rows = positions[0].shape[1]
    whole = torch.zeros(n_rows, N_POINTS, dtype=torch.float64)
    for p in range(n_rows):
        for at, chosen in enumerate(product(*(range(len(table)) for table in positions))):
            place = sum(int(t[i, p]) for t, i in zip(positions, chosen, strict=True))
            if len(weights) == len(positions):
                parts = [float(t[i, p]) for t, i in zip(weights, chosen, strict=True)]
                weight = torch.tensor(parts, dtype=torch.float64).prod()
            else:
                weight = weights[0][at, p]
            whole[p, place] += weight
    return whole


@given(
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    n_points=st.integers(0, 6),
    n_batches=st.integers(0, 3),
    joint=st.booleans(),
    is_complex=st.booleans(),
    step=st.sampled_from([1, 3, 2**16]),
)
def test_both_are_their_matrix_in_steps_of_any_length(
    widths: list[int], n_points: int, n_batches: int, joint: bool, is_complex: bool, step: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gridding, "_STEP", step)
        positions, weights = tables(widths, n_points, joint)
        dtype = torch.complex128 if is_complex else torch.float64
        x = torch.randn(n_batches, N_POINTS, dtype=dtype)
        y = torch.randn(n_batches, n_points, dtype=dtype)
        A = matrix(positions, weights).to(dtype)
        torch.testing.assert_close(interpolated(x, positions, weights), x @ A.mT)
        torch.testing.assert_close(gridded(y, N_POINTS, positions, weights), y @ A)


Case = tuple[Callable[..., Tensor], tuple[Tensor, ...]]


def cases(joint: bool, dtype: torch.dtype) -> list[Case]:
    """Return both functions, of what is summed and of the weights."""
    positions, weights = tables([2, 2], 3, joint)
    x, y = torch.randn(2, N_POINTS, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    return [
        (lambda x, *weights: interpolated(x, positions, weights), (x, *weights)),
        (lambda y, *weights: gridded(y, N_POINTS, positions, weights), (y, *weights)),
    ]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives_are_right_in_both_orders_and_modes(joint: bool, dtype: torch.dtype) -> None:
    for function, values in cases(joint, dtype):
        inputs = tuple(value.requires_grad_() for value in values)
        assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_everything_can_be_batched() -> None:
    for function, values in cases(False, torch.complex128):
        for own in range(len(values)):
            many = torch.stack([values[own], torch.randn_like(values[own])])

            def of_one(
                value: Tensor,
                function: Callable[..., Tensor] = function,
                values: tuple[Tensor, ...] = values,
                own: int = own,
            ) -> Tensor:
                return function(*values[:own], value, *values[own + 1 :])

            expected = torch.stack([of_one(value) for value in many])
            torch.testing.assert_close(vmap(of_one)(many), expected)
            if not many.is_complex():
                jacobian = jacrev(lambda value, of_one=of_one: of_one(value).real)
                expected = torch.stack([jacobian(value) for value in many])
                torch.testing.assert_close(vmap(jacobian)(many), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("joint", [False, True])
def test_both_compile_to_one_graph_with_their_gradients(joint: bool, dtype: torch.dtype) -> None:
    for function, values in cases(joint, dtype):
        torch._dynamo.reset()
        run = torch.compile(function, backend="aot_eager", fullgraph=True)
        inputs = tuple(value.requires_grad_() for value in values)
        results = [one(*inputs) for one in (run, function)]
        torch.testing.assert_close(results[0], results[1])
        gradients = [torch.autograd.grad(y.abs().square().sum(), inputs) for y in results]
        torch.testing.assert_close(gradients[0], gradients[1])


def test_the_backward_pass_keeps_no_tables_of_neighbours() -> None:
    positions, weights = tables([3, 3], 5)
    x = torch.randn(2, N_POINTS, dtype=torch.float64, requires_grad=True)
    kept: list[Any] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        interpolated(x, positions, weights)
    assert len(kept) == 5
    assert {t.data_ptr() for t in kept} == {t.data_ptr() for t in (x, *positions, *weights)}


def test_gradients_have_the_precision_of_what_they_are_of() -> None:
    positions, weights = tables([2], 4)
    x = torch.randn(1, N_POINTS, dtype=torch.complex64, requires_grad=True)
    y = interpolated(x, positions, weights)
    assert y.dtype == torch.complex128
    torch.autograd.backward(y.abs().sum())
    assert x.grad is not None and x.grad.dtype == torch.complex64
