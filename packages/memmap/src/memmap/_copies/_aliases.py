"""Telling the user about tensors that share memory with a module but are no part of it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TypeAlias

import torch

from .._errors import AliasError, AliasWarning
from .._modules._refcounts import held_bases, outside_references
from .._modules._traverse import Found, path_text, traverse
from .._views._address import PLAIN_TENSORS, SUB_BYTE_DTYPES
from .._views._footprint import union_nbytes
from ._plan import Group, Piece, Plan

Named: TypeAlias = Found | Piece

_MAX_NAMES = 8
_MOVE = (
    "memory to be moved should be held by the tensors that are moved alone, else the old storage "
    "stays alive (to free it, delete the others before the move, or move them along with "
    "attributes=True or a ModuleMemoryMap; to keep them, {}); got other holders for {}"
)


def held_outside(plans: Iterable[Plan], kept: Iterable[torch.Tensor] = ()) -> dict[int, int]:
    """How many tensors hold the storages of some plans, beside those that are planned.

    Parameters
    ----------
    plans : iterable of Plan
        All tensors that are known.
    kept : iterable of torch.Tensor, optional
        Further strided tensors that may hold these storages.

    Returns
    -------
    dict of int to int
        By the identity of a storage; see `outside_references`.
    """
    pieces: list[torch.Tensor] = list(kept)
    inner: list[torch.Tensor] = []
    for plan in plans:
        pieces += [piece.tensor for group in plan.groups for piece in group.pieces]
        for _, composite in plan.composites:
            if composite.has_own:
                inner += composite.parts
    return outside_references(pieces, inner)


def tell_of_move(
    groups: Sequence[Group], outside: dict[int, int], strict: bool, module: torch.nn.Module
) -> None:
    """Warn or raise if memory to be moved is held by tensors that are not known.

    Parameters
    ----------
    groups : sequence of Group
        What is to be moved.
    outside : dict of int to int
        What is held; see `held_outside`.
    strict : bool
        Whether to raise.
    module : torch.nn.Module
        What is moved. There is no warning about memory all of which is in a tensor that the caller
        holds, outside of the module, and that what moves are views of: it stays on purpose.

    Raises
    ------
    AliasError
        If `strict` is set and there are any.
    """
    if not outside:
        return
    if strict:
        text = _text_of(map(_tensors_of, groups), outside)
        if text:
            raise AliasError(_MOVE.format("leave out strict=True", text))
        return
    wholes = _wholes_outside(groups, module)
    unexpected = {storage: number for storage, number in outside.items() if storage not in wholes}
    text = _text_of(map(_tensors_of, groups), unexpected)
    if text:
        _warn(_MOVE.format("ignore AliasWarning", text))


def _wholes_outside(groups: Iterable[Group], module: torch.nn.Module) -> set[int]:
    """Storages all of which is in a base of the views that move, which the caller holds."""
    bases = held_bases(piece.tensor for group in groups for piece in group.pieces)
    bases = [base for base in bases if union_nbytes([base]) == base.untyped_storage().nbytes()]
    if not bases:
        return set()
    inside = {id(item.tensor) for item in traverse(module).found}
    return {base.untyped_storage()._cdata for base in bases if id(base) not in inside}


def tell_of_copy(plan: Plan, lone: Sequence[Found]) -> None:
    """Warn if a copy will not share memory with what its source shares it with.

    Parameters
    ----------
    plan : Plan
        What is copied.
    lone : sequence of Found
        Further tensors that are copied, none of which shares memory with another.
    """
    # Left to torch, which keeps them with the storages that are copied here.
    kept = [item.tensor for item in plan.unknown if _has_small_elements(item.tensor)]
    outside = held_outside([plan], kept) | outside_references(item.tensor for item in lone)
    text = _text_of([*map(_tensors_of, plan.groups), *([item] for item in lone)], outside)
    if text:
        _warn(
            "memory to be copied should be held by the module alone, else its copy is taken apart "
            f"from what is outside; got other holders for {text}"
        )


def _has_small_elements(tensor: torch.Tensor) -> bool:
    return tensor.dtype in SUB_BYTE_DTYPES and type(tensor) in PLAIN_TENSORS


def _tensors_of(group: Group) -> Sequence[Named]:
    return group.pieces


def _text_of(groups: Iterable[Sequence[Named]], outside: dict[int, int]) -> str:
    """Groups that are held outside, by the names of their tensors, and by how many."""
    if not outside:
        return ""
    held = []
    for group in groups:
        storages = {item.tensor.untyped_storage()._cdata for item in group}
        number = sum(outside.get(storage, 0) for storage in storages)
        if number:
            names = _some([path_text(item.path) for item in group], ", ")
            held.append(f"{names} (by {number})")
    return _some(held, "; ")


def _some(texts: Sequence[str], separator: str) -> str:
    rest = len(texts) - _MAX_NAMES
    if rest <= 1:
        return separator.join(texts)
    return separator.join([*texts[:_MAX_NAMES], f"{rest} more"])


def _warn(text: str) -> None:
    """Warn of the line that called this package, however deep in it this is."""
    package = __name__.partition(".")[0] + "."
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
        level += 1
    warnings.warn(text, AliasWarning, stacklevel=level)
