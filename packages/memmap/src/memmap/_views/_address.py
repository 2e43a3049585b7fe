"""Where tensors and NumPy arrays lie in memory, without reading their data."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import torch

from .._torch import (
    FakeTensor,
    computes_in_python,
    data_address,
    is_copy_on_write,
    shows_its_parts,
)
from ._arrays import Array
from ._layout import Layout, normalise
from ._runs import connected_intervals
from ._view import View

# Devices whose data pointers are addresses: two storages share memory exactly if their address
# intervals meet. On other devices (an MPS pointer names a buffer object, say), storages are
# compared as objects.
_ADDRESSED_DEVICES = frozenset({"cpu", "cuda", "xpu"})
_CPU = torch.device("cpu")

# Two instances are equal if their memory, attributes and gradients are.
PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})

# Several elements share a byte. (torch.uint4 and the like take a whole byte for each element.)
PACKED_DTYPES = frozenset({torch.quint4x2, torch.quint2x4})

_new_view = tuple.__new__  # skips the validation, which a tensor does not need


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether the class of a tensor computes with other tensors, and it has no memory of its own.

    Its storage has a size, but its bytes must not be read. Only its class can copy it.
    """
    if type(tensor) in PLAIN_TENSORS or isinstance(tensor, FakeTensor):
        return False
    return shows_its_parts(tensor) or (computes_in_python(tensor) and not data_address(tensor))


def lacks_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor that has no view is an ordinary one, inside of a transform of torch.func."""
    return (
        type(tensor) in PLAIN_TENSORS
        and tensor.layout is torch.strided
        and tensor.device.type in _ADDRESSED_DEVICES
        and tensor.dtype not in PACKED_DTYPES
    )


def view_of(tensor: torch.Tensor | Array | View) -> View:
    """View of the memory of a tensor or a NumPy array, in bytes.

    Works for every strided tensor, also CUDA, meta and fake ones. The data are not read, and
    copy-on-write clones stay lazy. Memory that is reached in several ways (``from_numpy``,
    DLPack, ``frombuffer``, slices of storages) is recognised by its addresses. A file that is
    mapped twice has two addresses, and counts as two memories.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        A strided tensor or array. A view is returned unchanged.

    Raises
    ------
    TypeError
        If the argument is not a tensor, has no strided storage of its own (sparse, nested, mkldnn,
        a wrapper subclass, zeros of autograd, inside of `torch.func`), or has elements that share
        bytes.

    Examples
    --------
    >>> view = view_of(torch.zeros(4, 6)[1:3, ::2])
    >>> view.offset, view.sizes, view.strides, view.itemsize
    (24, (2, 3), (24, 8), 4)
    """
    if isinstance(tensor, torch.Tensor):
        return _view_of_tensor(tensor)
    if isinstance(tensor, np.ndarray):
        return _view_of_array(tensor)
    if isinstance(tensor, View):
        return tensor
    raise TypeError(
        f"view_of: the argument must be a tensor, a NumPy array or a View, "
        f"got {type(tensor).__name__}"
    )


def by_space(
    tensors: Iterable[torch.Tensor | Array | View],
) -> dict[Hashable, list[tuple[int, int, Layout]]]:
    """Position, storage address and layout of nonempty tensors, grouped by address space."""
    spaces: dict[Hashable, list[tuple[int, int, Layout]]] = {}
    for position, tensor in enumerate(tensors):
        view = view_of(tensor)
        layout = view.layout()
        if layout is not None:
            spaces.setdefault(view.space, []).append((position, view.storage_address, layout))
    return spaces


def sharing_memory(views: Sequence[View], storages: Iterable[int]) -> list[list[int]]:
    """Positions of views whose storages share memory, directly or through others.

    An empty storage shares no byte: views of such ones are joined if `storages`, the identities of
    their storages, are equal.
    """
    spaces: dict[Hashable, list[tuple[int, int, int]]] = {}
    for position, (view, storage) in enumerate(zip(views, storages, strict=True)):
        start, stop = view.storage_span
        key = view.space if start < stop else (view.space, start, storage)
        spaces.setdefault(key, []).append((start, stop, position))
    return [
        sorted(position for _, _, position in component)
        for spans in spaces.values()
        for component in connected_intervals(spans)
    ]


def same_storage(a: torch.Tensor | Array | View, b: torch.Tensor | Array | View) -> bool:
    """Whether two tensors lie in one storage, whichever bytes of it they touch.

    This holds if their storages are the same object or share at least one byte of memory. Raises
    the errors of `view_of`.

    Examples
    --------
    >>> weights = torch.zeros(10)
    >>> same_storage(weights[:3], weights[5:]), same_storage(weights, weights.clone())
    (True, False)
    """
    first, second = view_of(a), view_of(b)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.untyped_storage()._cdata == b.untyped_storage()._cdata:
            return True  # also a storage of no bytes
    if first.space != second.space:
        return False
    (first_start, first_stop), (second_start, second_stop) = first.storage_span, second.storage_span
    return max(first_start, second_start) < min(first_stop, second_stop)


def _view_of_tensor(tensor: torch.Tensor) -> View:
    if type(tensor) not in PLAIN_TENSORS and is_wrapper(tensor):
        raise TypeError(
            f"view_of: the tensor must have its own memory, got the wrapper {_kind(tensor)} "
            "(pass its components one by one)"
        )
    try:
        storage = tensor.untyped_storage()
        strides = tensor.stride()
    except RuntimeError as error:
        if tensor.layout is torch.strided and not tensor.is_nested:
            raise _without_memory(tensor) from error
        raise TypeError(
            f"view_of: the tensor must be strided, got {_kind(tensor)} "
            "(pass its components one by one)"
        ) from error
    itemsize = tensor.element_size()
    if itemsize == 1:
        if tensor.dtype in PACKED_DTYPES:
            raise TypeError(
                f"view_of: elements must be whole bytes, got a tensor of {tensor.dtype}, "
                "whose elements share bytes"
            )
    else:
        strides = tuple([stride * itemsize for stride in strides])
    address = data_address(tensor)
    # A fake tensor reports the device that it simulates; its storage reports the real one.
    space: Hashable = storage.device
    if storage.device.type not in _ADDRESSED_DEVICES or is_copy_on_write(tensor):
        space, address = storage, 0  # as long as it is held, this is one object
    elif not address and storage.nbytes():
        raise _without_memory(tensor)
    return _new_view(
        View,
        (
            space,
            address,
            storage.nbytes(),
            tensor.storage_offset() * itemsize,
            tuple(tensor.shape),
            strides,
            itemsize,
            tensor.is_conj(),
            tensor.is_neg(),
        ),
    )


def _without_memory(tensor: torch.Tensor) -> TypeError:
    """The error for zeros of autograd, and for tensors inside of transforms as in `torch.func`."""
    return TypeError(
        f"view_of: the tensor must have its own memory, got {_kind(tensor)} without any "
        "(inside of a transform of torch.func, ask outside of it)"
    )


def _kind(tensor: torch.Tensor) -> str:
    nested = "nested, " if tensor.is_nested else ""
    return f"a {type(tensor).__name__} ({nested}layout {tensor.layout}, {tensor.device})"


def _view_of_array(array: Array) -> View:
    address: int = array.__array_interface__["data"][0]
    start, stop = _allocation(array)
    offset = address - start
    return View(_CPU, start, stop - start, offset, array.shape, array.strides, array.itemsize)


def _allocation(array: Array) -> tuple[int, int]:
    """Addresses of the memory block of an array, found through its bases."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    start, stop = _bounds(owner)
    if owner.base is not None:
        try:
            buffer_start, buffer_stop = _bounds(np.frombuffer(owner.base, np.uint8))
        except (TypeError, ValueError, BufferError):
            return start, stop  # the base exports no buffer, so only the array is known
        if buffer_start <= start and stop <= buffer_stop:
            return buffer_start, buffer_stop
    return start, stop


def _bounds(array: Array) -> tuple[int, int]:
    address: int = array.__array_interface__["data"][0]
    layout = normalise(address, array.shape, array.strides, array.itemsize)
    return (address, address) if layout is None else (layout.start, layout.stop)
