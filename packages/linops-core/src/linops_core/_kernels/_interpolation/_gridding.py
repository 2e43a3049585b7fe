"""Weighted sums over neighbours on a grid (interpolation), and the adjoint (gridding).

B batches, P points, n grid points, W neighbours along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from operator import add, mul
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .._accumulate import dtype_of_sums, writing_is_safe
from .._alike import steps_that_differ
from .._linear_function import linear_function

Tables: TypeAlias = tuple[Sequence[Tensor], Sequence[Tensor]]
"""Positions and weights of the neighbours of some points."""

# Elements summed at a time on a CPU, so that a few such vectors fit the cache.
_STEP = 2**16


def interpolated(x_Bn: Tensor, positions: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    r"""Return :math:`y_{bp} = \sum_{ij..} u_{ip} v_{jp} \cdots x_{b,\, k_{ip} + l_{jp} + \cdots}`.

    Integer positions (W, P) of each axis add up to positions on the flattened grid. The weights
    are either (W, P) for each axis, which are multiplied, or one tensor (W W .., P).
    """
    if torch.compiler.is_compiling():  # one short expression, which a compiler fuses to one loop
        index, weight = row_combinations(positions, add), row_combinations(weights, mul)
        values = x_Bn.gather(-1, index.flatten().expand(x_Bn.shape[0], -1))
        return (values.reshape(-1, *index.shape) * weight).sum(1)
    return _sums(x_Bn, None, positions, weights)


def gridded(
    y_BP: Tensor, n_points: int, positions: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Return the adjoint of :func:`interpolated` applied to (B, P): a new tensor (B, n)."""
    if torch.compiler.is_compiling():
        index, weight = row_combinations(positions, add), row_combinations(weights, mul)
        values = (y_BP.unsqueeze(1) * weight).flatten(1)
        empty = values.new_zeros(y_BP.shape[0], n_points)
        return empty.scatter_add(-1, index.flatten().expand(values.shape), values)
    return _sums(y_BP, n_points, positions, weights)


def row_combinations(
    tables: Sequence[Tensor], combine: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return all combinations of one row of each table as rows, the last table fastest."""
    return reduce(lambda rows, table: combine(rows.unsqueeze(1), table).flatten(0, 1), tables)


def _sums(
    values: Tensor, n_points: int | None, positions: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Return the interpolation, or the gridding if the number of grid points is given."""
    result: Tensor = _Sums.apply(values, n_points, len(positions), *positions, *weights)  # type: ignore[no-untyped-call]
    return result


class _Sums(torch.autograd.Function):
    """`_sums`, with only its arguments kept for derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, n_points: int | None, n_axes: int, *tables: Tensor) -> Tensor:
        n_rows, step = _steps(values, tables[0].shape[1])
        batches, cut = values.split(n_rows), [table.split(step, 1) for table in tables]
        parts = [(part[:n_axes], part[n_axes:]) for part in zip(*cut, strict=True)]
        if n_points is None:
            rows = [_joined([_interpolate(x, *part) for part in parts], 1) for x in batches]
        else:
            dtype = torch.promote_types(values.dtype, tables[n_axes].dtype)
            sums = dtype
            if values.is_cpu:  # elsewhere it would wait for the device
                indices = (reduce(add, [table[0] for table in axes]) for axes, _ in parts)
                sums = dtype_of_sums(dtype, tables[0].shape[1], indices)
            tables_of = [partial(_given, part) for part in parts]
            rows = [_grid(y.split(step, 1), n_points, tables_of, sums).to(dtype) for y in batches]
        return _joined(rows, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, ctx.n_points, ctx.n_axes, *tables = inputs
        ctx.save_for_backward(values, *tables)
        ctx.save_for_forward(values, *tables)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, *tables = ctx.saved_tensors
        positions, weights = tables[: ctx.n_axes], tables[ctx.n_axes :]
        back = values.shape[-1] if ctx.n_points is None else None
        of_values = _sums(grad, back, positions, weights) if ctx.needs_input_grad[0] else None
        of_weights: Sequence[Tensor | None] = [None] * len(weights)
        if any(ctx.needs_input_grad[3 + ctx.n_axes :]):
            x, y = (values, grad) if ctx.n_points is None else (grad, values)
            of_weights = _gradients_to_weights(x, y, positions, weights)
        return of_values, None, None, *[None] * ctx.n_axes, *of_weights

    @staticmethod
    def jvp(ctx: Any, change: Tensor | None, *of_tables: Tensor | None) -> Tensor:
        values, *tables = ctx.saved_tensors
        positions, weights = tables[: ctx.n_axes], tables[ctx.n_axes :]
        terms = [] if change is None else [_sums(change, ctx.n_points, positions, weights)]
        for axis, of_axis in enumerate(of_tables[2 + ctx.n_axes :]):
            if of_axis is not None:
                changed = [*weights[:axis], of_axis, *weights[axis + 1 :]]
                terms.append(_sums(values, ctx.n_points, positions, changed))
        return reduce(add, terms)


def _interpolate(x: Tensor, positions: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    total: Tensor | None = None
    for index, weight in _neighbours(positions, weights):
        term = x.gather(-1, index.expand(x.shape[0], -1)) * weight
        total = term if total is None else total.add_(term)
    assert total is not None
    return total


def _given(tables: Tables) -> Tables:
    return tables


def _grid(
    parts: Sequence[Tensor],
    n_points: int,
    tables: Sequence[Callable[[], Tables]],
    dtype: torch.dtype,
) -> Tensor:
    """Return the gridding of points in ``parts``, (B, some of P) each, which are added in dtype."""
    grid = parts[0].new_zeros(parts[0].shape[0], n_points, dtype=dtype)
    may_write = writing_is_safe()
    steps = zip(parts, tables, strict=True)
    for part, make in steps_that_differ(grid, steps, lambda step: tuple(step[0].shape)):
        part = part.to(dtype)
        for index, weight in _neighbours(*make()):
            indices = index.expand(part.shape[0], -1)
            # Under vmap the zeros have no batch, but the first sum has.
            scatter = grid.scatter_add_ if may_write else grid.scatter_add
            grid, may_write = scatter(-1, indices, part * weight), True
    return grid


class NeighboursInSteps(NamedTuple):
    """Neighbours that each call computes for some points at a time.

    ``of`` returns positions and weights of a slice of the ``n_points`` points, and ``cells`` a
    number for each that is the same for points of one cell. ``n`` is the number of grid points.
    """

    of: Callable[[slice], Tables]
    cells: Callable[[slice], Tensor]
    locs: Tensor
    n_points: int
    n: int

    def interpolated(self, x_Bn: Tensor) -> Tensor:
        """Return the values at the points, (B, P)."""
        return linear_function(self._interpolated, self._gridded, x_Bn, self.locs)

    def gridded(self, y_BP: Tensor) -> Tensor:
        """Return the adjoint applied to values at the points: (B, n)."""
        return linear_function(self._gridded, self._interpolated, y_BP, self.locs)

    def slices(self, n_batches: int) -> list[slice]:
        """Return the points of each step."""
        step = max(1, _STEP // n_batches)
        starts = range(0, self.n_points, step)
        return [slice(start, min(start + step, self.n_points)) for start in starts]

    def _interpolated(self, x: Tensor) -> Tensor:
        def length(part: slice) -> int:
            return int(part.stop - part.start)

        y: Tensor | None = None
        for part in steps_that_differ(x, self.slices(len(x)), length):
            values = interpolated(x, *self.of(part))
            y = values.new_empty(len(x), self.n_points) if y is None else y
            y[:, part] = values
        assert y is not None
        return y

    def _gridded(self, y: Tensor) -> Tensor:
        dtype = torch.promote_types(y.dtype, self.of(slice(0, 1))[1][0].dtype)
        sums = dtype_of_sums(dtype, self.n_points, map(self.cells, self.slices(1)))
        rows = [y] if sums == dtype else y.split(1)  # fewer in memory in double precision
        return _joined([self._grid(some, sums).to(dtype) for some in rows], 0)

    def _grid(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        slices = self.slices(len(y))
        tables = [partial(self.of, part) for part in slices]
        return _grid([y[:, part] for part in slices], self.n, tables, dtype)


def _gradients_to_weights(
    x: Tensor, y: Tensor, positions: Sequence[Tensor], weights: Sequence[Tensor]
) -> list[Tensor]:
    r"""Return the gradient of :math:`\mathrm{Re} \langle y, A x \rangle` to each of the weights."""
    rows: list[list[Tensor | None]] = [[None] * len(table) for table in weights]
    choices = product(*(range(len(table)) for table in weights))
    for choice, index in zip(choices, _rows_combined(positions, add), strict=True):
        match = (y.conj() * x.gather(-1, index.expand(x.shape[0], -1))).real.sum(0)
        for axis, chosen in enumerate(choice):
            others = [weights[i][j] for i, j in enumerate(choice) if i != axis]
            term = reduce(mul, others, match)
            sum_so_far = rows[axis][chosen]
            rows[axis][chosen] = term if sum_so_far is None else sum_so_far + term
    return [torch.stack([row for row in table if row is not None]) for table in rows]


def _neighbours(
    positions: Sequence[Tensor], weights: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the positions (P) and the weights (P) of each neighbour of all points."""
    return zip(_rows_combined(positions, add), _rows_combined(weights, mul), strict=True)


def _rows_combined(
    tables: Sequence[Tensor], combine: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[Tensor]:
    """Yield all combinations of one row of each table, the last table fastest."""
    first, *others = tables
    for row in first.unbind():
        if not others:
            yield row
            continue
        yield from _rows_combined([combine(row, others[0]), *others[1:]], combine)


def _steps(x: Tensor, n_points: int) -> tuple[int, int]:
    """Return the numbers of batches and of points to compute at a time."""
    if not x.is_cpu or x.shape[0] * n_points <= _STEP:
        return max(1, x.shape[0]), max(1, n_points)
    step = min(n_points, _STEP)
    return max(1, _STEP // step), step


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), axis)
