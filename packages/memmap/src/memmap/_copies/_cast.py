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
from ._allocate import UNDER_WAY, empty_bytes
from ._buffers import Span, fake_mode_of, gathered, has_data
from ._plan import Group

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
    """How to cast a group; None if there is nothing to cast.

    Parameters
    ----------
    group : Group
        Tensors that share memory.
    dtype : torch.dtype
        A floating or complex type.

    Returns
    -------
    Cast or None
        The new types.

    Raises
    ------
    CastError
        If elements of different types would grow differently, or overlap: then no cast keeps
        what they share; or if torch does not convert a type.
    """
    return cast_by(
        group, {piece.tensor.dtype: new_type(piece.tensor, dtype) for piece in group.pieces}
    )


def cast_by(group: Group, types: dict[torch.dtype, torch.dtype]) -> Cast | None:
    """How to cast a group to given types; None if they are those it has.

    Parameters
    ----------
    group : Group
        Tensors that share memory.
    types : dict of torch.dtype to torch.dtype
        New type of every type in the group.

    Returns
    -------
    Cast or None
        The new types.

    Raises
    ------
    CastError
        As for `cast_of`.
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

    Parameters
    ----------
    tensor : torch.Tensor
        Any tensor.
    dtype : torch.dtype
        A floating or complex type.

    Returns
    -------
    torch.dtype
        The type that `tensor` has, if that is neither floating nor complex.

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

    Parameters
    ----------
    old, new : torch.dtype
        Two types, both real or both complex.

    Returns
    -------
    bool
        If True, a cast can be taken back.

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


def cast_span(
    span: Span, group: Group, cast: Cast, device: torch.device, non_blocking: bool
) -> dict[int, torch.Tensor]:
    """Cast pieces of a span, over fresh memory that they share as their sources do.

    Parameters
    ----------
    span : Span
        What to cast.
    group : Group
        Where the span lies.
    cast : Cast
        The new types.
    device : torch.device
        Where to.
    non_blocking : bool
        Whether the host may go on before the numbers have arrived.

    Returns
    -------
    dict of int to torch.Tensor
        Plain tensors without history, by the id of their source.
    """
    with fake_mode_of(group):
        data = empty_bytes(ceil((span.stop - span.start) * cast.ratio), device)
        if data.numel() and device.type != "meta" and has_data(group):
            source = gathered(span)
            for offset, sizes, strides, (old, new) in _parts(span, cast):
                _convert(
                    strided(source, offset, sizes, strides, old),
                    strided(data, int(offset * cast.ratio), sizes, strides, new),
                    non_blocking,
                )
    storage = data.untyped_storage()
    made = {}
    for piece in span.pieces:
        tensor = piece.tensor
        offset = int((piece.view.address - span.start) * cast.ratio)
        made[id(tensor)] = view_like(
            tensor, storage, offset, dtype=cast.types[tensor.dtype], device=data.device
        )
    return made


def _parts(span: Span, cast: Cast) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], Unit]]:
    """What to convert: offset in bytes, sizes and strides in units, and the unit."""
    units = {cast.units[piece.tensor.dtype] for piece in span.pieces}
    nbytes = span.stop - span.start
    if len(units) == 1:
        (unit,) = units
        itemsize = unit[0].itemsize
        offsets = [piece.view.address - span.start for piece in span.pieces]
        if all(number % itemsize == 0 for number in (nbytes, *offsets)):
            yield 0, (nbytes // itemsize,), (1,), unit
            return
    for piece in span.pieces:
        unit = cast.units[piece.tensor.dtype]
        itemsize = unit[0].itemsize
        layout = piece.view.layout()
        if layout is None:
            continue
        if layout.is_nested:
            dims = layout.dims if layout.dims[0][0] == 1 else ((1, 1), *layout.dims)
            sizes = (dims[0][1] // itemsize, *[count for _, count in dims[1:]])
            strides = (1, *[stride // itemsize for stride, _ in dims[1:]])
            yield layout.start - span.start, sizes, strides, unit
        else:
            for start, stop in Footprint(piece.view.space, [layout]).runs().tolist():
                yield start - span.start, ((stop - start) // itemsize,), (1,), unit


def _convert(source: torch.Tensor, target: torch.Tensor, non_blocking: bool) -> None:
    if source.device == target.device or source.dim() > 1:
        target.copy_(source, non_blocking=non_blocking)
        return
    # torch converts on one of the devices into memory of its own: keep that small.
    step = UNDER_WAY // max(source.itemsize, target.itemsize)
    for part, place in zip(torch.split(source, step), torch.split(target, step), strict=True):
        place.copy_(part, non_blocking=non_blocking)


def _spell(types: dict[torch.dtype, torch.dtype]) -> str:
    return ", ".join(f"{old} to {new}" for old, new in types.items())
