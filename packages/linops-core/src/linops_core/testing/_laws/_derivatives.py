"""Laws of derivatives: first and second order, forward and backward mode, batched by vmap."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from ..._base._linop import NamedLinop
from .._real_matrices import real_matrix
from ._factories import LinopFactories, energy, known_deprecations, parts, weights_of


class DerivativeLaws(LinopFactories):
    """Gradients equal finite differences, and the transforms of torch.func agree."""

    def test_gradients_to_the_input_are_right(self) -> None:
        for linop, x in self.real_and_complex():
            x.requires_grad_()
            if linop(x).requires_grad:
                assert gradcheck(linop, x, fast_mode=True)
            else:  # the output does not depend on the input
                assert not linop(x).any()

    def test_gradients_to_input_and_weights_are_right_in_both_orders(self) -> None:
        A = self.make_linop()
        # A normal operator without a closed form has both of the others within it.
        first = 0 if self.has_closed_normal(A) else 2
        for linop, x in (*self.derived(A)[first:3], self.derived(A, torch.float64)[2]):
            self.check_gradients(linop, x)

    def check_gradients(self, linop: NamedLinop, x: Tensor) -> None:
        """Check the gradients to ``x`` and to all tensors that ``linop`` reads, together."""
        weights = {name: tensor.clone() for name, tensor in weights_of(linop).items()}

        def applied(x: Tensor, *values: Tensor) -> Tensor:
            return with_weights(dict(zip(weights, values, strict=True)), linop, x)

        values = [tensor.requires_grad_() for tensor in (x, *weights.values())]
        if applied(*values).requires_grad:
            assert gradcheck(applied, values, fast_mode=True)
            assert gradgradcheck(applied, values, fast_mode=True)

    def test_gradients_reach_the_parameters_themselves(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A)[:3]:
            if not (parameters := list(linop.parameters())):
                continue
            linop.zero_grad()
            torch.autograd.backward(energy(linop)(x))
            assert all(parameter.grad is not None for parameter in parameters)

    def test_the_backward_pass_is_the_adjoint(self) -> None:
        for linop, x in self.real_and_complex():
            y, back = vjp(linop, x)  # type: ignore[misc] # three with aux alone
            v = torch.randn_like(y)
            expected = linop.H(v)
            (found,) = back(v)
            assert self.close(found, expected if x.is_complex() else expected.real)

    def test_the_forward_derivative_is_the_operator(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for linop, x in self.derived(self.make_linop(), dtype):
                v = torch.randn_like(x)
                with known_deprecations():
                    y, change, *_ = jvp(linop, (x,), (v,))
                assert self.close(y, linop(x))
                assert self.close(change, linop(v))

    def test_the_forward_derivative_to_the_weights_is_that_of_differences(self) -> None:
        step = 1e-6
        for linop, x in self.derived(self.make_linop())[:3]:
            if not (weights := weights_of(linop)):
                continue
            changes = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
            ahead, behind = (
                {name: tensor + far * changes[name] for name, tensor in weights.items()}
                for far in (step, -step)
            )
            with known_deprecations():
                _, found, *_ = jvp(lambda w: with_weights(w, linop, x), (weights,), (changes,))  # noqa: B023 (called at once)
            difference = with_weights(ahead, linop, x) - with_weights(behind, linop, x)
            assert self.close(found, difference / (2 * step), rtol=1e-4)

    def test_the_gradient_of_the_energy_is_twice_the_normal(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            assert self.close(grad(energy(linop))(x), 2 * linop.H(linop(x)))

    def test_the_jacobian_is_the_matrix(self) -> None:
        for linop, x in self.derived(self.make_linop(), torch.float64)[:3]:
            found = jacrev(parts(linop))(x)
            found = found.reshape(-1, 2, x.numel()).movedim(1, 0).flatten(0, 1)
            assert self.close(found, real_matrix(self.dense(linop))[:, : x.numel()])

    def test_inputs_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            many = torch.stack([x, 2j * x, torch.randn_like(x)])
            expected = torch.stack([linop(one) for one in many])
            assert self.close(vmap(linop)(many), expected)
            batched = vmap(linop, in_dims=-1, out_dims=-1)
            assert self.close(batched(many.movedim(0, -1)), expected.movedim(0, -1))

    def test_weights_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            if not (weights := weights_of(linop)):
                continue
            others = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
            many = {name: torch.stack([weights[name], others[name]]) for name in weights}
            expected = torch.stack([with_weights(each, linop, x) for each in (weights, others)])
            found = vmap(with_weights, in_dims=(0, None, None))(many, linop, x)
            assert self.close(found, expected)

    def test_gradients_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            many = torch.stack([x, torch.randn_like(x)])
            expected = torch.stack([2 * linop.H(linop(one)) for one in many])
            assert self.close(vmap(grad(energy(linop)))(many), expected)


def with_weights(values: Mapping[str, Tensor], linop: NamedLinop, x: Tensor) -> Tensor:
    """Return ``linop(x)`` with these weights instead of its own."""
    y: Tensor = functional_call(linop, dict(values), (x,))
    return y
