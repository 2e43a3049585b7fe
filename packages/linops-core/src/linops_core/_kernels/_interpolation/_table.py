"""A table of interpolation weights: a sparse matrix, by points and by grid points.

B batches, P points, n grid points, W neighbours of a point on all axes together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import add, mul
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .._accumulate import MANY
from .._linear_function import linear_function
from .._plain import is_plain, wait_for
from .._torch_state import FakeTensor
from ._gridding import gridded, interpolated, row_combinations

# Smallest number of bytes that are summed at each position: a cache line.
_LINE = 64
# Largest size in bytes of a copy with batches side by side.
_COPY = 2**23
# Weights that are computed or sorted at a time, so that the workspace fits the cache.
_STEP = 2**17


class Neighbours(NamedTuple):
    """Positions and weights of the neighbours of points, for `interpolated`.

    ``n`` is the number of grid points, ``n_last`` the number in a row. The last positions are
    within a row.
    """

    positions: Sequence[Tensor]
    weights: Sequence[Tensor]
    n: int
    n_last: int

    def interpolated(self, x_Bn: Tensor) -> Tensor:
        """Return the values at the points, (B, P)."""
        return interpolated(x_Bn, self.positions, self.weights)

    def gridded(self, y_BP: Tensor) -> Tensor:
        """Return the adjoint applied to values at the points: (B, n)."""
        return gridded(y_BP, self.n, self.positions, self.weights)


class SparseRows(NamedTuple):
    """A real sparse matrix by rows: columns and weights of all rows, and the start of each row.

    Long rows may be rows in ``pieces``.
    """

    columns: Tensor
    weights: Tensor
    begins: Tensor
    pieces: RowPieces | None = None

    def applied(self, x_BC: Tensor) -> Tensor:
        """Return the product with each batch of x: (B, rows)."""
        dtype = torch.promote_types(x_BC.dtype, self.weights.dtype)
        if not x_BC.is_contiguous() and x_BC.T.is_contiguous():  # a batch behind the grid
            return self._some(x_BC.to(dtype))
        n_rows = len(self.begins) - 1 if self.pieces is None else len(self.pieces.firsts)
        longest = max(x_BC.shape[1], n_rows)
        step = max(_LINE, _COPY // longest) // dtype.itemsize
        if len(x_BC) <= step:
            return self._some(x_BC.to(dtype)).contiguous()
        result = x_BC.new_empty(len(x_BC), n_rows, dtype=dtype)
        for some, part in zip(x_BC.split(step), result.split(step), strict=True):
            part.copy_(self._some(some.to(dtype)))
        return result

    def _some(self, x_BC: Tensor) -> Tensor:
        # Batches lie side by side. A single batch also needs a stride of 1, or torch is slow.
        x_CB = x_BC.T.flatten().unflatten(0, (-1, len(x_BC))).resolve_conj()
        y = self._sums(torch.view_as_real(x_CB).flatten(1) if x_CB.is_complex() else x_CB)
        return (torch.view_as_complex(y.unflatten(1, (-1, 2))) if x_CB.is_complex() else y).T

    def _sums(self, values: Tensor) -> Tensor:
        y = torch.nn.functional.embedding_bag(
            self.columns, values, self.begins, mode="sum", per_sample_weights=self.weights,
            include_last_offset=True,
        )  # fmt: skip
        if self.pieces is None:
            return y
        firsts, which, added = self.pieces
        sums, start = added._sums(y), 0
        for some in firsts.split(max(1, _COPY // (16 * y[0].nbytes))):
            # In place, because the first piece of a row is never before the row itself.
            y[start : start + len(some)] = y.index_select(0, some)
            start += len(some)
        return y[: len(firsts)].index_copy_(0, which, sums)

    def in_pieces(self) -> SparseRows:
        """Return the matrix with long rows in pieces, whose sums are added with less error."""
        n_pieces = self.begins.diff().sub_(1).div_(MANY, rounding_mode="floor").add_(1).clamp_(1)
        (which,) = (n_pieces > 1).nonzero(as_tuple=True)
        if not len(which):
            return self
        ends = n_pieces.cumsum(0)
        firsts, numbers = ends - n_pieces, torch.arange(int(ends[-1]), device=ends.device)
        at = (numbers - firsts.repeat_interleave(n_pieces)) * MANY
        begins = self.begins[:-1].repeat_interleave(n_pieces) + at.to(self.begins.dtype)
        nth = numbers[(n_pieces > 1).repeat_interleave(n_pieces)].to(self.columns.dtype)
        own_begins = pad(n_pieces[which].cumsum(0), (1, 0)).to(self.begins.dtype)
        added = SparseRows(nth, torch.ones_like(nth, dtype=self.weights.dtype), own_begins)
        return self._replace(
            begins=torch.cat([begins, self.begins[-1:]]),
            pieces=RowPieces(firsts.to(begins.dtype), which, added.in_pieces()),
        )


class RowPieces(NamedTuple):
    """The first piece of each row, and the sums of the rows with more pieces."""

    firsts: Tensor
    which: Tensor
    added: SparseRows


class InterpolationTable:
    """The matrix of the `Neighbours` of P points, and its transpose, which is made at first use.

    Parameters
    ----------
    neighbours : callable
        Returns the neighbours of a slice of the points.
    n_points, n_weights : int
        P, at least 1, and W.
    """

    def __init__(
        self, neighbours: Callable[[slice], Neighbours], n_points: int, n_weights: int
    ) -> None:
        step = max(1, _STEP // n_weights)
        for start in range(0, n_points, step):
            part = slice(start, min(start + step, n_points))
            positions, factors, n, n_last = neighbours(part)
            if not start:
                dtype = _integers(n_points * n_weights, n)
                columns = positions[0].new_empty(n_points, n_weights, dtype=dtype)
                weights = factors[0].new_empty(n_points, n_weights)
                self._n_run, self._n, self._n_last = len(positions[-1]), n, n_last
            columns[part] = row_combinations([table.to(dtype) for table in positions], add).T
            weights[part] = row_combinations(factors, mul).T
        begins = torch.arange(n_points + 1, dtype=dtype, device=columns.device) * n_weights
        self._n_weights = n_weights
        self._by_point = SparseRows(columns.flatten(), weights.flatten(), begins)
        self._by_node: SparseRows | None = None
        self._lock = Lock()

    def interpolated(self, x_Bn: Tensor) -> Tensor:
        """Return the values at the points, (B, P)."""
        return linear_function(self._interpolated, self._gridded, x_Bn)

    def gridded(self, y_BP: Tensor) -> Tensor:
        """Return the adjoint applied to values at the points: (B, n)."""
        return linear_function(self._gridded, self._interpolated, y_BP)

    def _interpolated(self, x: Tensor) -> Tensor:
        return self._by_point.applied(x) if is_plain(x) else self._neighbours().interpolated(x)

    def _gridded(self, y: Tensor) -> Tensor:
        if not is_plain(y):
            return self._neighbours().gridded(y)
        with self._lock:
            if self._by_node is None:
                self._by_node = self._transposed()
        return self._by_node.applied(y)

    def _neighbours(self) -> Neighbours:
        columns, weights = (part.reshape(-1, self._n_weights).T for part in self._by_point[:2])
        return Neighbours([columns.long()], [weights], self._n, self._n)

    def _transposed(self) -> SparseRows:
        columns, weights, begins, _ = self._by_point
        with torch.inference_mode(False), torch.no_grad():
            points, sorted_weights = torch.empty_like(columns), torch.empty_like(weights)
            ends = begins.new_zeros(self._n + 1)
            self._sort(points, sorted_weights)
            if isinstance(columns, FakeTensor):  # it has no values
                counts = begins.new_empty(self._n, dtype=torch.int64)
            else:
                counts = columns.bincount(minlength=self._n)
            torch.cumsum(counts, 0, out=ends[1:])
            rows = SparseRows(points, sorted_weights, ends)
            rows = rows if isinstance(columns, FakeTensor) else rows.in_pieces()
        wait_for(weights)
        return rows

    def _sort(self, points: Tensor, sorted_weights: Tensor) -> None:
        """Write points and weights in the order of the grid points, some rows at a time.

        A run of weights is within a row: first runs are sorted by blocks of rows, of which the
        weights fit the cache and the columns are short integers, and then each block by columns.
        Blocks have nearly as many weights, however the points are spread, and end with a row.
        """
        n_run, n_last = self._n_run, self._n_last
        columns, weights = (part.view(-1, n_run) for part in self._by_point[:2])
        n_rows = self._n // n_last
        n_blocks = min(n_rows, -(-columns.numel() // _STEP))
        rows, runs = (columns[:, 0] // n_last).sort(stable=True)
        cuts = [len(runs) * number // n_blocks for number in range(n_blocks + 1)]
        firsts = [n_rows * number // n_blocks for number in range(n_blocks)]
        if not isinstance(rows, FakeTensor):  # it has no values: as if points were spread evenly
            firsts = sorted({*rows[cuts[:-1]].tolist()})
            cuts[:-1] = torch.searchsorted(rows, rows.new_tensor(firsts)).tolist()
        for (first, last), (start, stop) in zip(
            pairwise([*firsts, n_rows]), pairwise(cuts), strict=True
        ):
            some, at = runs[start:stop], slice(start * n_run, stop * n_run)
            nodes = columns.index_select(0, some).flatten() - first * n_last
            dtype = torch.int16 if (last - first) * n_last <= 2**15 else columns.dtype
            order = nodes.to(dtype).argsort(stable=True)
            row = (some // (self._n_weights // n_run)).to(points.dtype).repeat_interleave(n_run)
            torch.index_select(row, 0, order, out=points[at])
            own_weights = weights.index_select(0, some).flatten()
            torch.index_select(own_weights, 0, order, out=sorted_weights[at])


def nbytes_of_table(n_points: int, n_weights: int, n: int, dtype: torch.dtype) -> int:
    """Return the bytes of an :class:`InterpolationTable` with its transposed matrix."""
    n_all = n_points * n_weights
    integer = _integers(n_all, n).itemsize
    return 2 * n_all * (integer + dtype.itemsize) + (n_points + n + 2) * integer


def _integers(n_all: int, n: int) -> torch.dtype:
    return torch.int32 if max(n_all, n) <= torch.iinfo(torch.int32).max else torch.int64
