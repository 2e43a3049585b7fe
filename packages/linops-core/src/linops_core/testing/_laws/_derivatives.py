"""Laws of derivatives: first and second order, forward and backward mode, batched by vmap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from ..._base._linop import NamedLinop
from .._real_matrices import real_matrix
from ._factories import (
    Applied,
    LinopFactories,
    energy,
    known_deprecations,
    largest_magnitude,
    parts,
    weights_of,
)


class DerivativeLaws(LinopFactories):
    """Gradients equal finite differences, and the transforms of torch.func agree."""

    def test_gradients_to_the_input_are_right(self) -> None:
        for linop, x, name in self.real_and_complex():
            x.requires_grad_()
            y = linop(x)
            if y.requires_grad:
                check_derivatives(gradcheck, linop, [x], f"the gradient of {name}(x) to x")
            else:
                assert not y.any(), f"{name}(x) without a gradient must be 0, got {y}"

    def test_gradients_to_input_and_weights_are_right_in_both_orders(self) -> None:
        A = self.make_linop()
        # A normal operator without a closed form has both of the others within it.
        first = 0 if self.has_closed_normal(A) else 2
        for applied in (*self.derived(A)[first:3], self.derived(A, torch.float64)[2]):
            self.check_gradients(*applied)

    def check_gradients(self, linop: NamedLinop, x: Tensor, name: str) -> None:
        """Check the gradients to ``x`` and to all tensors that ``linop`` reads, together."""
        weights = {name: tensor.clone() for name, tensor in weights_of(linop).items()}

        def applied(x: Tensor, *values: Tensor) -> Tensor:
            return with_weights(dict(zip(weights, values, strict=True)), linop, x)

        values = [tensor.requires_grad_() for tensor in (x, *weights.values())]
        if applied(*values).requires_grad:
            what = f"of {name}(x) to x, {', '.join(weights)}".removesuffix(", ")
            check_derivatives(gradcheck, applied, values, f"the gradients {what}")
            check_derivatives(gradgradcheck, applied, values, f"the second derivatives {what}")

    def test_gradients_reach_the_parameters_themselves(self) -> None:
        A = self.make_linop()
        for linop, x, name in self.derived(A)[:3]:
            if not any(True for _ in linop.parameters()):
                continue
            linop.zero_grad()
            torch.autograd.backward(energy(linop)(x))
            without = [key for key, weight in linop.named_parameters() if weight.grad is None]
            assert not without, f"gradients of {name}(x) must reach all, got none for {without}"

    def test_the_backward_pass_is_the_adjoint(self) -> None:
        for linop, x, name in self.real_and_complex():
            y, back = vjp(linop, x)  # type: ignore[misc] # three with aux alone
            v = torch.randn_like(y)
            expected = linop.H(v)
            (actual,) = back(v)
            expected = expected if x.is_complex() else expected.real
            self.agree(actual, expected, f"the backward pass of {name} for {x.dtype}")

    def test_the_forward_derivative_is_the_operator(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for linop, x, name in self.derived(self.make_linop(), dtype):
                v = torch.randn_like(x)
                with known_deprecations():
                    y, change, *_ = jvp(linop, (x,), (v,))
                self.agree(y, linop(x), f"{name}(x) in forward mode")
                self.agree(change, linop(v), f"the derivative of {name}(x) along v, {name}(v),")

    def test_the_forward_derivative_to_the_weights_is_that_of_differences(self) -> None:
        step = 1e-6
        for linop, x, name in self.derived(self.make_linop())[:3]:
            if not (weights := weights_of(linop)):
                continue
            changes = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
            ahead, behind = (
                {name: tensor + far * changes[name] for name, tensor in weights.items()}
                for far in (step, -step)
            )
            with known_deprecations():
                _, actual, *_ = jvp(lambda w: with_weights(w, linop, x), (weights,), (changes,))  # noqa: B023 (called at once)
            difference = with_weights(ahead, linop, x) - with_weights(behind, linop, x)
            # The derivative may be 0: of a phase to the normal operator.
            scale = max(map(largest_magnitude, changes.values())) * largest_magnitude(linop(x))
            what = f"the derivative of {name}(x) along {', '.join(changes)}"
            self.agree(actual, difference / (2 * step), what, rtol=1e-4, scale=scale)

    def test_the_gradient_of_the_energy_is_twice_the_normal(self) -> None:
        for linop, x, name in self.derived(self.make_linop())[:3]:
            expected = 2 * linop.H(linop(x))
            self.agree(grad(energy(linop))(x), expected, f"the gradient of |{name}(x)|^2")

    def test_the_jacobian_is_the_matrix(self) -> None:
        for linop, x, name in self.derived(self.make_linop(), torch.float64)[:3]:
            actual = jacrev(parts(linop))(x)
            actual = actual.reshape(-1, 2, x.numel()).movedim(1, 0).flatten(0, 1)
            expected = real_matrix(self.dense(linop))[:, : x.numel()]
            self.agree(actual, expected, f"the Jacobian of {name}")

    def test_inputs_can_be_batched(self) -> None:
        A = self.make_linop()
        conjugate = Applied(A.conj(), self.make_input(A), "A.conj()")
        for linop, x, name in [*self.derived(A)[:3], conjugate]:
            many = torch.stack([x, 2j * x, torch.randn_like(x)])
            expected = torch.stack([linop(one) for one in many])
            self.agree(vmap(linop)(many), expected, f"vmap of {name}")
            batched = vmap(linop, in_dims=-1, out_dims=-1)
            actual, expected = batched(many.movedim(0, -1)), expected.movedim(0, -1)
            self.agree(actual, expected, f"vmap of {name} along the last dimension")

    def test_weights_can_be_batched(self) -> None:
        for linop, x, name in self.derived(self.make_linop())[:3]:
            if not (weights := weights_of(linop)):
                continue
            others = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
            many = {name: torch.stack([weights[name], others[name]]) for name in weights}
            expected = torch.stack([with_weights(each, linop, x) for each in (weights, others)])
            actual = vmap(with_weights, in_dims=(0, None, None))(many, linop, x)
            self.agree(actual, expected, f"vmap of {name}(x) over the weights")

    def test_gradients_can_be_batched(self) -> None:
        for linop, x, name in self.derived(self.make_linop())[:3]:
            many = torch.stack([x, torch.randn_like(x)])
            expected = torch.stack([2 * linop.H(linop(one)) for one in many])
            actual = vmap(grad(energy(linop)))(many)
            self.agree(actual, expected, f"vmap of the gradient of |{name}(x)|^2")


def check_derivatives(
    check: Callable[..., bool], function: Callable[..., Tensor], values: Sequence[Tensor], what: str
) -> None:
    """Check derivatives against differences, by ``gradcheck`` or ``gradgradcheck`` of torch.

    A derivative that is exactly 0 is compared with the rounding of the output.
    """
    scale = max(1e-30, largest_magnitude(function(*values)))
    try:
        check(function, [*values], fast_mode=True, atol=1e-5 * scale)
    except GradcheckError as error:
        raise AssertionError(f"{what} must be those of differences, got\n{error}") from error


def with_weights(values: Mapping[str, Tensor], linop: NamedLinop, x: Tensor) -> Tensor:
    """Return ``linop(x)`` with these weights instead of its own."""
    y: Tensor = functional_call(linop, dict(values), (x,))
    return y
