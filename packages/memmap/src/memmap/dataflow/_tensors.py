"""Tensor and TensorView: memory, and strided views of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .._views._arrays import Array
from .._views._footprint import footprint
from .._views._overlap import overlaps
from .._views._view import View


class MemoryView(Protocol):
    """The properties of a view that the analysis of dependencies uses."""

    @property
    def name(self) -> str:
        """The name to show."""

    @property
    def memory(self) -> View:
        """The view in bytes."""


class Tensor:
    """Memory of one shape and dtype, zero at first, that operations read and write through views.

    Parameters
    ----------
    name : str
        The name to show.
    shape : sequence of int
        Number of elements in each dimension. Raises `TypeError` if they are not integers, and
        `ValueError` if one is negative.
    dtype : str or numpy.dtype, optional
        Type of one element: any NumPy dtype of numbers or booleans. Raises `TypeError` for others.

    Examples
    --------
    >>> tensor = Tensor("A", (4, 4))
    >>> tensor.shape, tensor.dtype, tensor.size
    ((4, 4), 'float32', 16)
    """

    def __init__(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> None:
        if np.dtype(dtype).kind not in "biufc":
            raise TypeError(
                f"Tensor {name}: dtype must be a type of numbers, got {np.dtype(dtype)}"
            )
        self.name = name
        try:
            self._data: Array = np.zeros(tuple(shape), dtype=dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"Tensor {name}: shape must be made of integers from 0 on, got {shape!r}"
            ) from error

    @property
    def data(self) -> Array:
        """The values, C-contiguous. You may write to them, but not replace the array."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements in each dimension."""
        return self._data.shape

    @property
    def dtype(self) -> str:
        """Name of the type of one element."""
        return self._data.dtype.name

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    def get_storage_size(self) -> int:
        """Number of elements of the memory; the same as `size`."""
        return self.size

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, shape={self.shape}, dtype={self.dtype!r})"


class TensorView:
    """A strided view of a tensor: element ``i`` lies at ``offset + sum_j stride[j] * i[j]``.

    Parameters
    ----------
    name : str
        The name to show.
    tensor : Tensor
        The memory.
    offset : int, optional
        Position, in the tensor's memory, of the element with index 0.
    shape : sequence of int, optional
        Number of elements in each dimension. Default: the shape of the tensor.
    stride : sequence of int, optional
        Step of each dimension in elements, of any sign. Default: row-major without gaps.

    Raises
    ------
    TypeError
        If `tensor` is not a `Tensor`, or an offset, size or stride is not an integer.
    ValueError
        If a size is negative, if `shape` and `stride` differ in length, or if an element would
        lie outside the tensor.

    Attributes
    ----------
    memory : View
        The view in bytes, in an address space of its tensor. All attributes are read-only.

    Examples
    --------
    >>> tensor = Tensor("A", (4, 4))
    >>> inner = TensorView("inner", tensor, offset=5, shape=(2, 2), stride=(4, 1))
    >>> inner.numpy()[...] = 7
    >>> inner.get_physical_index((1, 0)), tensor.data[2].tolist()
    (9, [0.0, 7.0, 7.0, 0.0])
    """

    def __init__(
        self,
        name: str,
        tensor: Tensor,
        offset: int = 0,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"view {name}: tensor must be a Tensor, got {type(tensor).__name__}")
        data, size = tensor.data, tensor.data.itemsize
        try:
            self.shape = tensor.shape if shape is None else tuple(shape)
            stride = self._compute_default_stride() if stride is None else stride
            strides = [step * size for step in stride]
            memory = View(tensor, 0, data.nbytes, offset * size, self.shape, strides, size)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"view {name}: offset, shape and stride must be integers, and every element must "
                f"lie in {tensor!r}, got offset {offset}, shape {shape}, stride {stride}"
            ) from error
        self.name, self.tensor = name, tensor
        self.offset, self.shape = memory.offset // size, memory.sizes
        self.stride = tuple([step // size for step in memory.strides])
        self.memory = memory

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "memory"):
            raise AttributeError(f"view {self.name}: a view must not change, got a new {name}")
        super().__setattr__(name, value)

    def get_physical_index(self, indices: Sequence[int]) -> int:
        """Position of an element in the tensor's memory: ``offset + sum_j stride[j] * indices[j]``.

        Pass one index per dimension. Raises `IndexError` unless ``0 <= indices[j] < shape[j]``.
        """
        at = tuple(indices)
        if len(at) != len(self.shape) or not all(
            0 <= index < size for index, size in zip(at, self.shape, strict=True)
        ):
            raise IndexError(
                f"view {self.name}: indices must lie in the shape {self.shape}, got {at}"
            )
        return self.offset + sum(step * i for step, i in zip(self.stride, at, strict=True))

    def numpy(self) -> Array:
        """The elements as a NumPy array that shares memory: writing to it writes to the tensor."""
        data, memory = self.tensor.data, self.memory
        if 0 in self.shape:
            return np.empty(self.shape, data.dtype)
        # NumPy also checks that every element lies in the buffer.
        return np.ndarray(self.shape, data.dtype, data, memory.offset, memory.strides)

    def _compute_default_stride(self) -> tuple[int, ...]:
        return tuple([prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))])

    def __repr__(self) -> str:
        return (
            f"TensorView({self.name!r}, {self.tensor.name!r}, offset={self.offset}, "
            f"shape={self.shape}, stride={self.stride})"
        )


def compute_view_footprint(view: TensorView) -> list[int]:
    """Positions in the tensor's flat memory that a view touches, ascending, each once.

    Raises `TypeError` if the argument is not a `TensorView`.

    Examples
    --------
    >>> compute_view_footprint(TensorView("v", Tensor("A", (4, 4)), 8, (2, 2), (4, 1)))
    [8, 9, 12, 13]
    """
    if not isinstance(view, TensorView):
        raise TypeError(
            f"compute_view_footprint: view must be a TensorView, got {type(view).__name__}"
        )
    runs = footprint(view.memory).runs() // view.memory.itemsize
    return [index for start, stop in runs.tolist() for index in range(start, stop)]


def check_memory_overlap(view1: MemoryView, view2: MemoryView) -> bool:
    """Whether two views share memory, exactly and without visiting their elements.

    Views of different tensors share no memory. Raises `TypeError` if an argument is not a view.

    Examples
    --------
    >>> tensor = Tensor("A", (4, 4))
    >>> even = TensorView("even", tensor, 0, (4, 2), (4, 2))
    >>> odd = TensorView("odd", tensor, 1, (4, 2), (4, 2))
    >>> check_memory_overlap(even, odd), check_memory_overlap(even, even)
    (False, True)
    """
    check_are_views("check_memory_overlap", (view1, view2))
    return overlaps(view1.memory, view2.memory)


def check_are_views(owner: str, views: tuple[MemoryView, ...]) -> tuple[MemoryView, ...]:
    """The views unchanged; raises `TypeError` if one is not a view, for example a `Tensor`."""
    for view in views:
        if not hasattr(view, "memory"):
            raise TypeError(
                f"{owner}: memory must be reached through a TensorView, got {type(view).__name__}"
            )
    return views
