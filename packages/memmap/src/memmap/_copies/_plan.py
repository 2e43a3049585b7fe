"""What has to be copied: strided pieces of tensors, grouped by the memory they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn.parameter import is_lazy

from .._errors import NonLeafError
from .._modules._composite import Composite, take_apart
from .._modules._traverse import Found, Path, path_text
from .._views._address import view_of
from .._views._view import View
from ._grouping import group_views


class Piece(NamedTuple):
    """A strided tensor that is copied: one that was found, or a part of one.

    Attributes
    ----------
    tensor : torch.Tensor
        The tensor.
    view : View
        Where it lies.
    path : Path
        Where it was found.
    owned : bool
        As in `Found`.
    """

    tensor: torch.Tensor
    view: View
    path: Path
    owned: bool


class Group(NamedTuple):
    """Pieces whose storages share memory, directly or through others.

    Attributes
    ----------
    space : hashable
        The address space.
    start, stop : int
        Addresses of the union of the storages.
    pieces : list of Piece
        At least one.
    """

    space: Hashable
    start: int
    stop: int
    pieces: list[Piece]


@dataclass
class Plan:
    """Everything that a copy or a move has to do.

    Attributes
    ----------
    groups : list of Group
        Strided pieces by shared memory, in the order in which they were found.
    composites : list of (Found, Composite)
        Tensors to be made again from pieces.
    unknown : list of Found
        Tensors of which nothing is known but how to copy them one by one.
    found : list of Found
        All tensors.
    """

    groups: list[Group] = field(default_factory=list)
    composites: list[tuple[Found, Composite]] = field(default_factory=list)
    unknown: list[Found] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)


def plan_of(found: Iterable[Found], detach: bool = False) -> Plan:
    """Pieces of tensors, grouped by the memory they share.

    Parameters
    ----------
    found : iterable of Found
        The tensors, each once.
    detach : bool, optional
        Whether tensors with a history are taken without it.

    Returns
    -------
    Plan
        Only groups in which something is owned.

    Raises
    ------
    NonLeafError
        If a tensor has a history and `detach` is not set.

    Examples
    --------
    >>> x, y = torch.zeros(4), torch.zeros(4)
    >>> found = [Found(t, None, True) for t in (x[:2], x[2:], y)]
    >>> [len(group.pieces) for group in plan_of(found).groups]
    [2, 1]
    """
    plan = Plan()
    pieces: list[Piece] = []
    for item in found:
        if not item.tensor.is_leaf and not detach:
            if not item.owned:
                continue
            raise NonLeafError(
                f"{path_text(item.path)}: a tensor to be copied must be a leaf, got one computed "
                f"by {item.tensor.grad_fn} (detach it, or say detach=True)"
            )
        plan.found.append(item)
        _add_pieces(item, pieces, plan)
    plan.groups = [
        group for group in _grouped(pieces) if any(piece.owned for piece in group.pieces)
    ]
    return plan


def _add_pieces(item: Found, pieces: list[Piece], plan: Plan) -> None:
    """Take a tensor apart until all parts are strided; if that fails, note that it is unknown."""
    if is_lazy(item.tensor):
        plan.unknown.append(item)
        return
    try:
        view = view_of(item.tensor)
    except TypeError:
        view = None
    # What has no address may be one of the zeros that torch pretends to keep in a storage.
    if view is not None and (view.storage_address or not item.tensor._is_zerotensor()):
        pieces.append(Piece(item.tensor, view, item.path, item.owned))
        return
    composite = take_apart(item.tensor) if item.owned else None
    if composite is None:
        plan.unknown.append(item)
        return
    for part, name in zip(composite.parts, composite.names, strict=True):
        _add_pieces(Found(part, (item.path, f".{name}"), True), pieces, plan)
    # Inner composites come first, so that they are there when the outer one is assembled.
    plan.composites.append((item, composite))


def _grouped(pieces: list[Piece]) -> Iterable[Group]:
    """Union of pieces whose storages are one or have common bytes."""
    views = [(piece.view, piece.tensor.untyped_storage()._cdata) for piece in pieces]
    for space, start, stop, members in group_views(views):
        yield Group(space, start, stop, [pieces[member] for member in members])
