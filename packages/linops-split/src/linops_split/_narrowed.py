"""Tiles that read a part of their input, or write a part of their output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from linops_core import Composite, NamedLinop, Role, Side, SplitError, Window, Zero
from nameddim import ND, NamedDimension, NamedShape

from ._axes import axis_of


class Narrowed(Composite):
    r"""An operator that works on a part of its vectors, as the operator on all of them that it is.

    What it does not read does not matter, and what it does not write is zero. So a tile of a
    convolution, which reads its own slice of the grid and a halo around it, need not be handed the
    rest, and need not be on the device where the rest is.

    Parameters
    ----------
    part : NamedLinop
        Between the parts.
    windows : mapping of dimension to (slice, int)
        Of dimensions that are either in its input or in its output: what it reads or writes of
        them, and how long they are.
    """

    _is_side_by_side = True

    def __init__(
        self, part: NamedLinop, windows: Mapping[NamedDimension, tuple[slice, int]]
    ) -> None:
        super().__init__(part.shape, [part])
        self._windows = dict(windows)

    @property
    def part(self) -> NamedLinop:
        """The operator between what is read and what is written."""
        return self.linops[0]

    @property
    def full_sizes(self) -> dict[NamedDimension, int]:
        """How long the dimensions are of which it uses a part."""
        return {dim: size for dim, (_, size) in self._windows.items()}

    @property
    def reads(self) -> Window:
        """What it reads: a slice for each dimension of the input of which it does not read all."""
        return {dim: piece for dim, (piece, _) in self._windows.items() if dim in self.ishape}

    @property
    def writes(self) -> Window:
        """What it writes: a slice for each dimension of the output that is zero elsewhere."""
        return {dim: piece for dim, (piece, _) in self._windows.items() if dim in self.oshape}

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the length of a dimension of which the operator may use a part."""
        names = self.ishape if side == "input" else self.oshape
        window = self._windows.get(names[position])
        return None if window is None else window[1]

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return the positions that are one dimension in the part, and used alike."""
        windows = self._windows
        return [
            (here, there)
            for here, there in self.part.linked_positions()
            if windows.get(self.ishape[here]) == windows.get(self.oshape[there])
        ]

    def _check_sizes(self, shape: torch.Size) -> None:
        # The part sees no more than its own window of a dimension.
        NamedLinop._check_sizes(self, shape)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x: what the part returns for its part of x, with zeros around."""
        for dim, piece in linop.reads.items():
            x = x.narrow(axis_of(dim, linop.ishape), piece.start, piece.stop - piece.start)
        y: Tensor = linop.part(x)
        writes = linop.writes
        if not writes:
            return y
        shape, index = list(y.shape), [slice(None)] * y.ndim
        for dim, piece in writes.items():
            axis = axis_of(dim, linop.oshape)
            shape[axis], index[axis] = linop.size(dim), piece
        whole = y.new_zeros(shape)
        whole[tuple(index)] = y
        return whole

    adj_fn = fn  # the part of an adjoint is the adjoint, with the same windows

    def around(
        self, part: NamedLinop, names: Mapping[NamedDimension, NamedDimension] | None = None
    ) -> Narrowed:
        """Return the same windows around another part, in which dimensions may have new names."""
        other = self.with_operands([part], part.shape)
        windows = {(names or {}).get(dim, dim): window for dim, window in self._windows.items()}
        vars(other)["_windows"] = windows
        return other

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, which reads what this one writes."""
        return self.around(self.part.H)

    def conj(self) -> NamedLinop:
        """Return the conjugate, on the same parts."""
        return self.around(self.part.conj())

    def own_normal(self) -> NamedLinop:
        """Return the normal operator of the part, which reads and writes what this one reads."""
        normal = self.part.normal()
        windows = {}
        for here, there in zip(normal.ishape, normal.oshape, strict=True):
            if here in self._windows:
                windows[here] = windows[there] = self._windows[here]
        return Narrowed(normal, windows) if windows else normal

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        return self.around(self.part.renamed(names), names)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which is its own with wildcards replaced."""
        return self.around(self.part.resolved(ishape=shape.ishape, oshape=shape.oshape))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: as in the part."""
        return self.part.why_opaque(dim)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return what is used of ``dim``."""
        window = self._windows.get(ND.infer(dim))
        return None if window is None else window[0]

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the operator between slices; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        return linop._cut(dict(window)) if window else linop  # type: ignore[no-any-return]

    def _cut(self, window: dict[NamedDimension, slice]) -> NamedLinop:
        sizes = {dim: piece.stop - piece.start for dim, piece in window.items()}
        windows = dict(self._windows)
        inside = dict(window)
        for dim in window.keys() & windows.keys():
            piece, cut = windows.pop(dim)[0], window[dim]
            start, stop = max(piece.start, cut.start), min(piece.stop, cut.stop)
            if start >= stop:
                zero = _zero_like(self)
                if zero is None:
                    raise SplitError(
                        f"{self.signature}: {dim} cannot be cut at {cut}, where the operator is "
                        "zero: the size of each dimension that only the input or only the output "
                        f"has must be known, got input sizes {self.sizes('input')} and output "
                        f"sizes {self.sizes('output')}"
                    )
                return zero.split(zero, window)
            inside[dim] = slice(start - piece.start, stop - piece.start)
            if stop - start < cut.stop - cut.start:
                windows[dim] = slice(start - cut.start, stop - cut.start), sizes[dim]
        part = self.part
        part = part.split(part, inside)
        return Narrowed(part, windows) if windows else part


def narrowed(linop: NamedLinop) -> NamedLinop:
    """Return the operator, working on no more than it reads and writes, where it says what.

    Nor does it compute what is in between more of than is read: a convolution that is followed by a
    crop computes what is left by the crop.

    Raises
    ------
    SplitError
        If it cannot be cut there after all.
    """
    pieces, windows = dict[NamedDimension, slice](), dict[NamedDimension, tuple[slice, int]]()
    found = linop._supports(linop.dims - ({*linop.ishape} & {*linop.oshape}))
    for dim, piece in found.items():
        if piece is None or linop.role(dim) is Role.OPAQUE:
            continue
        size = linop.size(dim)
        if size is None:
            continue
        if piece.start >= piece.stop:
            zero = _zero_like(linop)
            return linop if zero is None else zero
        if piece.stop - piece.start < size:
            pieces[dim] = piece
            if dim in linop.shape.dims:
                windows[dim] = piece, size
    part = linop.split(linop, pieces) if pieces else linop
    return Narrowed(part, windows) if windows else part


def _zero_like(linop: NamedLinop) -> NamedLinop | None:
    """Return the operator that is zero between the same spaces.

    None where it or its adjoint cannot say how long what it returns is.
    """
    zero = Zero.like(linop)
    return zero if zero is not None and zero.is_complete else None
