"""Laws of gradients: to inputs and to weights, of first and of second order."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, weights_of


class GradientLaws(LinopFactories):
    """Gradients are those of finite differences."""

    def test_gradients_to_the_input_are_right(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for linop, x in self.derived(self.make_linop(), dtype)[:3]:
                x.requires_grad_()
                if linop(x).requires_grad:
                    assert gradcheck(linop, x)
                else:  # what does not depend on its input
                    assert not linop(x).any()

    def test_gradients_to_input_and_weights_are_right_in_both_orders(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for linop, x in self.derived(self.make_linop(), dtype)[:3]:
                self.check_gradients(linop, x)

    def check_gradients(self, linop: NamedLinop, x: Tensor) -> None:
        """Check the gradients to ``x`` and to all that ``linop`` reads, together."""
        weights = {
            name: tensor.detach().clone().requires_grad_()
            for name, tensor in weights_of(linop).items()
        }

        def applied(x: Tensor, *values: Tensor) -> Tensor:
            named = dict(zip(weights, values, strict=True))
            y: Tensor = torch.func.functional_call(linop, named, (x,))
            return y

        values = (x.requires_grad_(), *weights.values())
        if applied(*values).requires_grad:
            assert gradcheck(applied, values, fast_mode=True)
            assert gradgradcheck(applied, values, fast_mode=True)

    def test_gradients_reach_the_parameters_themselves(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A)[:3]:
            parameters = list(linop.parameters())
            if not parameters:
                continue
            for parameter in parameters:
                parameter.grad = None
            torch.autograd.backward(torch.view_as_real(linop(x) + 0j).square().sum())
            assert all(parameter.grad is not None for parameter in parameters)
