"""Telling the user about tensors that share memory with a module but are no part of it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TypeAlias

import torch

from .._errors import AliasError, AliasWarning
from .._modules._refcounts import held_bases, may_be_held_outside, outside_references
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
    """How many tensors hold the storages of some plans, beside those of the plans and `kept` ones.

    The numbers are by the identities of the storages; see `outside_references`.
    """
    pieces: list[torch.Tensor] = list(kept)
    inner: list[torch.Tensor] = []
    for plan in plans:
        pieces += [piece.tensor for piece in plan.pieces]
        for _, composite in plan.composites:
            if composite.has_own:
                inner += composite.parts
    return outside_references(pieces, inner)


def tell_of_move(
    groups: Sequence[Group], outside: dict[int, int], strict: bool, module: torch.nn.Module
) -> None:
    """Warn or raise if memory to be moved is held by tensors that are not known.

    There is no warning about memory all of which is in a tensor that the caller holds, outside of
    the module, and that what moves are views of: it stays on purpose.
    """
    if not outside:
        return
    wholes = set() if strict else _wholes_outside(groups, module)
    unexpected = {storage: number for storage, number in outside.items() if storage not in wholes}
    text = _text_of([group.pieces for group in groups], unexpected)
    if text and strict:
        raise AliasError(_MOVE.format("leave out strict=True", text))
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


def tell_of_copy(plan: Plan, unshared: Iterable[Found]) -> None:
    """Warn if a copy will not share memory with what its source shares it with."""
    # Elements below a byte are left to torch, which keeps them with the storages copied here.
    kept = [
        item.tensor
        for item in plan.unknown
        if item.tensor.dtype in SUB_BYTE_DTYPES and type(item.tensor) in PLAIN_TENSORS
    ]
    suspects = [item for item in unshared if may_be_held_outside(item.tensor)]
    outside = held_outside([plan], kept) | outside_references(item.tensor for item in suspects)
    groups: list[Sequence[Named]] = [group.pieces for group in plan.groups]
    text = _text_of([*groups, *([item] for item in suspects)], outside)
    if text:
        _warn(
            "memory to be copied should be held by the module alone, else its copy is taken apart "
            f"from what is outside; got other holders for {text}"
        )


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
