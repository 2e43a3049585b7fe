"""Where a tensor lies: one strided view of a storage, in bytes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import index
from typing import NamedTuple

import numpy as np
import torch

from ._arrays import Array
from ._errors import StorageError
from ._layout import Layout, normalise, relative_form

# Devices whose data pointers are addresses, so that two storages alias exactly when their
# intervals of addresses meet. Elsewhere (an MPS pointer names a buffer object, say) the storage
# object is the identity.
_ADDRESSED_DEVICES = frozenset({"cpu", "cuda", "xpu"})
_CPU = torch.device("cpu")

PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
"""Classes whose instances are the same if their memory, their attributes and gradients are."""

_SUB_BYTE_NAMES = [f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8)]
SUB_BYTE_DTYPES = frozenset(
    getattr(torch, name) for name in (*_SUB_BYTE_NAMES, "quint4x2", "quint2x4")
    if hasattr(torch, name)
)  # fmt: skip

_data_address = torch._C._data_address  # type: ignore[attr-defined]  # not in the stubs
_new_view = _new_layout = tuple.__new__  # a view of a tensor needs no validation
_is_copy_on_write = torch._C._is_cow_tensor  # type: ignore[attr-defined]  # not in the stubs


class StorageSpace:
    """The address space of one storage object that has no addresses of its own.

    Meta and fake tensors, copy-on-write clones and devices with opaque pointers live in such a
    space: offsets count from the storage's first byte. It holds the storage, so that the
    identity cannot be handed to another one while a view of it exists.
    """

    __slots__ = ("_storage", "identity")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self.identity: int = storage._cdata

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageSpace):
            return NotImplemented
        return self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"StorageSpace({self.identity:#x})"


class _ViewFields(NamedTuple):
    space: Hashable
    storage_address: int
    storage_nbytes: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    is_conj: bool
    is_neg: bool


class View(_ViewFields):
    """One strided view of a storage, in bytes.

    A view is a value: it says where a tensor lay when it was asked, never touches the data and
    keeps no memory alive (for meta tensors, which have none, it holds the storage object).

    Parameters
    ----------
    space : hashable
        Where addresses are compared: a `torch.device` for memory with addresses, else an
        object that stands for one storage. Views of different spaces share no byte.
    storage_address : int
        Address of the first byte of the storage.
    storage_nbytes : int
        Bytes of the storage.
    offset : int
        Bytes from the start of the storage to the element with index 0.
    sizes : sequence of int
        Elements in each dimension.
    strides : sequence of int
        Step of each dimension in bytes, of any sign.
    itemsize : int
        Bytes of one element.
    is_conj, is_neg : bool, optional
        Whether the values are read conjugated or negated (torch's lazy bits).

    Raises
    ------
    TypeError
        If a number is no integer, or the space is not hashable.
    ValueError
        If sizes and strides differ in length, a size is negative, or an element would lie
        outside the storage.

    Examples
    --------
    >>> View("RAM", 0, 64, offset=8, sizes=(2, 3), strides=(16, 4), itemsize=4).span
    (8, 36)
    """

    __slots__ = ()

    def __new__(
        cls,
        space: Hashable,
        storage_address: int,
        storage_nbytes: int,
        offset: int = 0,
        sizes: Sequence[int] = (),
        strides: Sequence[int] = (),
        itemsize: int = 1,
        is_conj: bool = False,
        is_neg: bool = False,
    ) -> View:
        """Validate the fields and make the view."""
        hash(space)  # views of one space are found by it
        try:
            sizes, strides = tuple(map(index, sizes)), tuple(map(index, strides))
            storage_address, storage_nbytes = index(storage_address), index(storage_nbytes)
            offset, itemsize = index(offset), index(itemsize)
        except TypeError as error:
            raise TypeError(
                f"View: addresses, offset, sizes, strides and itemsize must be integers: {error}"
            ) from None
        if len(sizes) != len(strides):
            raise ValueError(
                f"View: sizes and strides must have one entry per dimension, "
                f"got {len(sizes)} sizes and {len(strides)} strides"
            )
        if min(sizes, default=0) < 0 or itemsize < 0 or storage_nbytes < 0:
            raise ValueError(
                f"View: sizes, itemsize and storage_nbytes must not be negative, "
                f"got {sizes}, {itemsize} and {storage_nbytes}"
            )
        self = super().__new__(
            cls, space, storage_address, storage_nbytes, offset, sizes, strides, itemsize,
            is_conj, is_neg,
        )  # fmt: skip
        self.layout()
        return self

    @property
    def address(self) -> int:
        """Address of the element with index 0."""
        return self.storage_address + self.offset

    @property
    def storage_span(self) -> tuple[int, int]:
        """Addresses ``(start, stop)`` of the whole storage."""
        return self.storage_address, self.storage_address + self.storage_nbytes

    @property
    def span(self) -> tuple[int, int] | None:
        """Addresses ``(start, stop)`` of the first byte and past the last; None if empty."""
        layout = self.layout()
        return None if layout is None else (layout.start, layout.stop)

    def layout(self) -> Layout | None:
        """Bytes that the view touches, in normal form; None if it is empty.

        Returns
        -------
        Layout or None
            The set of bytes.

        Raises
        ------
        ValueError
            If an element lies outside the storage, as after ``storage.resize_(0)``.
        """
        address = self[1]
        layout = normalise(address + self[3], self[4], self[5], self[6])
        if layout is not None and (layout[0] < address or layout[1] > address + self[2]):
            raise _outside(layout, address, self[2])
        return layout


def _outside(layout: Layout, address: int, nbytes: int) -> StorageError:
    return StorageError(
        f"view: every element must lie in its storage of {nbytes} bytes, got elements "
        f"at bytes {layout.start - address} to {layout.stop - address - 1}"
    )


def view_of(tensor: torch.Tensor | Array | View) -> View:
    """Strided view, in bytes, that a tensor or a NumPy array is.

    Works for every strided tensor, also CUDA, meta and fake ones: the data are not touched, and
    copy-on-write clones stay lazy. Memory that is reached in several ways (``from_numpy``,
    DLPack, ``frombuffer``, slices of storages) is recognised by its addresses.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        Anything strided. A view is returned as it is.

    Returns
    -------
    View
        A value; no memory is allocated, copied or kept alive.

    Raises
    ------
    TypeError
        If the argument is no tensor, has no strided storage (sparse, nested, mkldnn, a wrapper
        subclass), or has elements smaller than a byte.

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


def place_of(tensor: torch.Tensor | Array | View) -> tuple[Hashable, int, Layout | None]:
    """Address space, storage and bytes of a tensor: its view, less what only a copy needs.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        Anything strided.

    Returns
    -------
    space : hashable
        The address space; see `View`.
    storage_address : int
        Address of the first byte of the storage.
    layout : Layout or None
        The bytes that are touched; None if there are none.

    Raises
    ------
    TypeError
        As for `view_of`.
    ValueError
        If an element lies outside its storage.
    """
    if (
        not isinstance(tensor, torch.Tensor)
        or type(tensor) not in PLAIN_TENSORS
        or not tensor.is_cpu
    ):
        return _place_of_view(view_of(tensor))
    itemsize = tensor.itemsize
    try:
        nbytes = tensor.untyped_storage().nbytes()
        relative = relative_form(tensor.shape, tensor.stride(), itemsize, itemsize)
    except RuntimeError:
        return _place_of_view(view_of(tensor))  # which says what is wrong
    if _is_copy_on_write(tensor) or (itemsize == 1 and tensor.dtype in SUB_BYTE_DTYPES):
        return _place_of_view(view_of(tensor))
    address = _data_address(tensor)
    if relative is None:
        return _CPU, address, None
    # A tensor has no negative offset and no negative strides.
    _, length, dims = relative
    start = address + tensor.storage_offset() * itemsize
    layout = _new_layout(Layout, (start, start + length, dims))
    if start + length > address + nbytes:
        raise _outside(layout, address, nbytes)
    return _CPU, address, layout


def _place_of_view(view: View) -> tuple[Hashable, int, Layout | None]:
    return view.space, view.storage_address, view.layout()


def same_storage(a: torch.Tensor | Array | View, b: torch.Tensor | Array | View) -> bool:
    """Whether two tensors lie in one storage, whichever bytes of it they touch.

    Parameters
    ----------
    a, b : torch.Tensor, numpy.ndarray or View
        Two strided tensors.

    Returns
    -------
    bool
        True if their storages are one object or share at least one byte of memory.

    Raises
    ------
    TypeError
        As for `view_of`.

    Examples
    --------
    >>> weights = torch.zeros(10)
    >>> same_storage(weights[:3], weights[5:]), same_storage(weights, weights.clone())
    (True, False)
    """
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        first, second = view_of(a), view_of(b)
        if a.untyped_storage()._cdata == b.untyped_storage()._cdata:
            return True  # also a storage of no bytes
    else:
        first, second = view_of(a), view_of(b)
    if first.space != second.space:
        return False
    (first_start, first_stop), (second_start, second_stop) = first.storage_span, second.storage_span
    return max(first_start, second_start) < min(first_stop, second_stop)


def _view_of_tensor(tensor: torch.Tensor) -> View:
    try:
        storage = tensor.untyped_storage()
        strides = tensor.stride()
    except RuntimeError as error:
        raise TypeError(
            f"view_of: the tensor must be strided, got {_kind(tensor)} "
            "(take its components one by one)"
        ) from error
    itemsize = tensor.element_size()
    if itemsize == 1:
        if tensor.dtype in SUB_BYTE_DTYPES:
            raise TypeError(
                f"view_of: elements must be whole bytes, got a tensor of {tensor.dtype}, "
                "whose elements are smaller"
            )
    else:
        strides = tuple([stride * itemsize for stride in strides])
    address = _data_address(tensor)
    if type(tensor) in PLAIN_TENSORS and tensor.is_cpu and not _is_copy_on_write(tensor):
        space: Hashable = _CPU
    else:
        space, address = _place(tensor, storage, address)
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


def _place(
    tensor: torch.Tensor, storage: torch.UntypedStorage, address: int
) -> tuple[Hashable, int]:
    """Space and storage address of any strided tensor."""
    if type(tensor) not in PLAIN_TENSORS and hasattr(tensor, "__tensor_flatten__"):
        raise TypeError(
            f"view_of: the tensor must have memory of its own, got the wrapper {_kind(tensor)} "
            "(take its components one by one)"
        )
    # The device of a fake tensor is the one it plays; its storage tells the truth.
    device = storage.device
    has_address = device.type in _ADDRESSED_DEVICES and not _is_copy_on_write(tensor)
    if has_address and (address or not storage.nbytes()):
        return device, address
    return StorageSpace(storage), 0


def _kind(tensor: torch.Tensor) -> str:
    nested = "nested, " if tensor.is_nested else ""
    return f"a {type(tensor).__name__} ({nested}layout {tensor.layout}, {tensor.device})"


def _view_of_array(array: Array) -> View:
    address: int = array.__array_interface__["data"][0]
    start, stop = _allocation(array)
    return _new_view(
        View,
        (
            _CPU,
            start,
            stop - start,
            address - start,
            array.shape,
            array.strides,
            array.itemsize,
            False,
            False,
        ),
    )


def _allocation(array: Array) -> tuple[int, int]:
    """Addresses of the memory that an array is part of, as far as its bases can tell."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    start, stop = _bounds(owner)
    if owner.base is not None:
        try:
            buffer_start, buffer_stop = _bounds(np.frombuffer(owner.base, np.uint8))
        except (TypeError, ValueError, BufferError):
            return start, stop  # the base exports no buffer: the array is all that is known
        if buffer_start <= start and stop <= buffer_stop:
            return buffer_start, buffer_stop
    return start, stop


def _bounds(array: Array) -> tuple[int, int]:
    address: int = array.__array_interface__["data"][0]
    layout = normalise(address, array.shape, array.strides, array.itemsize)
    return (address, address) if layout is None else (layout.start, layout.stop)
