"""The plan of a copy: strided pieces of tensors, grouped by the memory they share."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from .._errors import NonLeafError, StorageError
from .._modules._composite import CompositeTensor, memory_of
from .._modules._traverse import FoundTensor, Path, path_text
from .._views._address import is_wrapper, lacks_memory, sharing_memory
from .._views._view import View


class Piece(NamedTuple):
    """A strided tensor to copy (a found tensor or a part of one), and where it lies.

    A cast leaves the type of some: the class of a wrapper casts its parts, counts of steps of
    optimizers are exact only in their own type, gradients may have a type of their own, and classes
    of modules keep the type of some.
    """

    tensor: torch.Tensor
    view: View
    path: Path
    owned: bool
    keeps_type: bool = False


class Group(NamedTuple):
    """Pieces whose storages share memory, directly or through others, in the order found.

    `start` and `stop` are the addresses of the union of the storages.
    """

    space: Hashable
    start: int
    stop: int
    pieces: list[Piece]

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.pieces[0].tensor.device

    @property
    def storages(self) -> list[int]:
        """Identities of the storages of all pieces."""
        return [piece.tensor.untyped_storage()._cdata for piece in self.pieces]


@dataclass
class CopyPlan:
    """The work of a copy, a move, or one step of a move.

    Each tensor in `tensors` is a piece in `groups`, or is made again from pieces (`composites`), or
    is of an `unknown` kind and is copied alone, by its class. A composite that its class casts is
    in both.
    """

    groups: list[Group] = field(default_factory=list)
    composites: list[tuple[FoundTensor, CompositeTensor]] = field(default_factory=list)
    unknown: list[FoundTensor] = field(default_factory=list)
    tensors: list[FoundTensor] = field(default_factory=list)

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of all groups."""
        return [piece for group in self.groups for piece in group.pieces]

    def assemble(
        self,
        plain: dict[int, torch.Tensor],
        part_of: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        """Add the composites to the new tensors in `plain`; `part_of` makes their parts."""
        for item, composite in self.composites:
            plain[id(item.tensor)] = composite.assemble([*map(part_of, composite.parts)])


def copy_plan(
    tensors: Iterable[FoundTensor], detach: bool = False, uncast: Container[int] = ()
) -> CopyPlan:
    """Pieces of tensors, grouped by the memory they share; only groups with an owned tensor.

    A cast leaves the type of tensors with the `uncast` ids.
    """
    plan = CopyPlan()
    pieces: list[Piece] = []
    for item in tensors:
        if not item.tensor.is_leaf and not detach:
            if not item.owned:
                continue
            raise NonLeafError(
                f"{path_text(item.path)}: a tensor to be copied must be a leaf, got one computed "
                f"by {item.tensor.grad_fn} (call detach() on it; a copy also takes detach=True)"
            )
        plan.tensors.append(item)
        _add_pieces(item, pieces, plan, id(item.tensor) in uncast)
    groups = _grouped(pieces)
    plan.groups = [group for group in groups if any(piece.owned for piece in group.pieces)]
    return plan


def _add_pieces(item: FoundTensor, pieces: list[Piece], plan: CopyPlan, keeps_type: bool) -> None:
    """Take a tensor apart into strided parts; if that fails, add it to the unknown tensors."""
    memory = memory_of(item.tensor)
    if isinstance(memory, View):
        try:
            memory.layout()
        except StorageError as error:
            raise StorageError(f"{path_text(item.path)}: {error}") from error
        pieces.append(Piece(item.tensor, memory, item.path, item.owned, keeps_type))
    elif memory is None or not item.owned:
        if item.owned and lacks_memory(item.tensor):
            raise TypeError(
                f"{path_text(item.path)}: a tensor must have its own memory, got one inside of a "
                "transform of torch.func (copy or move it outside of the transform)"
            )
        plan.unknown.append(item)
    else:
        keeps_type = keeps_type or (is_wrapper(item.tensor) and not item.tensor.is_nested)
        for part, name in zip(memory.parts, memory.names, strict=True):
            _add_pieces(FoundTensor(part, (item.path, f".{name}")), pieces, plan, keeps_type)
        # Inner composites come first, so that they are there when the outer one is assembled.
        plan.composites.append((item, memory))


def _grouped(pieces: list[Piece]) -> list[Group]:
    """Groups of pieces whose storages share memory, directly or through others."""
    storages = [piece.tensor.untyped_storage()._cdata for piece in pieces]
    groups = []
    for positions in sorted(sharing_memory([piece.view for piece in pieces], storages)):
        members = [pieces[position] for position in positions]
        starts, stops = zip(*[piece.view.storage_span for piece in members], strict=True)
        groups.append(Group(members[0].view.space, min(starts), max(stops), members))
    return groups
