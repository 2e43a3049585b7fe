"""Tiles of one operator in a row, which one operator stands in for.

What surrounds the work of a small tile takes longer than the work: the view of the weights that it
reads is made, its input and its output are checked. In a row the views are made all at once, and
what was checked of the first tile is true of those that are like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._base._copying import linked
from .._base._hooks import applied
from .._base._linop import NamedLinop
from .._base._sliceable import SliceableLinop
from ._chain import Chain

Move: TypeAlias = tuple[str, int | None, int]
"""From a tile to the next: the name of a weight, the axis along which the next tile reads the next
part of it, or None where it reads the same, and how long each part is."""
Moves: TypeAlias = tuple[tuple[Move, ...], ...]
"""Those of each operand of a tile; none of one that is the same in both tiles."""

_WORTH_IT = 8
"""Number of tiles from which on a stand-in saves more time than it takes to make it."""

_OWN = frozenset(
    {"_weights", "_modules"}  # which are compared by what they mean
    | {"_found", "_has_relatives"}
)
"""Attributes in which tiles may differ and be alike."""
_BY_VALUE = frozenset({"_shape", "_operands"})


class Row:
    """Tiles, each of which reads the part of the weights that comes after that of the one before.

    Parameters
    ----------
    tiles : sequence of NamedLinop
    moves : Moves, optional
        From each tile to the next, the same for all; needed for more than one tile.

    Notes
    -----
    For inputs of one shape and dtype all results are of one shape and dtype.
    """

    def __init__(self, tiles: Sequence[NamedLinop], moves: Moves | None = None) -> None:
        self.tiles = tiles
        self._moves = moves if moves and len(tiles) >= _WORTH_IT else ()

    @property
    def passed_over(self) -> list[NamedLinop]:
        """The operators that are not called themselves, because another one stands in."""
        tiles = self.tiles if self._moves else ()
        return [linop for tile in tiles for linop in {tile, *_operands(tile)}]

    def results(self, inputs: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield what each tile returns for its input.

        It is for callers that have asked :func:`hooks_are_possible`, and know that none of
        ``passed_over`` has hooks.

        Parameters
        ----------
        inputs : sequence of Tensor
            One for each tile; all of one shape if the row is uniform.
        """
        if not self._moves:
            for tile, x in zip(self.tiles, inputs, strict=True):
                yield applied(tile, x)
            return
        yield applied(self.tiles[0], inputs[0])  # which checks whatever can be wrong
        steps = list[tuple[Callable[[Any, Tensor], Tensor], NamedLinop]]()
        parts = list[tuple[dict[str, Tensor], str, Sequence[Tensor]]]()
        for operand, moves in zip(_operands(self.tiles[0]), self._moves, strict=True):
            if not moves:
                steps.append((applied, operand))
                continue
            now: dict[str, Tensor] = {}
            stand_in = linked(operand)
            vars(stand_in)["weight_part"] = now.__getitem__
            steps.append((stand_in.fn, stand_in))
            parts += [(now, move[0], self._views(operand, move)) for move in moves]
        for number in range(1, len(self.tiles)):
            for now, name, of_tiles in parts:
                now[name] = of_tiles[number]
            x = inputs[number]
            for step, linop in steps:
                x = step(linop, x)
            yield x

    def _views(self, operand: Any, move: Move) -> Sequence[Tensor]:
        """Return what each tile reads of a weight, which may be another one at each call."""
        name, axis, length = move
        weight, cut = operand._weight(name), operand._weights[name].cut
        if axis is None:
            return [weight[cut]] * len(self.tiles)
        start = cut[axis].start
        along = slice(start, start + length * len(self.tiles))
        return torch.split(weight[(*cut[:axis], along, *cut[axis + 1 :])], length, axis)


def rows(tiles: Sequence[NamedLinop]) -> list[Row]:
    """Return tiles, taken apart into rows that are as long as they can be."""
    moves = [_moves(*pair) for pair in pairwise(tiles)]
    found, start = list[Row](), 0
    for stop in range(1, len(tiles) + 1):
        if stop < len(tiles) and moves[stop - 1] is not None and moves[stop - 1] == moves[start]:
            continue
        found.append(Row(tiles[start:stop], moves[start] if stop > start + 1 else None))
        start = stop
    return found


def _operands(tile: NamedLinop) -> Sequence[NamedLinop]:
    return tile.linops if type(tile) is Chain else (tile,)


def _moves(one: NamedLinop, other: NamedLinop) -> Moves | None:
    """Return how ``other`` differs from ``one``; None if in nothing, or in more than it reads.

    Hooks are more: containers for them are shared only as long as they are empty.
    """
    if Chain in (type(one), type(other)) and not _are_alike(one, other):
        return None
    found = []
    for pair in zip(_operands(one), _operands(other), strict=True):
        moves = _moves_of_weights(*pair)
        if moves is None:
            return None
        found.append(moves)
    return tuple(found) if any(found) else None


def _are_alike(one: NamedLinop, other: NamedLinop) -> bool:
    """Whether all attributes are the same, but for those that each tile has of its own."""
    own, others = vars(one), vars(other)
    return (
        type(one) is type(other)
        and own.keys() == others.keys()
        and all(own[name] is others[name] for name in own.keys() - _OWN - _BY_VALUE)
        and all(own[name] == others[name] for name in own.keys() & _BY_VALUE)
    )


def _moves_of_weights(one: NamedLinop, other: NamedLinop) -> tuple[Move, ...] | None:
    if not (
        isinstance(one, SliceableLinop)
        and isinstance(other, SliceableLinop)
        and one._is_stateless
        and type(one).weight_part is SliceableLinop.weight_part
        and type(one).forward is NamedLinop.forward
    ):
        return None
    if one is other:
        return ()
    if not (
        one._weights.keys() == other._weights.keys()
        and all(part.cut and not part.shifted for part in one._weights.values())
        and all(part.cut for part in other._weights.values())
        and _are_alike(one, other)
    ):
        return None
    found: list[Move] = []
    for name, part in one._weights.items():
        pairs = enumerate(zip(part.cut or (), other._weights[name].cut or (), strict=True))
        moved = [(axis, before, after) for axis, (before, after) in pairs if before != after]
        if not moved:
            found.append((name, None, 0))
            continue
        (axis, before, after), *more = moved
        length = before.stop - before.start
        if more or (after.start, after.stop) != (before.stop, before.stop + length):
            return None
        found.append((name, axis, length))
    return tuple(found)
