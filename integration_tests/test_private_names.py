"""Names of torch that are private or not documented: which the sources use, and what each is for.

A new torch may drop any of them. Then the test of that name fails and says what no longer works.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SOURCES = sorted(Path(__file__).parents[1].glob("packages/*/src/**/*.py"))

WHAT_BREAKS = {
    "torch.Tensor._make_subclass": "memmap: copies of tensors of a subclass, counters of versions",
    "torch._C.DisableTorchFunction": "memmap, linops_multigpu.testing: tensors of subclasses",
    "torch._C.DispatchKey.CPU": "linops_multigpu.testing: computing on simulated devices",
    "torch._C.DispatchKey.CompositeImplicitAutograd": (
        "linops_split: operations that may return an argument or a copy have no quick result"
    ),
    "torch._C.DispatchKey.Python": "memmap: tensors whose class has their memory are found",
    "torch._C.DispatchKeySet": "linops_multigpu.testing: computing on simulated devices",
    "torch._C.TensorBase": "memmap: attributes of tensors are set in one uninterruptible call",
    "torch._C._TorchDispatchModeKey.PROXY": "linops_core: recorded calls of finufft",
    "torch._C._TorchDispatchModeKey.FAKE": "linops_core: kept tables are not used in fake modes",
    "torch._C._autograd._top_saved_tensors_default_hooks": (
        "linops_core: threads leave saved tensors"
    ),
    "torch._C._autograd._unsafe_set_version_counter": "memmap: a move counts as a change in place",
    "torch._C._data_address": "memmap: the address of a storage without materializing a copy",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "linops_multigpu.testing: counts of writes",
    "torch._C._dispatch_keys": "linops_split: gradients with is_grads_batched=True",
    "torch._C._distributed_c10d._set_thread_isolation_mode": "linops_distributed.testing: threads",
    "torch._C._distributed_c10d.HashStore": "linops_distributed.testing: ranks in threads",
    "torch._C._from_dlpack": "linops_multigpu.testing: memory of simulated devices",
    "torch._C._functorch.peek_interpreter_stack": "linops_core: writing in place within torch.func",
    "torch._C._functorch.get_interpreter_stack": "linops_solvers: fixed steps within vmap",
    "torch._C._functorch.TransformType.Vmap": "linops_solvers: fixed steps within vmap",
    "torch._C._get_dispatch_mode": "linops_core: kept tables are not used in fake modes",
    "torch._C._get_tracing_state": "linops_core: threads stay out of jit.trace",
    "torch._C._has_storage": "linops_core: batches of gradients have no memory",
    "torch._C._is_cow_tensor": "memmap: reports of lazily copied storages",
    "torch._C._len_torch_dispatch_stack": "linops_core: threads stay out of dispatch modes",
    "torch._C._len_torch_function_stack": "linops_core: threads stay out of function modes",
    "torch._C._select_conv_backend": (
        "linops_split: memory that a convolution takes inside, in plans"
    ),
    "torch._C._set_conj": "memmap: copies keep the conjugate bit",
    "torch._C._set_grad_enabled": "memmap: an interrupt does not leave gradients off",
    "torch._C._set_neg": "memmap: copies keep the negative bit",
    "torch._C._storage_Use_Count": "memmap: a storage that nobody else holds is moved in place",
    "torch._C._swap_tensor_impl": "memmap: a move keeps the tensor objects, and undoes an error",
    "torch._assert_async": "linops_distributed: marks of messages are checked on a GPU",
    "torch._dynamo.reset": "linops_core.testing: laws of the compiler begin anew",
    "torch._guards.active_fake_mode": "linops_multigpu: transfers in fake modes",
    "torch._has_compatible_shallow_copy_type": (
        "memmap: moves between devices keep the tensor object"
    ),
    "torch._mkldnn": "memmap: reports of tensors of mkldnn",
    "torch._neg_view": "linops_multigpu.testing: the negative bit on simulated devices",
    "torch._nested_view_from_buffer": "memmap: copies of nested tensors",
    "torch._ops.OpOverload": "memmap.dataflow, linops_multigpu.testing: annotations of operations",
    "torch._subclasses.fake_tensor.FakeTensor": "memmap, linops: fake tensors have no memory",
    "torch._subclasses.fake_tensor.FakeTensorMode": "linops_split: plans run on fake tensors",
    "torch._subclasses.fake_tensor.in_kernel_invocation_manager": (
        "linops_split: views of fake tensors are made without their Python code"
    ),
    "torch.autograd.forward_ad._current_level": "linops_core: writing in place in forward mode",
    "torch.distributed.distributed_c10d._world": "linops_distributed.testing: ranks in threads",
    "torch.nn.Module._apply": "memmap: classes that override it are moved by their override",
    "torch.nn.RNNBase._apply": "memmap: classes that override it are moved by their override",
    "torch.nn.modules.module._has_any_global_hook": (
        "linops_core: global hooks of modules are called"
    ),
    "torch.storage._dtype_to_storage_type_map": "memmap: reports of old checkpoints",
    "torch.testing._internal.distributed.multi_threaded_pg.ThreadLocalWorld": (
        "linops_distributed.testing: ranks in threads"
    ),
    "torch.utils._python_dispatch.TorchDispatchMode": (
        "memmap.dataflow.trace, plans, simulated devices"
    ),
    "torch.utils._python_dispatch._disable_current_modes": "linops_distributed: messages in plans",
    "torch.utils._python_dispatch.is_traceable_wrapper_subclass": "memmap: copies of wrappers",
    "torch.utils._pytree": "memmap.borrow, memmap.dataflow: nested arguments",
    "torch.utils.backend_registration._DummyBackendModule": "linops_multigpu.testing",
    "torch.utils.backend_registration._DummyPrivateUse1Hook": "linops_multigpu.testing",
    "torch.utils.backend_registration._setup_privateuseone_for_python_backend": (
        "linops_multigpu.testing"
    ),
}


def names_used(path: Path) -> Iterator[str]:
    """Yield the private names of torch that a file uses, with all modules before them."""
    tree = ast.parse(path.read_text("utf-8"))
    full = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            imported = {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            full |= imported
            if node.module != "torch._C":
                yield from filter(is_private, imported.values())
        elif isinstance(node, ast.Import):
            full |= {a.asname: a.name for a in node.names if a.asname}
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name | ast.Subscript):
            continue
        attributes: list[str] = []
        place: ast.expr = node
        if isinstance(node, ast.Subscript):  # vars(torch._C)["name"], which the stubs do not have
            match node:
                case ast.Subscript(ast.Call(ast.Name("vars"), [place]), ast.Constant(str(key))):
                    attributes = [key]
                case _:
                    continue
        while isinstance(place, ast.Attribute):
            attributes.insert(0, place.attr)
            place = place.value
        if isinstance(place, ast.Name) and place.id in full:
            name = ".".join([full[place.id], *attributes])
            if name.startswith("torch.") and is_private(name) and name != "torch._C":
                yield name


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def found(name: str) -> object:
    """Return what a dotted name stands for."""
    parts = name.split(".")
    for n_modules in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:n_modules]))
        except ModuleNotFoundError:
            continue
        for part in parts[n_modules:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def test_the_table_has_the_names_that_the_sources_use() -> None:
    used = {name for path in SOURCES for name in names_used(path)}
    listed = {name for name in used for known in WHAT_BREAKS if name.startswith(known)}
    assert used == listed, f"say what breaks without {sorted(used - listed)}"
    idle = {known for known in WHAT_BREAKS if not any(name.startswith(known) for name in used)}
    assert not idle, f"no source uses {sorted(idle)} any more"


@pytest.mark.parametrize("name", WHAT_BREAKS)
def test_torch_has_the_name(name: str) -> None:
    try:
        found(name)
    except AttributeError:
        pytest.fail(f"torch {torch.__version__} has no {name}: {WHAT_BREAKS[name]}")


def test_a_name_that_is_gone_is_seen() -> None:
    with pytest.raises(AttributeError):
        found("torch._C._no_such_name")
