from typing import Any

import pytest
import torch
from torch import nn

from linops_core import Chain, Diagonal, NamedLinop, _hooks
from linops_core._hooks import applied, hooks_are_possible


def chain() -> Chain:
    return Chain(*(Diagonal(torch.full((2,), w), ("N",)) for w in (2.0, 3.0)))


@pytest.mark.parametrize(
    "register",
    [
        nn.Module.register_forward_hook,
        nn.Module.register_forward_pre_hook,
        nn.Module.register_full_backward_hook,
        nn.Module.register_full_backward_pre_hook,
    ],
)
def test_hooks_of_an_operand_run(register: Any) -> None:
    A, seen = chain(), []
    register(A.linops[1], lambda *args: seen.append(args[0]))
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(A(x).sum(), x)
    assert seen == [A.linops[1]]


def test_hooks_of_all_modules_run() -> None:
    A, seen = chain(), []
    assert not hooks_are_possible()
    handle = nn.modules.module.register_module_forward_hook(lambda *args: seen.append(args[0]))
    try:
        assert hooks_are_possible()
        A(torch.ones(2))
    finally:
        handle.remove()
    assert seen == [*A.linops, A]


def test_a_compiled_operand_runs_compiled() -> None:
    A, compiled = chain(), []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    A.linops[0].compile(backend=backend, fullgraph=True)
    assert A(torch.ones(2)).tolist() == [6, 6]
    assert len(compiled) == 1


def test_without_hooks_the_operator_is_called_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: NamedLinop, x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("nn.Module was asked")

    A = chain()
    monkeypatch.setattr(nn.Module, "__call__", refuse)
    assert applied(A.linops[0], torch.ones(2)).tolist() == [2, 2]
    assert A.forward(torch.ones(2)).tolist() == [6, 6]
    monkeypatch.setattr(_hooks, "_any_global_hook", lambda: True)
    with pytest.raises(AssertionError, match=r"nn.Module was asked"):
        A.forward(torch.ones(2))
