"""What each private name of torch must do, and which attributes tensors must have."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import memmap
from memmap import _torch
from memmap._torch import FakeTensor, OpOverload, TorchDispatchMode, pytree

CHECKS: dict[str, Callable[[], bool]] = {}


def needs(*names: str) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    def note(check: Callable[[], bool]) -> Callable[[], bool]:
        CHECKS.update(dict.fromkeys(names, check))
        return check

    return note


@needs("OpOverload", "TorchDispatchMode", "without_modes")
def _() -> bool:
    seen: list[object] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():  # type: ignore[no-untyped-call]
        torch.ones(1)
        with _torch.without_modes():
            torch.ones(1)
    return len(seen) == 1 and isinstance(seen[0], OpOverload)


@needs("FakeTensor")
def _() -> bool:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        made = torch.ones(2)
    again = FakeTensor(mode, torch.ones(2, device="meta"), torch.device("cpu"))
    return isinstance(made, FakeTensor) and made.fake_mode is mode and again.device.type == "cpu"


@needs("pytree")
def _() -> bool:
    tree = ([1], {"a": 2})
    ((path, _), *_) = pytree.tree_flatten_with_path(tree)[0]
    doubled = pytree.tree_map_only(int, lambda number: 2 * number, tree)
    return pytree.keystr(path) == "[0][0]" and pytree.tree_leaves(doubled) == [2, 4]


@needs("shows_its_parts", "computes_in_python")
def _() -> bool:
    from torch.testing._internal.two_tensor import TwoTensor

    two, one = TwoTensor(torch.ones(2), torch.ones(2)), torch.ones(2)
    asked = (_torch.shows_its_parts, _torch.computes_in_python)
    return all(ask(two) and not ask(one) for ask in asked)


@needs("data_address", "is_copy_on_write")
def _() -> bool:
    x = torch.ones(4)
    address = x.data_ptr()
    lazy = torch._lazy_clone(x)
    same = _torch.data_address(lazy) == _torch.data_address(x) == address
    return same and _torch.is_copy_on_write(lazy)


@needs("n_holders")
def _() -> bool:
    x = torch.ones(4)
    storage = x.untyped_storage()
    alone = _torch.n_holders(storage._cdata)
    view = x[1:]
    return _torch.n_holders(storage._cdata) == alone + 1 == 3 and view is not None


@needs("set_data", "set_grad", "fits_in_place")
def _() -> bool:
    x, other = torch.nn.Parameter(torch.ones(2)), torch.zeros(2, dtype=torch.float64)
    _torch.set_data(x, other)
    _torch.set_grad(x, gradient := torch.ones(2, dtype=torch.float64))
    moved = x.dtype == torch.float64 and x.data_ptr() == other.data_ptr() and x.grad is gradient
    return moved and not _torch.fits_in_place(x, torch.ones(2, device="meta"))


@needs("swap_memory", "set_hooks")
def _() -> bool:
    x, calls = torch.nn.Parameter(torch.ones(2)), []
    x.register_hook(lambda gradient: calls.append("hook"))
    x.register_post_accumulate_grad_hook(lambda parameter: calls.append("after"))
    _torch.swap_memory(x, torch.nn.Parameter(torch.full((2,), 3.0)))
    for name, set_to in _torch.set_hooks.items():
        set_to(x, getattr(x, name))
    x.sum().backward()
    return x.tolist() == [3, 3] and calls == ["hook", "after"]


@needs("version_of", "set_versions")
def _() -> bool:
    x = torch.zeros(2)
    view = x[1:]
    _torch.set_versions((x,), (7,))
    return _torch.version_of(x) == _torch.version_of(view) == 7


@needs("set_grad_enabled")
def _() -> bool:
    _torch.set_grad_enabled(False)
    is_off = not torch.is_grad_enabled()
    _torch.set_grad_enabled(True)
    return is_off and torch.is_grad_enabled()


@needs("WithoutFunctions")
def _() -> bool:
    seen: list[object] = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, *args: Any) -> Any:
            seen.append(func)
            return super().__torch_function__(func, *args)  # type: ignore[no-untyped-call]

    x = torch.ones(2).as_subclass(Watching)
    with _torch.WithoutFunctions():
        x.shape  # noqa: B018
    return not seen


@needs("of_class")
def _() -> bool:
    x = torch.ones(2)
    made = _torch.of_class(torch.nn.Parameter, x, True)
    return type(made) is torch.nn.Parameter and made.data_ptr() == x.data_ptr()


@needs("nested_from")
def _() -> bool:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    table = (
        x._nested_tensor_size(),
        x._nested_tensor_strides(),
        x._nested_tensor_storage_offsets(),
    )
    made = _torch.nested_from(x.values(), *table)
    return made.is_nested and torch.equal(made.values(), x.values())


@needs("of_mkldnn")
def _() -> bool:
    return isinstance(_torch.of_mkldnn, torch.layout)


@needs("TORCH_APPLY")
def _() -> bool:
    modules: list[Any] = [torch.nn.Linear(1, 1), torch.nn.LSTM(1, 1)]
    return all(module._apply.__func__ in _torch.TORCH_APPLY for module in modules)


@needs("storage_names")
def _() -> bool:
    return bool(_torch.storage_names()[torch.float32] == "FloatStorage")


@needs("set_bits")
def _() -> bool:
    x = torch.ones(2, dtype=torch.complex64)
    _torch.set_bits(x, True, True)
    return x.is_conj() and x.is_neg()


@pytest.mark.filterwarnings("ignore:.*prototype.*:UserWarning")
@pytest.mark.parametrize("name", CHECKS)
def test_a_name_does_what_it_is_needed_for(name: str) -> None:
    assert CHECKS[name](), f"torch {torch.__version__} has changed what memmap calls {name}"


def test_every_name_has_a_check_and_no_other_module_uses_private_names() -> None:
    public = {name for name in vars(_torch) if not name.startswith("_")}
    assert public - {"annotations", "Callable", "torch"} == {*CHECKS}
    for path in Path(memmap.__file__).parent.rglob("*.py"):
        if path.name != "_torch.py":
            tree = ast.parse(path.read_text("utf-8"))
            used = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            used |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            assert not [name for name in used if name.startswith("torch._")], path


@pytest.mark.filterwarnings("ignore:.*prototype.*:UserWarning")
def test_tensors_and_storages_have_the_attributes_that_are_not_documented() -> None:
    x = torch.ones(2)
    view: Any = x[:1]
    assert view._base is x and view._cdata != x._cdata and x.untyped_storage()._cdata
    assert x._use_count() == 2 and view._version == 0
    assert torch.equal(view._view_func_unsafe(torch.zeros(2)), torch.zeros(1))
    assert x._backward_hooks is None and hasattr(x, "_post_accumulate_grad_hooks")
    sparse = x.to_sparse()
    assert sparse._indices().shape == (1, 2) and sparse._values().shape == (2,)
    assert torch._efficientzerotensor(2)._is_zerotensor()
    module = torch.nn.LSTM(1, 1)
    assert isinstance(module._parameters, dict) and isinstance(module._buffers, dict)
    assert isinstance(module._modules, dict) and callable(module._init_flat_weights)
