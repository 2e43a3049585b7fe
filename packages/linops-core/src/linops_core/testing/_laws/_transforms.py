"""Laws of torch.func: an operator can be differentiated and batched from outside."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from ..._base._linop import NamedLinop
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
            weights = {name: tensor.detach() for name, tensor in weights_of(linop).items()}
            changes = {name: torch.randn_like(tensor) for name, tensor in weights.items()}

            def applied(values: dict[str, Tensor], linop: NamedLinop, x: Tensor) -> Tensor:
                y: Tensor = functional_call(linop, values, (x,))
                return y

            def moved(far: float) -> dict[str, Tensor]:
                return {name: tensor + far * changes[name] for name, tensor in weights.items()}  # noqa: B023 (called at once)

            if not weights:
                continue
            with known_deprecations():
                _, found, *_ = jvp(lambda values: applied(values, linop, x), (weights,), (changes,))  # noqa: B023 (called at once)
            ahead, behind = (applied(moved(far), linop, x) for far in (step, -step))
            difference = (ahead - behind) / (2 * step)
            assert self.close(found, difference, rtol=1e-4)

    def test_the_gradient_of_the_energy_is_twice_the_normal(self) -> None:
        for linop, x in self.derived(self.make_linop())[:3]:
            assert self.close(grad(energy(linop))(x), 2 * linop.H(linop(x)))

    def test_the_jacobian_is_the_matrix(self) -> None:
        for linop, x in self.derived(self.make_linop(), torch.float64)[:3]:
            found = jacrev(parts(linop))(x)
            matrix = torch.view_as_real(
                linop.to_dense(self.all_sizes(linop), torch.complex128) + 0j
            )
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


@contextmanager
def known_deprecations() -> Iterator[None]:
    """Ignore that torch's forward mode uses what torch itself deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def parts(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
    """Return the function of x that is the real and imaginary part of what ``linop`` returns."""
    return lambda x: torch.view_as_real(linop(x) + 0j)


def energy(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
    """Return the function of x that is the sum of the squares of what ``linop`` returns."""
    return lambda x: parts(linop)(x).square().sum()
