"""Casts of all views of one storage that keep them views of one storage."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple, TypeAlias

import torch

from .._errors import CastError
from .._modules._traverse import path_text
from .._views._footprint import Footprint
from .._views._layout import Layout
from ._plan import Group

Unit: TypeAlias = tuple[torch.dtype, torch.dtype]
"""The old and the new type of one number."""

# Types with two numbers in one byte. torch converts them neither from nor to other types.
_PACKED = frozenset(getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name))


class Cast(NamedTuple):
    """New types for the types in a group; every element grows by the factor `ratio`."""

    types: dict[torch.dtype, torch.dtype]
    ratio: float

    def unit(self, old: torch.dtype) -> Unit:
        """The unit in which a type is converted: complex numbers are two reals."""
        new = self.types[old]
        return (old.to_real(), new.to_real()) if old.is_complex else (old, new)


def cast_of(group: Group, dtype: torch.dtype) -> Cast | None:
    """How to cast a group to the precision of a dtype; None if it has that precision."""
    types: dict[torch.dtype, torch.dtype] = {}
    for piece in group.pieces:
        old = piece.tensor.dtype
        new = old if piece.keeps_type else new_type(piece.tensor, dtype)
        if types.setdefault(old, new) != new:
            raise CastError(
                f"{', '.join(path_text(piece.path) for piece in group.pieces)}: tensors must share "
                "no memory with one that keeps its type (a part of a tensor that its class casts, "
                "a count of steps of an optimizer, a gradient of another type than its tensor, a "
                "tensor that its module keeps), but they do"
            )
    return cast_by(group, types)


def cast_by(group: Group, types: dict[torch.dtype, torch.dtype]) -> Cast | None:
    """How to cast a group from its types to new types; None if they are the same.

    Raises `CastError` if elements would grow by different factors, if elements that are converted
    in different units overlap, or if torch cannot convert a type.
    """
    if all(old == new for old, new in types.items()):
        return None
    for piece in group.pieces:
        old, new = piece.tensor.dtype, types[piece.tensor.dtype]
        if old != new and not _PACKED.isdisjoint((old, new)):
            raise CastError(
                f"{path_text(piece.path)}: a cast must be from and to types of whole bytes, "
                f"got {old} to {new}"
            )
    ratios = {new.itemsize / old.itemsize for old, new in types.items()}
    cast = Cast(types, ratios.pop())
    if ratios or not _disjoint(group, cast):
        raise CastError(
            f"{', '.join(path_text(piece.path) for piece in group.pieces)}: elements of tensors "
            "that share memory must all grow by the same factor in a cast, got "
            f"{', '.join(f'{old} to {new}' for old, new in types.items())}"
        )
    return cast


def new_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """The type of a tensor in the precision of `dtype`; integers keep their type."""
    if tensor.is_complex():
        try:
            return dtype.to_complex()
        except RuntimeError as error:
            raise CastError(
                f"a complex tensor must be cast to a precision of complex types, got {dtype}"
            ) from error
    return dtype.to_real() if tensor.is_floating_point() else tensor.dtype


def is_exact(old: torch.dtype, new: torch.dtype) -> bool:
    """Whether a new type holds every number of an old type exactly."""
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
    touched = [Footprint(group.space, layouts_of_cast) for layouts_of_cast in layouts.values()]
    return all(a.isdisjoint(b) for a, b in combinations(touched, 2))
