"""Private names of torch still say what they are used for."""

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd.graph import save_on_cpu
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import linops_core
from linops_core._kernels import _torch_state as state


@contextmanager
def global_hook() -> Iterator[None]:
    handle = register_module_forward_hook(lambda *_: None)
    try:
        yield
    finally:
        handle.remove()


FACTS: list[tuple[Callable[[], bool], Callable[[], AbstractContextManager[object]]]] = [
    (state.is_in_forward_mode, forward_ad.dual_level),
    (state.is_in_fake_mode, FakeTensorMode),
    (state.is_in_a_mode, TorchFunctionMode),
    (state.is_in_a_mode, TorchDispatchMode),
    (state.is_in_a_mode, lambda: torch.device("meta")),
    (state.has_hooks_for_saved_tensors, save_on_cpu),
    (lambda: bool(state.has_global_hooks()), global_hook),
]


@pytest.mark.parametrize(("fact", "block"), FACTS)
def test_a_fact_holds_within_a_block_alone(
    fact: Callable[[], bool], block: Callable[[], AbstractContextManager[object]]
) -> None:
    assert not fact()
    with block():
        assert fact()
    assert not fact()


def test_transforms_are_seen() -> None:
    seen: list[bool] = []

    def see(x: Tensor) -> Tensor:
        seen.append(state.is_transformed())
        return x.sum()

    see(torch.ones(2))
    torch.func.grad(see)(torch.ones(2))
    torch.func.vmap(see)(torch.ones(2))
    assert seen == [False, True, True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:`torch.jit:FutureWarning")
def test_a_trace_is_seen() -> None:
    seen: list[bool] = []

    def see(x: Tensor) -> Tensor:
        seen.append(state.is_in_jit_trace())
        return 2 * x

    see(torch.ones(2))
    torch.jit.trace(see, (torch.ones(2),), check_trace=False)
    assert seen == [False, True]


def test_a_batch_of_gradients_has_no_storage() -> None:
    seen: list[bool] = []
    x = torch.ones(2, requires_grad=True)
    y = 2 * x
    y.register_hook(lambda gradient: seen.append(state.has_storage(gradient)))
    torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True, retain_graph=True)
    torch.autograd.grad(y, x, torch.ones(2))
    assert seen == [False, True]


def test_no_other_module_uses_a_private_name_of_torch() -> None:
    package = Path(linops_core.__file__).parent
    sources = [path for path in package.rglob("*.py") if "testing" not in path.parts]
    for path in sources:
        if path.name == "_torch_state.py":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        private = [name for name in modules if name.startswith("torch.") and "._" in name]
        private += [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch._")
        ]
        private += [
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr == "_current_level"
        ]
        assert not private, path
