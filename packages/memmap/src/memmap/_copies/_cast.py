"""Casting all views of one piece of memory, so that they are views of one piece afterwards."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple, TypeAlias

import torch

from .._errors import CastError
from .._modules._traverse import path_text
from .._views._footprint import Footprint
from .._views._layout import Layout
from ._plan import Group

Unit: TypeAlias = tuple[torch.dtype, torch.dtype]
"""What one number is converted from and to."""

# Two numbers in one byte: torch converts them neither from nor to other types.
_PACKED = frozenset(getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name))


class Cast(NamedTuple):
    """New types for those in a group, all of which have `ratio` new bytes for an old one."""

    types: dict[torch.dtype, torch.dtype]
    ratio: Fraction

    def unit(self, old: torch.dtype) -> Unit:
        """In which unit the elements of a type are converted: complex numbers as two reals."""
        new = self.types[old]
        return (old.to_real(), new.to_real()) if old.is_complex else (old, new)


def cast_of(group: Group, dtype: torch.dtype) -> Cast | None:
    """How to cast a group to the precision of a floating or complex type; None if it has that."""
    return cast_by(
        group, {piece.tensor.dtype: new_type(piece.tensor, dtype) for piece in group.pieces}
    )


def cast_by(group: Group, types: dict[torch.dtype, torch.dtype]) -> Cast | None:
    """How to cast a group to new types for those it has; None if they are the same.

    It is a `CastError` if elements of different types would grow differently, or overlap, so that
    no cast keeps what they share; or if torch does not convert a type.
    """
    if all(old == new for old, new in types.items()):
        return None
    for piece in group.pieces:
        old, new = piece.tensor.dtype, types[piece.tensor.dtype]
        if old != new and not _PACKED.isdisjoint((old, new)):
            raise CastError(
                f"{path_text(piece.path)}: a tensor must be cast from and to types of whole bytes, "
                f"got {old} to {new}"
            )
    ratios = {Fraction(new.itemsize, old.itemsize) for old, new in types.items()}
    cast = Cast(types, ratios.pop())
    if ratios or not _disjoint(group, cast):
        raise CastError(
            f"{', '.join(path_text(piece.path) for piece in group.pieces)}: tensors that share "
            "memory must keep their proportions in a cast, got "
            f"{', '.join(f'{old} to {new}' for old, new in types.items())}"
        )
    return cast


def new_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """The precision of `dtype` for a tensor, real or complex as it was; others keep their type."""
    if tensor.is_complex():
        try:
            return dtype.to_complex()
        except RuntimeError as error:
            raise CastError(
                f"a complex tensor must be cast to a precision that complex types have, got {dtype}"
            ) from error
    return dtype.to_real() if tensor.is_floating_point() else tensor.dtype


def is_exact(old: torch.dtype, new: torch.dtype) -> bool:
    """Whether every number of a type is a number of another one, too."""
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


def _disjoint(group: Group, cast: Cast) -> bool:
    """Whether tensors that are converted in different units share no byte."""
    if len({cast.unit(old) for old in cast.types}) == 1:
        return True
    layouts: dict[Unit, list[Layout]] = {}
    for piece in group.pieces:
        layout = piece.view.layout()
        if layout is not None:
            layouts.setdefault(cast.unit(piece.tensor.dtype), []).append(layout)
    touched = [Footprint(group.space, parts) for parts in layouts.values()]
    return all(a.isdisjoint(b) for a, b in combinations(touched, 2))
