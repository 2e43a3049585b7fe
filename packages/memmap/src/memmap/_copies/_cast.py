"""Casting all views of one piece of memory, so that they are views of one piece afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

import torch

from .._errors import CastError
from .._modules._rebuild import strided, view_like
from .._modules._traverse import path_text
from .._views._footprint import Footprint, footprint
from ._buffers import Span, Transfer
from ._plan import Group, Piece

Unit: TypeAlias = tuple[torch.dtype, torch.dtype]
"""What one number is converted from and to."""


# Two numbers in one byte: torch converts them neither from nor to other types.
_PACKED = frozenset(getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name))


class Cast(NamedTuple):
    """New types for the tensors of a group.

    Attributes
    ----------
    types : dict of torch.dtype to torch.dtype
        New type of every type in the group.
    units : dict of torch.dtype to (torch.dtype, torch.dtype)
        For every type, in which unit its elements are converted: complex numbers as two reals.
    ratio : Fraction
        New bytes for one old byte, the same for all.
    """

    types: dict[torch.dtype, torch.dtype]
    units: dict[torch.dtype, Unit]
    ratio: Fraction


def cast_of(group: Group, dtype: torch.dtype) -> Cast | None:
    """How to cast a group to the precision of a floating or complex type; None if it has that."""
    return cast_by(
        group, {piece.tensor.dtype: new_type(piece.tensor, dtype) for piece in group.pieces}
    )


def cast_by(group: Group, types: dict[torch.dtype, torch.dtype]) -> Cast | None:
    """How to cast a group to new types for those it has; None if they are the same.

    Raises
    ------
    CastError
        If elements of different types would grow differently, or overlap: then no cast keeps
        what they share; or if torch does not convert a type.
    """
    if all(old == new for old, new in types.items()):
        return None
    _check_convertible(group, types)
    units = {old: _units(old, new) for old, new in types.items()}
    ratios = {Fraction(new.itemsize, old.itemsize) for old, new in types.items()}
    if len(ratios) > 1 or not _disjoint(group, units):
        raise CastError(
            f"{', '.join(path_text(piece.path) for piece in group.pieces)}: tensors that share "
            f"memory must keep their proportions in a cast, got {_spell(types)}"
        )
    return Cast(types, units, ratios.pop())


def _check_convertible(group: Group, types: dict[torch.dtype, torch.dtype]) -> None:
    for piece in group.pieces:
        old = piece.tensor.dtype
        if old != types[old] and not _PACKED.isdisjoint((old, types[old])):
            raise CastError(
                f"{path_text(piece.path)}: a tensor must be cast from and to types of whole bytes, "
                f"got {_spell({old: types[old]})}"
            )


def new_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """Type that a tensor is cast to: the precision of `dtype`, real or complex as it was.

    A tensor that is neither floating nor complex keeps its type.

    Raises
    ------
    CastError
        If there is no complex type of that precision.

    Examples
    --------
    >>> new_type(torch.zeros(1, dtype=torch.complex64), torch.float64)
    torch.complex128
    """
    if tensor.is_complex():
        try:
            return dtype.to_complex()
        except RuntimeError as error:
            raise CastError(
                f"a complex tensor must be cast to a precision that complex types have, got {dtype}"
            ) from error
    return dtype.to_real() if tensor.is_floating_point() else tensor.dtype


def is_exact(old: torch.dtype, new: torch.dtype) -> bool:
    """Whether every number of a type is a number of another one, too.

    Examples
    --------
    >>> is_exact(torch.float16, torch.float32), is_exact(torch.float16, torch.bfloat16)
    (True, False)
    """
    if old == new:
        return True
    if not (old.is_floating_point or old.is_complex):
        return False
    (few, many) = (torch.finfo(old), torch.finfo(new))
    return (
        few.eps >= many.eps
        and few.max <= many.max
        and few.smallest_normal * few.eps >= many.smallest_normal * many.eps
    )


def _units(old: torch.dtype, new: torch.dtype) -> Unit:
    return (old.to_real(), new.to_real()) if old.is_complex else (old, new)


def _disjoint(group: Group, units: dict[torch.dtype, Unit]) -> bool:
    """Whether tensors that are converted in different units share no byte."""
    if len(set(units.values())) == 1:
        return True
    touched: dict[tuple[torch.dtype, torch.dtype], Footprint] = {}
    for piece in group.pieces:
        unit = units[piece.tensor.dtype]
        touched[unit] = touched.get(unit, Footprint(group.space)) | footprint(piece.view)
    together = Footprint(group.space)
    for part in touched.values():
        if not together.isdisjoint(part):
            return False
        together |= part
    return True


class CastSpan(NamedTuple):
    """A span whose numbers get new types, so that the copy is `ratio` times as large."""

    span: Span
    cast: Cast

    @property
    def pieces(self) -> list[Piece]:
        """Those of the span."""
        return self.span.pieces

    @property
    def nbytes(self) -> int:
        """Size of the copy."""
        return ceil(self.span.nbytes * self.cast.ratio)

    def transfers(self, data: torch.Tensor) -> Iterator[Transfer]:
        """Numbers by their types: all at once, if they are of one."""
        source = self.span.gathered()
        for offset, sizes, strides, (old, new) in self._numbers():
            yield (
                strided(data, int(offset * self.cast.ratio), sizes, strides, _empty(new, data)),
                strided(source, offset, sizes, strides, _empty(old, source)),
            )

    def holds(self, piece: Piece) -> bool:
        """Whether all numbers of a piece lie in the span."""
        return self.span.holds(piece)

    def view(self, piece: Piece, data: torch.Tensor) -> torch.Tensor:
        """The same view of numbers of the new type."""
        offset = int((piece.view.address - self.span.start) * self.cast.ratio)
        dtype = self.cast.types[piece.tensor.dtype]
        return view_like(piece.tensor, data, offset, dtype=dtype)

    def _numbers(self) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], Unit]]:
        """What to convert: offset in bytes, sizes and strides in units, and the unit."""
        start, nbytes = self.span.start, self.span.nbytes
        units = {self.cast.units[piece.tensor.dtype] for piece in self.pieces}
        if len(units) == 1:
            (unit,) = units
            itemsize = unit[0].itemsize
            offsets = [piece.view.address - start for piece in self.pieces]
            if all(number % itemsize == 0 for number in (nbytes, *offsets)):
                yield 0, (nbytes // itemsize,), (1,), unit
                return
        for piece in self.pieces:
            unit = self.cast.units[piece.tensor.dtype]
            itemsize = unit[0].itemsize
            layout = piece.view.layout()
            if layout is None:
                continue
            if layout.is_nested:
                dims = layout.dims if layout.dims[0][0] == 1 else ((1, 1), *layout.dims)
                sizes = (dims[0][1] // itemsize, *[count for _, count in dims[1:]])
                strides = (1, *[stride // itemsize for stride, _ in dims[1:]])
                yield layout.start - start, sizes, strides, unit
            else:
                for first, past in Footprint(piece.view.space, [layout]).runs().tolist():
                    yield first - start, ((past - first) // itemsize,), (1,), unit


def _empty(dtype: torch.dtype, data: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=data.device)


def _spell(types: dict[torch.dtype, torch.dtype]) -> str:
    return ", ".join(f"{old} to {new}" for old, new in types.items())
