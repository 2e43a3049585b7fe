"""Models as people have them: the same results and bytes as with `copy.deepcopy` and `Module.to`.

The session `models` of nox runs these tests. docs/memmap/models.md has the table.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from memmap import MemoryReport, ModuleMemoryMap, memory_aware_deepcopy, memory_aware_to

pytest.importorskip("transformers", reason="the session `models` installs it")
pytestmark = pytest.mark.filterwarnings("ignore")
BF16 = torch.bfloat16


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with memory that a tensor is made of."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name)
        yield from parts_of(part) if isinstance(part, torch.Tensor) else ()


def state_of(model: nn.Module, again: bool = False) -> dict[str, list[torch.Tensor]]:
    """The parameters and buffers; `again` has all names of tied ones."""
    named = [
        *model.named_parameters(remove_duplicate=not again),
        *model.named_buffers(remove_duplicate=not again),
    ]
    return {name: [*parts_of(tensor)] for name, tensor in named}


def is_meta(model: nn.Module) -> bool:
    return any(part.is_meta for parts in state_of(model).values() for part in parts)


def nbytes_of(model: nn.Module) -> int:
    """Bytes of the storages of all parameters and buffers, each once."""
    parts = [part for named in state_of(model).values() for part in named]
    sizes = {s._cdata: s.nbytes() for s in (part.untyped_storage() for part in parts)}
    return sum(sizes.values())


def results(call: Callable[[Any], Any], model: nn.Module) -> list[torch.Tensor] | str:
    """All tensors that a model returns, or the class of the error that it raises."""
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            leaves = torch.utils._pytree.tree_leaves(call(model))
    except Exception as error:
        return type(error).__name__
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def same(a: list[torch.Tensor] | str, b: list[torch.Tensor] | str) -> bool:
    """Whether two lists of tensors have the same types, devices, shapes and bits."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(
        (x.dtype, x.device, x.shape, x.stride()) == (y.dtype, y.device, y.shape, y.stride())
        and (x.is_meta or torch.equal(bits_of(x), bits_of(y)))
        for x, y in zip(a, b, strict=True)
    )  # fmt: skip


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def differing(ours: nn.Module, theirs: nn.Module) -> list[str]:
    """Names of parameters and buffers that differ."""
    # torch separates a parameter that was tied under two names, and lists both.
    mine, other = state_of(ours, again=True), state_of(theirs)
    return [name for name in other if not same(mine[name], other[name])]


def test_model(made: tuple[nn.Module, Callable[[Any], Any]]) -> None:
    model, call = made
    expected, nbytes = results(call, model), nbytes_of(model)
    assert MemoryReport(model).totals.allocated == nbytes

    def moved(*arguments: Any) -> Callable[[nn.Module], nn.Module]:
        dtype = arguments[0] if isinstance(arguments[0], torch.dtype) else None
        device = None if dtype else arguments[0]
        return lambda m: memory_aware_to(memory_aware_deepcopy(m), device, dtype)

    memory_map = ModuleMemoryMap()
    steps: dict[str, tuple[Callable[[Any], nn.Module], Callable[[Any], nn.Module]]] = {
        "deepcopy": (memory_aware_deepcopy, copy.deepcopy),
        # accelerate gives a model a method ``to`` that moves the original, also if a copy has it.
        "cast": (moved(BF16), lambda m: nn.Module.to(copy.deepcopy(m), BF16)),
        "meta": (moved("meta"), lambda m: nn.Module.to(copy.deepcopy(m), "meta")),
        "cpu": (moved("cpu"), lambda m: nn.Module.to(copy.deepcopy(m), "cpu")),
        "map": (lambda m: memory_map.copy_to(m, "cpu"), copy.deepcopy),
    }
    if not is_meta(model):
        memory_map.register_module(model)
    for step, (ours, theirs) in steps.items():
        reference: nn.Module | None = None
        with suppress(Exception):
            reference = theirs(model)
        if step == "map" and is_meta(model):
            continue  # there are no numbers to place: the hooks of accelerate keep them elsewhere
        try:
            copied = ours(model)
        except Exception:
            if reference is None:
                continue  # torch raises an error, too
            raise
        if reference is None:
            assert step != "deepcopy" or same(results(call, copied), expected)
            continue
        assert differing(copied, reference) == [], step
        if step != "meta":  # some kernels read meta tensors as if they had numbers
            assert same(results(call, copied), results(call, reference)), step
        assert nbytes_of(copied) <= nbytes_of(reference), step
        assert MemoryReport(copied).totals.allocated == nbytes_of(copied), step
    assert same(results(call, model), expected) and nbytes_of(model) == nbytes
