import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from linops_core import FFT, Chain, Diagonal, NamedLinop, Scalar, SimpleLinop
from linops_core._kept import CHECKED
from linops_core.testing.strategies import Known, trees

OF_ONE = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]
OF_ALL = [
    torch_module.register_module_forward_hook,
    torch_module.register_module_forward_pre_hook,
    torch_module.register_module_full_backward_hook,
    torch_module.register_module_full_backward_pre_hook,
]


def chain() -> Chain:
    return Chain(*(Diagonal(torch.full((2,), w), ("N",)) for w in (2.0, 3.0)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.A = Diagonal(nn.Parameter(torch.tensor([2.0, 3.0])), ("Nx",))
        self.B = FFT(1) @ self.A

    def forward(self, x: Tensor) -> Tensor:
        return self.B(self.A(x))


def input_of(known: Known) -> Tensor:
    lengths = known.spaces.lengths(known.spaces.ishape)
    return torch.randn(lengths, dtype=torch.complex128, requires_grad=True)


def run(linop: NamedLinop, x: Tensor) -> None:
    """Run the operator forwards and, where it goes, backwards."""
    y = linop(x)
    if y.requires_grad:
        torch.autograd.backward(torch.view_as_real(y + 0j).sum())


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # where x needs no gradient
@pytest.mark.parametrize("register", OF_ONE)
@given(known=trees(1))
def test_hooks_of_an_operator_run_as_those_of_any_module(register: str, known: Known) -> None:
    for linop in (known.linop, known.linop.N):
        seen: list[nn.Module] = []
        method = getattr(linop, register)
        handle = method(lambda module, *_, seen=seen: seen.append(module))
        run(linop, input_of(known))
        n_seen = len(seen)
        assert seen == [linop] * n_seen
        assert n_seen == 1 or "backward" in register
        handle.remove()
        run(linop, input_of(known))
        assert len(seen) == n_seen


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # where x needs no gradient
@pytest.mark.parametrize("register", OF_ALL)
@given(known=trees(1))
def test_hooks_of_all_modules_run(register: Any, known: Known) -> None:
    seen: list[nn.Module] = []
    own: list[nn.Module] = []
    of_one = getattr(known.linop, register.__name__.replace("module_", ""))
    of_one(lambda module, *_: own.append(module))
    handle = register(lambda module, *_: seen.append(module))
    try:
        run(known.linop, input_of(known))
    finally:
        handle.remove()
    assert [linop for linop in seen if linop is known.linop] == own
    assert own or "backward" in register.__name__


def test_hooks_see_an_operand_before_its_composition_is_done() -> None:
    A, seen = chain(), []
    handle = torch_module.register_module_forward_hook(lambda *args: seen.append(args[0]))
    try:
        A(torch.ones(2))
    finally:
        handle.remove()
    assert seen == [*A.linops, A]


@pytest.mark.parametrize("register", OF_ONE)
def test_hooks_of_an_operand_run(register: str) -> None:
    A, seen = chain(), []
    getattr(A.linops[1], register)(lambda *args: seen.append(args[0]))
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(A(x).sum(), x)
    assert seen == [A.linops[1]]


@pytest.mark.parametrize("always_call", [False, True])
def test_hooks_that_always_run_do_so_after_an_error(always_call: bool) -> None:
    def fail(x: Tensor) -> Tensor:
        raise RuntimeError("on purpose")

    A, seen = SimpleLinop(fail, fail), []
    A.register_forward_hook(lambda *args: seen.append(args[0]), always_call=always_call)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match=r"on purpose"):
        warnings.simplefilter("ignore")  # torch warns of what the hook met
        A(torch.ones(2))
    assert seen == [A] * always_call


def test_what_a_hook_returns_takes_the_place_of_input_or_output() -> None:
    A = chain()
    A.register_forward_pre_hook(lambda module, args: (10 * args[0],))
    A.register_forward_hook(lambda module, args, y: y + 1)
    assert A(torch.ones(2)).tolist() == [61, 61]
    assert (2 * A)(torch.ones(2)).tolist() == [12, 12]  # a hook is the hook of one object


def compiler(compiled: list[object]) -> Callable[..., object]:
    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    return backend


def test_a_compiled_operator_runs_compiled() -> None:
    compiled: list[object] = []
    A = chain()
    A.compile(backend=compiler(compiled), fullgraph=True)
    assert A(torch.ones(2)).tolist() == [6, 6]
    assert len(compiled) == 1


def test_a_compiled_operand_runs_compiled() -> None:
    compiled: list[object] = []
    A = chain()
    A.linops[0].compile(backend=compiler(compiled), fullgraph=True)
    assert A(torch.ones(2)).tolist() == [6, 6]
    assert len(compiled) == 1


def test_who_traces_symbolically_sees_each_operator_called() -> None:
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, NamedLinop)

    called = [n.target for n in Tracer().trace(Net()).nodes if n.op == "call_module"]
    assert called == ["A", "B"]


def test_an_exported_program_says_which_operand_it_has_each_step_from() -> None:
    exported = torch.export.export(Net(), (torch.ones(2),), strict=False)
    nodes = [node for node in exported.graph.nodes if node.op == "call_function"]
    owners = [[*node.meta["nn_module_stack"].values()][-1][1] for node in nodes]
    assert [str(owner).rpartition(".")[2] for owner in owners] == ["Diagonal", "Diagonal", "FFT"]


@pytest.mark.filterwarnings(
    "ignore::torch.jit.TracerWarning",
    "ignore::DeprecationWarning",
    "ignore:`torch.jit.*deprecated:FutureWarning",  # torch 2.15
)
@pytest.mark.parametrize("called_before", [False, True])
def test_tracing_takes_all_steps_and_leaves_the_operators_as_they_were(called_before: bool) -> None:
    net, x = Net(), torch.tensor([1.0, 2.0])
    if called_before:
        net(x)
    traced = torch.jit.trace(net, (x,))
    for linop in (net.A, net.B):
        assert admitted(linop) in (None, (2,))
    torch.testing.assert_close(traced(3 * x), net(3 * x))
    with pytest.raises(ValueError, match=r"Nx must have size 2, got 3"):
        net(torch.ones(3))


@pytest.mark.parametrize("called_before", [False, True])
def test_a_size_stays_free_in_an_exported_program(called_before: bool) -> None:
    A = Scalar(2.0) @ FFT(1)
    if called_before:
        A(torch.ones(2))
    sizes = {"x": {0: torch.export.Dim("n")}}
    program = torch.export.export(A, (torch.ones(2),), dynamic_shapes=sizes, strict=False)
    assert admitted(A) == ((2,) if called_before else None)
    torch.testing.assert_close(program.module()(torch.ones(5)), A(torch.ones(5)))


def admitted(linop: NamedLinop) -> tuple[int, ...] | None:
    """Return the shape that the operator remembers, which must be made of numbers."""
    checked = CHECKED.get(linop)
    if checked is None:
        return None
    shape = checked[0][0]
    assert isinstance(shape, torch.Size)
    assert all(type(length) is int for length in shape)
    return tuple(shape)


def test_an_input_may_be_named() -> None:
    assert Scalar(2.0)(x=torch.ones(1)).tolist() == [2]
