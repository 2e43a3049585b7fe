"""Laws of torch.compile: one graph, no frozen weights, and derived operators are built."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..._algebra._identity import Identity
from ..._base._linop import NamedLinop
from ._factories import LinopFactories, energy, known_deprecations, weights_of


class CompilerLaws(LinopFactories):
    """An operator compiles without a graph break, and operators are built in between."""

    def test_it_compiles_to_one_graph(self) -> None:
        A = self.make_linop()
        # A normal operator without a closed form is the other two, one after the other.
        for linop, x in self.derived(A)[: 3 if self.has_closed_normal(A) else 2]:
            run = compiled(linop)
            with torch.no_grad():
                assert self.close(run(x), linop(x))
                for tensor in weights_of(A).values():
                    tensor.copy_(torch.randn_like(tensor))
                assert self.close(run(x), linop(x))

    def test_its_backward_pass_compiles_to_one_graph(self) -> None:
        A = self.make_linop()
        x = self.make_input(A).requires_grad_()
        wanted = [x, *A.parameters()]
        found = []
        for run in (compiled(A.N, backend="aot_eager"), A.N):
            loss = energy(run)(x)
            found.append([loss])
            if loss.requires_grad:
                found[-1] += torch.autograd.grad(loss, wanted, materialize_grads=True)
        assert all(self.close(one, other) for one, other in zip(*found, strict=True))

    def test_operators_can_be_built_of_it_in_a_compiled_function(self) -> None:
        A, B = self.make_linop(), self.make_linop()

        def built(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
            return lambda x: (linop.H @ linop + 0.1 * Identity())(x)

        x = self.make_input(A)
        assert self.close(compiled(built(A), fullgraph=False)(x), built(B)(x))


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
