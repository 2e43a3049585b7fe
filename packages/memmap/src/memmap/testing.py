"""Hypothesis strategies for views and modules that share memory, and brute force to compare with.

Needs hypothesis (the extra ``testing``); ``memmap`` itself never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from hypothesis import strategies as st

from ._view import Array, View

__all__ = [
    "DTYPES",
    "content_of",
    "modules",
    "sharing_of",
    "tensor_views",
    "tensors_of",
    "touched_bytes",
    "views",
]

DTYPES: tuple[torch.dtype, ...] = (
    torch.uint8, torch.bool, torch.float8_e5m2, torch.int16, torch.bfloat16, torch.float32,
    torch.int64, torch.complex64, torch.complex128,
)  # fmt: skip
"""Types of every itemsize: 1, 2, 4, 8 and 16 bytes."""

MAX_SIDE = 4
MAX_DIMS = 3
STORAGE_NBYTES = 160


def touched_bytes(tensor: torch.Tensor | Array | View) -> list[int]:
    """Address of every byte of every element, listed one by one: the definition of a view.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        A small one. A tensor must have addresses (be neither meta nor copy-on-write).

    Returns
    -------
    list of int
        In the order of the elements; a byte that two elements share is listed twice.

    Examples
    --------
    >>> touched_bytes(View("RAM", 0, 9, sizes=(2, 2), strides=(1, 4), itemsize=2))
    [0, 1, 4, 5, 1, 2, 5, 6]
    """
    sizes: Sequence[int]
    if isinstance(tensor, View):
        start, itemsize = tensor.storage_address + tensor.offset, tensor.itemsize
        sizes, strides = tensor.sizes, tensor.strides
    elif isinstance(tensor, np.ndarray):
        start, itemsize = tensor.ctypes.data, tensor.itemsize
        sizes, strides = tensor.shape, tensor.strides
    else:
        itemsize = tensor.element_size()
        start = tensor.untyped_storage().data_ptr() + int(tensor.storage_offset()) * itemsize
        sizes, strides = tensor.shape, tuple(stride * itemsize for stride in tensor.stride())
    return [
        start + sum(i * stride for i, stride in zip(index, strides, strict=True)) + byte
        for index in product(*map(range, sizes))
        for byte in range(itemsize)
    ]


def sharing_of(tensors: Iterable[torch.Tensor], scale: int = 1) -> list[list[int]]:
    """Which bytes of some tensors are the same: equal for tensors that share in the same way.

    Parameters
    ----------
    tensors : iterable of torch.Tensor
        Small ones, with addresses or on the meta device.
    scale : int, optional
        How many bytes to count for each, to compare with tensors cast to a wider type.

    Returns
    -------
    list of list of int
        For each tensor the bytes of its elements, numbered in the order in which they are met.

    Examples
    --------
    >>> x = torch.zeros(6, dtype=torch.uint8)
    >>> sharing_of([x[:3], x[2:4]]), sharing_of([x[1:2]], scale=2)
    ([[0, 1, 2], [2, 3]], [[0, 1]])
    """
    numbers: dict[tuple[object, int, int], int] = {}
    listed = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        space = storage._cdata if tensor.is_meta else None
        bytes_met = [(space, at, part) for at in touched_bytes(tensor) for part in range(scale)]
        listed.append([numbers.setdefault(byte, len(numbers)) for byte in bytes_met])
    return listed


def content_of(tensor: torch.Tensor) -> bytes:
    """Bytes of every element as they lie in memory, whatever is read lazily.

    Parameters
    ----------
    tensor : torch.Tensor
        A small one, on the CPU.

    Returns
    -------
    bytes
        In the order of the elements.

    Examples
    --------
    >>> content_of(torch.tensor([1, 258, 3], dtype=torch.int16)[::2]).hex()
    '01000300'
    """
    storage = tensor.untyped_storage()
    memory = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    start = storage.data_ptr()
    return bytes(memory[at - start] for at in touched_bytes(tensor))


@st.composite
def _sizes_and_strides(
    draw: st.DrawFn, room: int, max_dims: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides that are not negative, and what they leave of the room."""
    sizes, strides = [], []
    for _ in range(draw(st.integers(0, max_dims))):
        size = draw(st.integers(0, MAX_SIDE) if draw(st.booleans()) else st.integers(2, MAX_SIDE))
        # A dimension that is never stepped along may say what it likes.
        most = room // (size - 1) if size > 1 else STORAGE_NBYTES
        stride = draw(st.integers(0, most))
        sizes.append(size)
        strides.append(stride)
        room -= stride * max(size - 1, 0)
    return tuple(sizes), tuple(strides), room


@st.composite
def views(
    draw: st.DrawFn,
    nbytes: int = 64,
    address: int = 0,
    max_dims: int = MAX_DIMS,
    itemsizes: Sequence[int] = (1, 2, 3, 4, 8, 16),
) -> View:
    """Views of one storage: any dims, strides of any sign or 0, overlapping elements, empty ones.

    Parameters
    ----------
    nbytes : int, optional
        Bytes of the storage; at least as many as the largest element has.
    address : int, optional
        Where the storage starts, in the space ``"RAM"``.
    max_dims : int, optional
        Largest number of dimensions.
    itemsizes : sequence of int, optional
        Bytes that an element may have.

    Returns
    -------
    SearchStrategy of View
        None of them reaches beyond the storage.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(views(), lambda view: view.strides and view.strides[0] < 0).strides
    (-1,)
    """
    itemsize = draw(st.sampled_from(itemsizes))
    sizes, strides, room = draw(_sizes_and_strides(nbytes - itemsize, max_dims))
    offset = draw(st.integers(0, room))
    signs = [draw(st.booleans()) for _ in sizes]
    for size, stride, negative in zip(sizes, strides, signs, strict=True):
        if negative and size > 1:
            offset += stride * (size - 1)
    signed = [-s if negative else s for s, negative in zip(strides, signs, strict=True)]
    return View("RAM", address, nbytes, offset, sizes, signed, itemsize)


@st.composite
def tensor_views(
    draw: st.DrawFn,
    storage: torch.UntypedStorage,
    dtypes: Sequence[torch.dtype] = DTYPES,
    max_dims: int = MAX_DIMS,
    bits: bool = True,
) -> torch.Tensor:
    """Tensors that are views of one storage: any type, strides, offset, conj and neg bits.

    Parameters
    ----------
    storage : torch.UntypedStorage
        The memory, on any device; as many bytes as the largest element, at least.
    dtypes : sequence of torch.dtype, optional
        Types to choose from.
    max_dims : int, optional
        Largest number of dimensions.
    bits : bool, optional
        Whether some are lazily conjugated or negated.

    Returns
    -------
    SearchStrategy of torch.Tensor
        Without history, and no view of another tensor; elements may overlap.

    Examples
    --------
    >>> from hypothesis import find
    >>> memory = torch.zeros(4).untyped_storage()
    >>> find(tensor_views(memory, [torch.float32]), lambda tensor: tensor.dim() == 2).dim()
    2
    """
    return _tensor_view(draw, storage, dtypes, max_dims, bits)


def _tensor_view(
    draw: st.DrawFn,
    storage: torch.UntypedStorage,
    dtypes: Sequence[torch.dtype],
    max_dims: int = MAX_DIMS,
    bits: bool = True,
) -> torch.Tensor:
    dtype = draw(st.sampled_from(dtypes))
    room = storage.nbytes() // dtype.itemsize - 1
    sizes, strides, room = draw(_sizes_and_strides(room, max_dims))
    offset = draw(st.integers(0, room))
    made = torch.empty(0, dtype=dtype, device=storage.device)
    made.set_(storage, offset, sizes, strides)
    if bits and dtype.is_complex and draw(st.booleans()):
        torch._C._set_conj(made, True)
    if bits and dtype.itemsize > 1 and draw(st.integers(0, 3)) == 3:
        torch._C._set_neg(made, True)
    return made


class _Node(torch.nn.Module):
    """A module with nothing in it."""


@st.composite
def modules(
    draw: st.DrawFn,
    dtypes: Sequence[torch.dtype] = DTYPES,
    max_tensors: int = 5,
    attributes: bool = True,
    internal_overlap: bool = True,
) -> torch.nn.Module:
    """Modules whose tensors share storages in random ways.

    There are tied parameters, shared submodules, cycles of modules, None entries, buffers that
    are not persistent, gradients, and views that overlap one another or themselves.

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

    Returns
    -------
    SearchStrategy of torch.nn.Module
        On the CPU; all tensors are leaves. `tensors_of` lists them.

    Examples
    --------
    >>> from hypothesis import find
    >>> tied = find(modules(), lambda m: len({id(t) for _, t in tensors_of(m)}) == 1)
    >>> len(tensors_of(tied))
    1
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    storages = [_filled(random) for _ in range(draw(st.integers(1, 3)))]
    nodes = [_Node() for _ in range(draw(st.integers(1, 3)))]
    for number, node in enumerate(nodes[1:], 1):
        nodes[draw(st.integers(0, number - 1))].add_module(f"child{number}", node)
    if draw(st.booleans()):
        # An edge more: a shared submodule, or a cycle.
        ends = st.integers(0, len(nodes) - 1)
        nodes[draw(ends)].add_module("again", nodes[draw(ends)])
    if draw(st.booleans()):
        nodes[-1].register_parameter("no_parameter", None)
        nodes[-1].register_buffer("no_buffer", None)
        nodes[-1].add_module("no_module", None)
    for number in range(draw(st.integers(1, max_tensors))):
        # Not drawn as a whole: hypothesis keeps weak references to what it has drawn.
        tensor = _tensor_view(draw, draw(st.sampled_from(storages)), dtypes)
        if not internal_overlap and len(set(at := touched_bytes(tensor))) < len(at):
            tensor = tensor.new_empty(0).set_(tensor.untyped_storage(), 0, (2,), (1,))
        if draw(st.booleans()):
            tensor = _parameter(draw, tensor, storages)
        for place in range(draw(st.integers(1, 2))):
            _install(draw, draw(st.sampled_from(nodes)), f"t{number}{place}", tensor, attributes)
    return nodes[0]


def _filled(random: np.random.Generator) -> torch.UntypedStorage:
    """Random bytes, each of which is also a valid truth value."""
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
    kinds = ["buffer", "passing", *(["attribute", "list", "mapping"] if attributes else [])]
    kind = draw(st.sampled_from(kinds))
    if kind in ("buffer", "passing"):
        node.register_buffer(name, tensor, persistent=kind == "buffer")
    else:
        wrap: dict[str, Callable[[torch.Tensor], object]] = {
            "attribute": lambda value: value,
            "list": lambda value: [value, None, value],
            "mapping": lambda value: {"value": (value, 1)},
        }
        setattr(node, name, wrap[kind](tensor))


def tensors_of(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Every tensor in a module, once for each place where it stands.

    Parameters
    ----------
    module : torch.nn.Module
        A module with tensors in parameters, buffers, attributes, lists, tuples and mappings.

    Returns
    -------
    list of (str, torch.Tensor)
        Path and tensor, gradients included.

    Examples
    --------
    >>> [path for path, _ in tensors_of(torch.nn.Linear(2, 2))]
    ['._parameters.weight', '._parameters.bias']
    """
    found = []
    for prefix, node in module.named_modules():
        for name, value in node.__dict__.items():
            if name != "_modules":
                found += list(_walk(value, f"{prefix}.{name}"))
    return found


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
