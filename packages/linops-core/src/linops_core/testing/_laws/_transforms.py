"""Laws of torch.func: an operator can be differentiated and batched from outside."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, jacrev, vjp, vmap

from ..._linop import NamedLinop
from ._factories import LinopFactories, weights_of


class TransformLaws(LinopFactories):
    """The transforms of torch.func give what follows from the adjoint."""

    def test_the_backward_pass_is_the_adjoint(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for linop, x in self.derived(self.make_linop(), dtype)[:3]:
                y, back = vjp(linop, x)  # type: ignore[misc] # three with aux alone
                v = torch.randn_like(y)
                expected = linop.H(v)
                (found,) = back(v)
                assert self.close(found, expected if x.is_complex() else expected.real)

    def test_the_gradient_of_the_energy_is_twice_the_normal(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            assert self.close(grad(energy(linop))(x), 2 * linop.H(linop(x)))

    def test_the_jacobian_is_the_matrix(self) -> None:
        for linop, x in self.derived(self.make_linop(), torch.float64)[:3]:
            found = jacrev(parts(linop))(x)
            matrix = torch.view_as_real(linop.to_dense(self.all_sizes(linop)) + 0j)
            found = found.reshape(-1, 2, x.numel()).movedim(1, -1)
            assert self.close(found, matrix)

    def test_inputs_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            many = torch.stack([x, 2j * x, torch.randn_like(x)])
            expected = torch.stack([linop(one) for one in many])
            assert self.close(vmap(linop)(many), expected)
            batched = vmap(linop, in_dims=-1, out_dims=-1)
            assert self.close(batched(many.movedim(0, -1)), expected.movedim(0, -1))

    def test_weights_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            weights = weights_of(linop)
            if not weights:
                continue
            many = {
                name: torch.stack([tensor.detach(), torch.randn_like(tensor)])
                for name, tensor in weights.items()
            }

            def applied(values: dict[str, Tensor], linop: NamedLinop, x: Tensor) -> Tensor:
                y: Tensor = functional_call(linop, values, (x,))
                return y

            expected = torch.stack(
                [applied({name: many[name][i] for name in many}, linop, x) for i in range(2)]
            )
            assert self.close(vmap(applied, in_dims=(0, None, None))(many, linop, x), expected)

    def test_gradients_can_be_batched(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            many = torch.stack([x, torch.randn_like(x)])
            expected = torch.stack([2 * linop.H(linop(one)) for one in many])
            assert self.close(vmap(grad(energy(linop)))(many), expected)


def parts(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
    """Return the function of x that is the real and imaginary part of what ``linop`` returns."""
    return lambda x: torch.view_as_real(linop(x) + 0j)


def energy(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
    """Return the function of x that is the sum of the squares of what ``linop`` returns."""
    return lambda x: parts(linop)(x).square().sum()
