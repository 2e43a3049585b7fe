import pytest
import torch
from torch import Tensor

from linops_core import linear_function


def test_the_gradient_is_the_adjoint_and_is_linear_again() -> None:
    matrix = torch.randn(3, 2, dtype=torch.complex128)

    def forward(x: Tensor) -> Tensor:
        return linear_function(lambda v: v @ matrix.T, lambda v: v @ matrix.conj(), x)

    x = torch.randn(4, 2, dtype=torch.complex128, requires_grad=True)
    torch.testing.assert_close(forward(x), x @ matrix.T)
    assert torch.autograd.gradcheck(forward, x)
    assert torch.autograd.gradgradcheck(forward, x)
    torch.testing.assert_close(torch.vmap(forward)(x), x @ matrix.T)


def test_the_adjoint_is_what_is_called() -> None:
    x = torch.ones(2, requires_grad=True)
    y = linear_function(lambda v: 2 * v, lambda v: 7 * v, x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, torch.full((2,), 7.0))


def test_nothing_is_recorded_where_nothing_requires_gradients() -> None:
    y = linear_function(lambda v: 2 * v, lambda v: 2 * v, torch.ones(2))
    assert y.grad_fn is None


def test_weights_that_were_written_to_before_the_gradient_are_refused() -> None:
    weight, x = torch.ones(2), torch.ones(2, requires_grad=True)
    y = linear_function(lambda v: weight * v, lambda v: weight * v, x, weight)
    assert torch.equal(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], weight)
    weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x)
