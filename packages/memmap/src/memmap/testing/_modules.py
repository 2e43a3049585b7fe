"""Random modules whose tensors share memory, and lists of their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from hypothesis import strategies as st

from ._brute_force import touched_bytes
from ._views import DTYPES, STORAGE_NBYTES, drawn_view


class Holder(torch.nn.Module):
    """A module with the given attributes; plain tensors become buffers.

    Examples
    --------
    >>> flat = torch.zeros(4)
    >>> pair = Holder(a=flat[:3], b=torch.nn.Parameter(flat[2:]), note="of one storage")
    >>> [path.rpartition(".")[2] for path, _ in tensors_of(pair)], pair.note
    (['b', 'a'], 'of one storage')
    """

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        for name, value in entries.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    # For type checkers, which otherwise only expect tensors and modules as attributes.
    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


@st.composite
def modules(
    draw: st.DrawFn,
    dtypes: Sequence[torch.dtype] = DTYPES,
    max_tensors: int = 5,
    attributes: bool = True,
    internal_overlap: bool = True,
) -> torch.nn.Module:
    """Modules whose tensors share storages in random ways.

    The modules have tied parameters, shared submodules, cycles of modules, None entries, buffers
    that are not persistent, gradients, and views that overlap one another or themselves. All
    tensors are leaves on the CPU; `tensors_of` lists them.

    Parameters
    ----------
    dtypes : sequence of torch.dtype, optional
        Types to choose from.
    max_tensors : int, optional
        Largest number of different tensors, gradients not counted.
    attributes : bool, optional
        Whether tensors are also found in plain attributes and in containers.
    internal_overlap : bool, optional
        Whether elements of one tensor may overlap.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    storages = [_filled(random) for _ in range(draw(st.integers(1, 3)))]
    nodes = [Holder() for _ in range(draw(st.integers(1, 3)))]
    for number, node in enumerate(nodes[1:], 1):
        nodes[draw(st.integers(0, number - 1))].add_module(f"child{number}", node)
    if draw(st.booleans()):
        # One more edge: a shared submodule, or a cycle.
        ends = st.integers(0, len(nodes) - 1)
        nodes[draw(ends)].add_module("again", nodes[draw(ends)])
    if draw(st.booleans()):
        nodes[-1].register_parameter("no_parameter", None)
        nodes[-1].register_buffer("no_buffer", None)
        nodes[-1].add_module("no_module", None)
    for number in range(draw(st.integers(1, max_tensors))):
        tensor = drawn_view(draw, draw(st.sampled_from(storages)), dtypes)
        if not internal_overlap and len(set(at := touched_bytes(tensor))) < len(at):
            tensor = tensor.new_empty(0).set_(tensor.untyped_storage(), 0, (2,), (1,))
        if draw(st.booleans()):
            tensor = _parameter(draw, tensor, storages)
        for n in range(draw(st.integers(1, 2))):
            _install(draw, draw(st.sampled_from(nodes)), f"t{number}{n}", tensor, attributes)
    return nodes[0]


def _filled(random: np.random.Generator) -> torch.UntypedStorage:
    """Random bytes, each of which is also a valid boolean."""
    content = random.integers(0, 2, STORAGE_NBYTES, dtype=np.uint8)
    return torch.from_numpy(content).clone().untyped_storage()


def _parameter(
    draw: st.DrawFn, tensor: torch.Tensor, storages: Sequence[torch.UntypedStorage]
) -> torch.nn.Parameter:
    differentiable = tensor.is_floating_point() or tensor.is_complex()
    made = torch.nn.Parameter(tensor, requires_grad=differentiable and draw(st.booleans()))
    if made.requires_grad and draw(st.booleans()):
        grad = torch.empty(0, dtype=tensor.dtype)
        storage = draw(st.sampled_from(storages))
        made.grad = grad.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return made


def _install(
    draw: st.DrawFn, node: torch.nn.Module, name: str, tensor: torch.Tensor, attributes: bool
) -> None:
    if isinstance(tensor, torch.nn.Parameter):
        node.register_parameter(name, tensor)
        return
    containers = [tensor, [tensor, None, tensor], {"value": (tensor, 1)}] if attributes else []
    kind = draw(st.integers(0, 1 + len(containers)))
    if kind < 2:
        node.register_buffer(name, tensor, persistent=kind == 0)
    else:
        setattr(node, name, containers[kind - 2])


def tensors_of(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Path and tensor for every place in a module that holds a tensor or its gradient.

    Such places are parameters, buffers, attributes, lists, tuples and mappings.

    Examples
    --------
    >>> [path.rpartition(".")[2] for path, _ in tensors_of(torch.nn.Linear(2, 2))]
    ['weight', 'bias']
    """
    tensors = []
    for prefix, node in module.named_modules():
        for name, value in node.__dict__.items():
            if name != "_modules":
                tensors += list(_walk(value, f"{prefix}.{name}"))
    return tensors


def state_of(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The entries of `tensors_of` that a move changes: parameters, buffers, their gradients.

    Examples
    --------
    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.history = torch.zeros(3)
    >>> [path.rpartition(".")[2] for path, _ in state_of(layer)]
    ['weight', 'bias']
    """
    kinds = ("._parameters.", "._buffers.")
    return [(path, t) for path, t in tensors_of(module) if any(kind in path for kind in kinds)]


def _walk(value: object, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
        if value.is_leaf and value.grad is not None:
            yield f"{path}.grad", value.grad
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, object]", value).items():
            yield from _walk(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
