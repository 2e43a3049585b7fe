"""Laws of torch.compile: one graph, no frozen weights, and derived operators are built."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..._algebra._identity import Identity
from ..._base._linop import NamedLinop
from ._factories import LinopFactories, energy, known_deprecations, largest_magnitude, weights_of


class CompilerLaws(LinopFactories):
    """An operator compiles without a graph break, and operators are built in between."""

    def test_it_compiles_to_one_graph(self) -> None:
        A = self.make_linop()
        # A normal operator without a closed form is the other two, one after the other.
        for linop, x, name in self.derived(A)[: 3 if self.has_closed_normal(A) else 2]:
            run = compiled(linop)
            with torch.no_grad():
                self.agree(run(x), linop(x), f"{name}(x), compiled,")
                for tensor in weights_of(A).values():
                    tensor.copy_(torch.randn_like(tensor))
                self.agree(run(x), linop(x), f"{name}(x), compiled, after a change of the weights,")

    def test_its_backward_pass_compiles_to_one_graph(self) -> None:
        A = self.make_linop()
        x = self.make_input(A).requires_grad_()
        weights = dict(A.named_parameters())
        wanted = [x, *weights.values()]
        gradients = []
        for run in (compiled(A.N, backend="aot_eager"), A.N):
            loss = energy(run)(x)
            gradients.append([loss])
            if loss.requires_grad:
                gradients[-1] += torch.autograd.grad(loss, wanted, materialize_grads=True)
        scale = largest_magnitude(gradients[1][0])
        names = ["|A.N(x)|^2", *(f"its gradient to {name}" for name in ("x", *weights))]
        for name, one, other in zip(names, *gradients, strict=False):
            self.agree(one, other, f"{name}, compiled,", scale=scale)

    def test_operators_can_be_built_of_it_in_a_compiled_function(self) -> None:
        A, B = self.make_linop(), self.make_linop()

        def built(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
            return lambda x: (linop.H @ linop + 0.1 * Identity())(x)

        x = self.make_input(A)
        actual = compiled(built(A), fullgraph=False)(x)
        self.agree(actual, built(B)(x), "(A.H @ A + 0.1)(x), built while compiling,")


def compiled(
    function: Callable[[Tensor], Tensor], *, backend: str = "eager", fullgraph: bool = True
) -> Callable[[Tensor], Tensor]:
    """Return the compiled function, without earlier compilations."""
    # All calls below share one code object, and the compiler keeps few versions of one.
    torch._dynamo.reset()
    graph = torch.compile(lambda x: function(x), backend=backend, fullgraph=fullgraph)

    def run(x: Tensor) -> Tensor:
        with known_deprecations():
            return graph(x)

    return run
