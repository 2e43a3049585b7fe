"""Warnings about tensors outside of a module that share memory with it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from types import FrameType

import torch

from .._errors import AliasError, AliasWarning
from .._modules._named import Source
from .._modules._refcounts import held_bases, one_at_a_time, outside_references
from .._modules._traverse import FoundTensor, path_text, traverse
from .._views._footprint import union_nbytes
from ._plan import CopyPlan, Group

_MAX_NAMES = 8
_MOVE = (
    "memory that moves must be held only by the tensors that move, else the old storage stays "
    "alive (to free it, delete the other holders before the move, or move them too with "
    "attributes=True or a ModuleMemoryMap; to keep them, {}); got other holders for {}"
)


def held_outside(plans: Iterable[CopyPlan], unshared: Iterable[FoundTensor] = ()) -> dict[int, int]:
    """`outside_references` to the storages of some plans.

    The references of `unshared` tensors to their gradients are not counted.
    """
    pieces: list[torch.Tensor] = []
    inner: list[torch.Tensor] = []
    viewed: set[int] = set()
    owners = [item.tensor for item in unshared]
    for plan in plans:
        owners += [item.tensor for item in plan.tensors]
        pieces += [piece.tensor for piece in plan.pieces]
        for item, whole in plan.composites:
            if whole.has_own:
                inner += whole.parts
            elif item.tensor._base is not None:  # jagged: a view of values and offsets
                viewed |= set(map(id, whole.parts))
    with one_at_a_time:
        return outside_references(pieces, inner, viewed, owners)


def warn_of_move(
    groups: Sequence[Group], outside: dict[int, int], strict: bool, module: Source
) -> None:
    """Warn or raise if an unknown tensor holds memory that is to move.

    There is no warning if the caller holds the whole base of the views that move: it stays on
    purpose.
    """
    if not outside:
        return
    wholes = set() if strict else _storages_held_whole(groups, module)
    unexpected = {storage: number for storage, number in outside.items() if storage not in wholes}
    text = _text_of(groups, unexpected)
    if text and strict:
        raise AliasError(_MOVE.format("leave out strict=True", text))
    if text:
        _warn(_MOVE.format("ignore AliasWarning", text))


def _storages_held_whole(groups: Iterable[Group], module: Source) -> set[int]:
    """Storages that the caller holds completely, through a base of the views that move."""
    with one_at_a_time:
        bases = held_bases(piece.tensor for group in groups for piece in group.pieces)
    bases = [base for base in bases if union_nbytes([base]) == base.untyped_storage().nbytes()]
    if not bases:
        return set()
    inside = {id(item.tensor) for item in traverse(module).tensors}
    return {base.untyped_storage()._cdata for base in bases if id(base) not in inside}


def warn_of_copy(plan: CopyPlan, unshared: Iterable[FoundTensor]) -> None:
    """Warn if a copy does not share memory that its source shares."""
    text = _text_of(plan.groups, held_outside([plan], unshared))
    if text:
        _warn(
            "memory that is copied must be held by the module alone, else the copy does not share "
            f"it with the other holders; got other holders for {text}"
        )


def _text_of(groups: Iterable[Group], outside: dict[int, int]) -> str:
    """Names of the groups that are held outside, and the number of holders."""
    if not outside:
        return ""
    held = []
    for group in groups:
        number = sum(outside.get(storage, 0) for storage in set(group.storages))
        if number:
            names = _some([*dict.fromkeys(path_text(piece.path) for piece in group.pieces)], ", ")
            held.append(f"{names} (by {number})")
    return _some(held, "; ")


def _some(texts: Sequence[str], separator: str) -> str:
    rest = len(texts) - _MAX_NAMES
    if rest <= 1:
        return separator.join(texts)
    return separator.join([*texts[:_MAX_NAMES], f"{rest} more"])


def _warn(text: str) -> None:
    """Warn at the line of the user that called this package."""
    package = __name__.partition(".")[0] + "."
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
        level += 1
    warnings.warn(text, AliasWarning, stacklevel=level)
