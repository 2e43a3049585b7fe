"""View: where a tensor lies in a storage, in bytes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import index
from typing import NamedTuple

from .._errors import StorageError
from ._layout import Layout, normalise


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

    A view is a value: it says where a tensor lay when the view was made. It never reads the data
    and keeps no memory alive (for meta tensors, which have none, it holds the storage object).

    Parameters
    ----------
    space : hashable
        Where addresses can be compared: a `torch.device` for memory with addresses, otherwise the
        storage (of meta, fake and copy-on-write tensors). Views of different spaces share no byte.
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
        If a number is not an integer, or the space is not hashable.
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
        hash(space)  # views of one space are looked up by its hash
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
        # Reports make very many views; this takes half the time of `super().__new__`.
        self = tuple.__new__(
            cls,
            (space, storage_address, storage_nbytes, offset, sizes, strides, itemsize,
             is_conj, is_neg),
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

        Raises
        ------
        ValueError
            If an element lies outside the storage, as after ``storage.resize_(0)``.
        """
        address = self[1]
        layout = normalise(address + self[3], self[4], self[5], self[6])
        if layout is not None and (layout[0] < address or layout[1] > address + self[2]):
            freed = "; it was freed, as sharded networks free what they gather; use state dicts"
            raise StorageError(
                f"view: every element must lie in its storage of {self[2]} bytes, got elements "
                f"at bytes {layout.start - address} to {layout.stop - address - 1}"
                f"{'' if self[2] else freed}"
            )
        return layout
