"""The vectors of one side of an operator, and all that solvers need to know of them.

A tensor is a whole vector; or the part of one that this process has; or several parts side by side,
each of which may be cut over other processes; or many independent vectors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias, cast

import torch
from torch import Generator, Tensor

from linops_core import NamedLinop, Side
from linops_core.siblings import (
    SIDES,
    WHOLE,
    Totals,
    check_shares_pass,
    dims_of,
    host_numbers,
    named_axes,
    norm,
    squared_norm,
    totals_of,
    vdot,
)
from nameddim import NamedDimension

from ._checks import Operator, check_finite
from ._products import largest_part, safe_norms

Terms: TypeAlias = Sequence[tuple[Totals, Tensor]]
"""Numbers of the pieces of a vector, and how each is added up over processes."""
# Of a vector over processes: no process knows the number, but bounds must be the same on all.
_MOST_ENTRIES = 2**40


def summed_over_processes(*numbers: Terms) -> list[Tensor]:
    """Return the sums of terms of one shape over the processes, in one reduction."""
    sums: dict[int, Tensor] = {}
    of_parts: dict[Hashable, list[tuple[int, Tensor]]] = defaultdict(list)

    def note(at: int, number: Tensor) -> None:
        sums[at] = sums[at] + number if at in sums else number

    for at, terms in enumerate(numbers):
        for totals, number in terms:
            if totals.add is None:
                note(at, number)
            else:
                of_parts[totals.add].append((at, number))
    for add, members in of_parts.items():
        reals = [torch.view_as_real(one) if one.is_complex() else one for _, one in members]
        total = cast(Any, add)(torch.cat([real.flatten() for real in reals]))
        parts = total.split([real.numel() for real in reals])
        for (at, number), real, part in zip(members, reals, parts, strict=True):
            shaped = part.reshape(real.shape).to(real.dtype)
            # Not view_as_complex: a part may begin at an odd place.
            note(at, torch.complex(*shaped.unbind(-1)) if number.is_complex() else shaped)
    return [sums[at] for at in range(len(numbers))]


@dataclass(frozen=True)
class Space:
    """What a tensor is of a vector, with the inner products and norms of whole vectors.

    By default a tensor is one whole vector. It can also be the part that this process has, and then
    numbers are added up over the processes: :class:`OperatorPair` has such spaces. All of the
    processes must ask in the same order.
    """

    totals: Totals = WHOLE
    """How the numbers of the parts of a vector are added over processes."""
    cut: tuple[int, ...] | None = ()
    """Axes along which vectors are cut into parts, negative behind a ``...``; None if unknown."""
    systems: tuple[int, ...] = ()
    """Axes that number independent vectors, each with its own numbers; () for one vector."""
    has_complex_products: bool = True
    """Whether inner products are x^H z; else Re x^H z, for operators linear over the reals only."""
    blocks: tuple[Space, ...] = ()
    """The spaces of which flat vectors are a concatenation; () for none."""
    split: Callable[[Tensor], Sequence[Tensor]] | None = None
    """Returns the blocks of a flat vector."""

    @property
    def is_whole(self) -> bool:
        """Whether a tensor is all of a vector."""
        return self.totals.add is None and all([block.is_whole for block in self.blocks])

    def total(self, *numbers: Tensor) -> list[Tensor]:
        """Return numbers of whole vectors, given the numbers of the parts, in one reduction."""
        return summed_over_processes(*([(self.totals, number)] for number in numbers))

    def measured(
        self, pairs: Sequence[tuple[Tensor, Tensor]], vectors: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        """Return inner products of pairs and norms, in one reduction.

        There are no temporaries of the size of a vector.
        """
        if self.is_whole:
            products = [self._of_systems(vdot, *pair) for pair in pairs]
            norms = [self._of_systems(norm, x) for x in vectors]
        else:
            sums = summed_over_processes(
                *(terms(self, vdot, *pair) for pair in pairs),
                *(terms(self, squared_norm, vector) for vector in vectors),
            )
            products, squares = sums[: len(pairs)], sums[len(pairs) :]
            norms = [square.sqrt() for square in squares]
        if not self.has_complex_products:
            products = [product.real for product in products]
        return products + norms

    def _of_systems(self, function: Callable[..., Tensor], *vectors: Tensor) -> Tensor:
        shape = _scalars_shape(self.systems, vectors[0])
        return function(*vectors, self.systems).reshape(shape)

    def inner(self, x: Tensor, z: Tensor) -> Tensor:
        """Return x^H z of each vector."""
        return self.measured([(x, z)])[0]

    def norm(self, x: Tensor) -> Tensor:
        """Return the norm of each vector."""
        return self.measured([], [x])[0]

    def sum_of(self, function: Callable[..., Tensor], *vectors: Tensor) -> Tensor:
        """Return a number of whole vectors: the sum of those that a function finds of the parts."""
        return summed_over_processes(terms(self, function, *vectors))[0]

    def count(self, x: Tensor) -> int:
        """Return the number of entries of the whole vector."""
        if self.is_whole:
            return x.numel()

        def numel(piece: Tensor) -> Tensor:
            return torch.tensor(float(piece.numel()), dtype=torch.float64, device=piece.device)

        return round(self.sum_of(numel, x).item())

    def unit(self, *vectors: Tensor) -> Tensor:
        """Return a power of two for each below its largest entry; squares are safe in it.

        Real and imaginary parts count as entries. For vectors in parts, the sum of the largest
        entries of the parts takes the place of the largest entry. No value is read.
        """
        largest = reduce(torch.maximum, self._largest(*vectors))
        unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
        unit = unit.clamp(min=torch.finfo(unit.dtype).tiny)
        return torch.where(largest > 0, unit, 1.0)

    def unit_of(self, owner: str, *vectors: Tensor, is_output: bool = False) -> float:
        """Return the unit of one vector on the host; raise an error unless all are finite."""
        dtype = vectors[0].dtype
        numbers = [one.item() for one in self._largest(*vectors)]
        largest = max(check_finite(owner, one, dtype if is_output else None) for one in numbers)
        # The inverse must be in range as well, because some devices multiply by it.
        lowest = torch.finfo(dtype).tiny
        return min(max(2.0 ** (math.frexp(largest)[1] - 1), lowest), 1 / lowest) if largest else 1.0

    def _largest(self, *vectors: Tensor) -> list[Tensor]:
        if not self.is_whole:
            return summed_over_processes(*(terms(self, _largest, vector) for vector in vectors))
        return [_largest(x, self.systems) for x in vectors]

    def random_like(
        self, x: Tensor, generator: Generator | None = None, count: int | None = None
    ) -> Tensor:
        """Return normal numbers of the shape of x, or ``count`` rows of as many.

        Each part of a vector has different ones, and copies of the whole have the same.
        """
        if generator is not None or count is not None:
            return _random(x, generator or self.totals.generator(), count)
        drawn = [_random(piece, totals.generator()) for totals, piece in pieces_of(self, x)]
        return drawn[0] if len(drawn) == 1 else torch.cat([one.flatten() for one in drawn])


def pieces_of(space: Space, x: Tensor) -> list[tuple[Totals, Tensor]]:
    """Return the pieces of a vector that are reduced over different processes."""
    blocks = zip(space.blocks, space.split(x), strict=True) if space.split else ()
    return [piece for block, part in blocks for piece in pieces_of(block, part)] or [
        (space.totals, x)
    ]


def terms(space: Space, function: Callable[..., Tensor], *vectors: Tensor) -> Terms:
    """Return numbers of each piece of vectors, or of whole ones."""
    if space.is_whole:
        return [(WHOLE, function(*vectors))]
    pieces = zip(*(pieces_of(space, vector) for vector in vectors), strict=True)
    return [(each[0][0], function(*(tensor for _, tensor in each))) for each in pieces]


def bounds(space: Space, x: Tensor) -> tuple[float, float]:
    """Return the range of norms whose squares neither overflow nor vanish; all parts agree."""
    return safe_norms(x.dtype, x.numel() if space.is_whole else _MOST_ENTRIES)


def _scalars_shape(systems: tuple[int, ...], x: Tensor) -> list[int]:
    """Return the shape of one number for each vector, which broadcasts to x."""
    if not set(systems) <= set(range(x.ndim)):
        raise ValueError(
            f"Space: systems must be axes of the vectors, counted from 0, got {systems} for shape "
            f"{tuple(x.shape)}"
        )
    shape = [size if axis in systems else 1 for axis, size in enumerate(x.shape)]
    return shape if systems else []


def _random(x: Tensor, generator: Generator, count: int | None = None) -> Tensor:
    shape = x.shape if count is None else (count, x.numel())
    # Drawn on the CPU, so that a seed gives the same numbers on all devices.
    return torch.randn(shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def _real_vdot(x: Tensor, z: Tensor) -> Tensor:
    return vdot(x, z).real


def _largest(x: Tensor, systems: tuple[int, ...] = ()) -> Tensor:
    shape = _scalars_shape(systems, x)
    if not x.numel():
        return x.detach().abs().new_zeros(shape)
    others = [axis for axis in range(x.ndim) if axis not in systems] if systems else None
    return largest_part(x, others, keepdim=others is not None)


def norms_of(
    owner: str,
    *groups: tuple[Space, Sequence[Tensor]],
    products: Sequence[tuple[Space, Tensor, Tensor]] = (),
) -> list[float]:
    """Return the norms of vectors, safe at any scale, and Re x^H z of pairs.

    One reduction, and one wait for the device.
    """
    vectors = [(space, vector.detach()) for space, group in groups for vector in group]
    squares = [
        terms(space, norm if space.is_whole else squared_norm, vector) for space, vector in vectors
    ]
    pairs = [terms(space, _real_vdot, x.detach(), z.detach()) for space, x, z in products]
    numbers = summed_over_processes(*squares, *pairs)
    values: list[float] = host_numbers(*numbers)
    for at, (space, vector) in enumerate(vectors):
        if not space.is_whole:
            values[at] = math.sqrt(values[at])
        lowest, highest = bounds(space, vector)
        if not lowest < values[at] < highest:
            unit = space.unit_of(owner, vector)
            if unit != 1:  # 1 is the unit of zeros, whose norm is right already
                values[at] = unit * float(space.norm(vector / unit).item())
    return values


def spaces_of(owner: str, A: Operator, input_space: Space | None = None) -> tuple[Space, Space]:
    """Return the spaces of the input and of the output of an operator.

    If ``input_space`` is given, vectors of the input are also in that space. Then an operator of
    one process is applied to the parts.
    """
    of_sides = [totals_of(A, side) for side in SIDES] if isinstance(A, NamedLinop) else [None, None]
    if isinstance(A, NamedLinop) and of_sides != [None, None]:
        of_input, of_output = (
            Space(totals, _axes(A, side, totals.cut)) if totals is not None else Space()
            for side, totals in zip(SIDES, of_sides, strict=True)
        )
        given = input_space or of_input
        if (given.totals.add, given.cut) != (of_input.totals.add, of_input.cut):
            raise NotImplementedError(
                f"{owner}: all operators must have the same parts of x, got {A.signature} with "
                "other parts; place the dimensions of the input in the same way for all operators"
            )
        return of_input, of_output
    if input_space is None or input_space.is_whole:
        return Space(), Space()
    if not isinstance(A, NamedLinop):
        raise NotImplementedError(
            f"{owner}: an operator must be a NamedLinop if x is cut over several processes, got "
            f"{A!r}"
        )
    check_shares_pass(A, input_space.totals)
    return input_space, Space(input_space.totals, _axes(A, "output", input_space.totals.cut))


def common_input(owner: str, operators: Iterable[Operator]) -> Space:
    """Return the space of the input that several operators share."""
    for A in operators:
        if isinstance(A, NamedLinop) and totals_of(A, "input") is not None:
            return spaces_of(owner, A)[0]
    return Space()


def _axes(A: NamedLinop, side: Side, cut: Iterable[NamedDimension]) -> tuple[int, ...] | None:
    """Return the axes of dimensions; None if they may be within a ``...``."""
    axis_of = {dim: axis for axis, dim in named_axes(dims_of(A.shape, side))}
    axes = [axis_of.get(dim) for dim in cut]
    return None if None in axes else tuple(sorted(axis for axis in axes if axis is not None))
