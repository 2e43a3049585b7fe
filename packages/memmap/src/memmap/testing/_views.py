"""Random views of a storage, as `View` and as tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from .._torch import set_bits
from .._views._view import View

DTYPES: tuple[torch.dtype, ...] = (
    torch.uint8, torch.bool, torch.float8_e5m2, torch.int16, torch.bfloat16, torch.float32,
    torch.int64, torch.complex64, torch.complex128,
)  # fmt: skip
"""Types of every element size: 1, 2, 4, 8 and 16 bytes."""

MAX_SIDE = 4
MAX_DIMS = 3
STORAGE_NBYTES = 160


@st.composite
def _sizes_and_strides(
    draw: st.DrawFn, room: int, max_dims: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides that are not negative, and the bytes that are left of the room."""
    sizes, strides = [], []
    for _ in range(draw(st.integers(0, max_dims))):
        size = draw(st.integers(0, MAX_SIDE) if draw(st.booleans()) else st.integers(2, MAX_SIDE))
        # A dimension of size 0 or 1 may have any stride.
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
        Bytes of the storage; at least as many as the largest element.
    address : int, optional
        Address at which the storage starts, in the space ``"RAM"``.
    max_dims : int, optional
        Largest number of dimensions.
    itemsizes : sequence of int, optional
        Element sizes in bytes to choose from.

    Examples
    --------
    >>> from hypothesis import given
    >>> from memmap.testing import touched_bytes
    >>> @given(views(nbytes=64))
    ... def test_a_view_stays_in_its_storage(view):
    ...     assert all(0 <= byte < 64 for byte in touched_bytes(view))
    >>> test_a_view_stays_in_its_storage()
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

    They have no history; elements may overlap.

    Parameters
    ----------
    storage : torch.UntypedStorage
        The memory, on any device, with at least as many bytes as the largest element.
    dtypes : sequence of torch.dtype, optional
        Types to choose from.
    max_dims : int, optional
        Largest number of dimensions.
    bits : bool, optional
        Whether some tensors are lazily conjugated or negated.
    """
    return drawn_view(draw, storage, dtypes, max_dims, bits)


def drawn_view(
    draw: st.DrawFn,
    storage: torch.UntypedStorage,
    dtypes: Sequence[torch.dtype],
    max_dims: int = MAX_DIMS,
    bits: bool = True,
) -> torch.Tensor:
    """A view as in `tensor_views`, without the weak references that Hypothesis would keep to it."""
    dtype = draw(st.sampled_from(dtypes))
    room = storage.nbytes() // dtype.itemsize - 1
    sizes, strides, room = draw(_sizes_and_strides(room, max_dims))
    offset = draw(st.integers(0, room))
    made = torch.empty(0, dtype=dtype, device=storage.device)
    made.set_(storage, offset, sizes, strides)
    conjugate = bits and dtype.is_complex and draw(st.booleans())
    negative = bits and dtype.itemsize > 1 and draw(st.integers(0, 3)) == 3
    set_bits(made, conjugate, negative)
    return made
