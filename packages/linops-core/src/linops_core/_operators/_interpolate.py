"""Interpolation of a grid at arbitrary points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import add, mul, or_
from typing import ClassVar

import torch
from torch import Tensor

from nameddim import ELLIPSES, AnyDim, as_dims, get_nd_shape

from .._base._linop import NamedLinop
from .._base._sizes import per_axis
from .._base._tile import Window
from .._kept import Kept
from .._kernels._changes import writes_are_counted
from .._kernels._interpolation._arguments import check_interpolation
from .._kernels._interpolation._gridding import NeighboursInSteps, row_combinations
from .._kernels._interpolation._table import InterpolationTable, Neighbours, nbytes_of_table
from .._kernels._interpolation._weights import KaiserBessel, Spline, interpolation_kernel
from .._kernels._plain import is_plain
from .._kernels._tracing import is_recorded
from ._grid_names import Dims, GridNames, checked_dims
from ._grid_operator import GridOperator, GridPart, numbered_letters

_ALL = slice(None)


class Interpolate(GridOperator[GridPart]):
    r"""The values of a grid at arbitrary points,

    .. math:: y_p = \sum_n K(2 (l_p - n) / w) \, x_n,

    with locations l in units of the grid spacing, a width w, and a kernel K that is zero at
    distances of half the width and more. The adjoint ("gridding") spreads values onto neighbouring
    grid points. The kernel is not normalised.

    =================  ======================================================  ==================
    kernel             K(t) for :math:`|t| < 1`                                kernel_params
    =================  ======================================================  ==================
    "kaiser_bessel"    :math:`I_0(\beta \sqrt{1 - t^2})`                       {"beta": number}
    "spline"           the B-spline of order q at :math:`t (q + 1) / 2`        {"order": 1, 2, 3}
    "linear"           :math:`1 - |t|`, the spline of order 1                  none
    =================  ======================================================  ==================

    For linear interpolation take "linear" with width 2. A spline of order q with width q + 1 has
    its knots on the grid, and its weights sum to one.

    Parameters
    ----------
    locs : Tensor
        Real, (..., D) for a grid of D dimensions, 1 to 3. Coordinate d of a point is along axis d;
        n is grid point n. The value at a location that is NaN is NaN. A Parameter stays a
        Parameter.
    grid_size : sequence of int
        D numbers.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. They can be sliced. Any dimensions by default.
    locs_batch_shape : sequence of dimensions, optional
        Dimensions of the points; K, K1, ... by default. They can be sliced. The first of them may
        be in ``batch_shape``, too (frames): then each frame has its own points, and the dimension
        stays at its place in the output.
    grid_shape : sequence of dimensions, optional
        Dimensions of the grid; Kx, Ky, Kz by default. They can be sliced, unless the points have
        them, too.
    width : float
        Width of the kernel along each axis, in units of the grid spacing.
    kernel : {"kaiser_bessel", "spline", "linear"}
    norm : {1, 2}
        1: the kernel is the product of K over the coordinates of the distance. 2: it is K of the
        Euclidean distance.
    pad_mode : {"circular", "zeros"}
        The grid is periodic, or zero outside.
    kernel_params : mapping, optional
        By default the order of a spline is 1, and beta fits an oversampling of 2. With
        ``"scaled": True`` the Kaiser-Bessel kernel is multiplied by :math:`e^{-\beta}`.
    scale : sequence of float, optional
        D factors for locations in other units.
    table_budget : int, optional
        Largest size of a table of weights in bytes; 2**28 by default, 0 to keep nothing.
    dims : sequence of dimensions, optional
        Dimensions of the grid, at any place, in the order of the coordinates; instead of the shapes
        above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: names of the points, as in ``locs_batch_shape``. If there is one name for
        each of ``dims``, it takes the place of that dimension. Otherwise all names are at the place
        of the first of ``dims``.

    Raises
    ------
    TypeError
        If the locations are not real numbers, or ``grid_size`` is not a sequence.
    ValueError
        If a parameter is out of range, or shapes do not fit each other.

    Notes
    -----
    The default beta, :math:`\pi \sqrt{9 w^2 / 16 - 0.8}`, is that of Beatty et al. for non-uniform
    Fourier transforms with an oversampling of 2, see ``linops_imaging.NUFFT``. The kernel is 0 at
    :math:`|t| = 1`; other programs use :math:`I_0(0) = 1` there.

    Gradients to the locations are the derivatives of the formula, with three exceptions. At the
    kinks of the spline of order 1, the gradient is the derivative towards larger coordinates. At
    the maximum of this spline with ``norm=2``, the gradient is 0. The Kaiser-Bessel kernel jumps at
    half the width away from a grid point; there the derivative leaves out this grid point.

    The input decides the dtype of the result, and the precision of the weights; for half precision
    and integers, that is single precision. Locations of any precision are used as they are, and
    gradients to them have their dtype. Weights of Kaiser-Bessel kernels beyond the range of single
    precision, up to :math:`I_0(\beta)^D`, are computed in double precision. Results beyond the
    range of their dtype are infinite or NaN: for float16, from a width of 4 in two dimensions on,
    unless the kernel is scaled.

    The first call makes a table of all neighbours. A, A.H and A.N then read it and are 3 to 15
    times as fast on a CPU. The table has :attr:`table_nbytes` bytes: 16 bytes in single precision
    and 24 in double precision for each of the :math:`\lceil w \rceil^D` neighbours of each point.
    If that exceeds the budget, less is kept, or nothing. The table is made anew when the locations
    are replaced, moved or written to. Torch does not count writes to ``tensor.data`` or through
    NumPy: with such writes, set ``table_budget=0``. Nothing is kept if locations require or have a
    gradient or were made in inference mode; on devices other than CPUs and CUDA (not tried on
    CUDA); and under compilers and transforms of ``torch.func``.

    Locations may lie anywhere, so each slice of the grid is evaluated at all points. If possible,
    slice along the points instead. Grid points outside of a slice contribute zero times a value of
    the slice. So if a value of the slice is not finite, all points may become NaN.

    References
    ----------
    P. J. Beatty, D. G. Nishimura and J. M. Pauly, "Rapid gridding reconstruction with a minimal
    oversampling ratio", IEEE Transactions on Medical Imaging 24 (2005).

    Examples
    --------
    >>> A = Interpolate(torch.tensor([[0.5], [2.25]]), [4], width=2, kernel="linear")
    >>> A(torch.tensor([0.0, 1.0, 2.0, 6.0]))
    tensor([0.5000, 3.0000])
    >>> A.H(torch.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000, 0.7500, 0.2500])
    """

    saved_with: ClassVar[tuple[type, ...]] = (KaiserBessel, Spline)

    locs: Tensor
    grid_keys = ("grid_shape", "points_shape")
    _is_axis_by_axis = False
    takes_any_batch = True

    def __init__(
        self,
        locs: Tensor,
        grid_size: Sequence[int],
        batch_shape: Dims | None = None,
        locs_batch_shape: Dims | None = None,
        grid_shape: Dims | None = None,
        width: float = 4.0,
        kernel: str = "kaiser_bessel",
        norm: int = 1,
        pad_mode: str = "circular",
        kernel_params: Mapping[str, float] | None = None,
        *,
        scale: Sequence[float] | None = None,
        table_budget: int | None = None,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        sizes = per_axis("Interpolate", "grid_size", grid_size)
        factors = (1.0,) * len(sizes) if scale is None else tuple(scale)
        budget = 2**28 if table_budget is None else table_budget
        check_interpolation(locs, sizes, width, norm, pad_mode, factors, budget)
        weigh = interpolation_kernel(kernel, width, kernel_params, len(sizes) if norm == 1 else 1)
        why = f"locations of shape {tuple(locs.shape)} on a grid of {sizes}"
        default = numbered_letters("K", locs.ndim - 1)
        given = locs_batch_shape if dims is None else to
        points = checked_dims("Interpolate", "locs_batch_shape", given, default, why)
        if dims is None:
            batch = as_dims((ELLIPSES,) if batch_shape is None else batch_shape)
        else:
            to, grid = None, as_dims(dims)
            batch = tuple([dim for dim in as_dims(shape or (ELLIPSES,)) if dim not in grid])
        frames = tuple([dim for dim in points if dim in batch])
        if points[: len(frames)] != frames:
            raise ValueError(
                "Interpolate: dimensions that are also in the batch must come first in the points, "
                f"got {points} with {frames} in the batch; permute the locations"
            )
        batch_dims = points[len(frames) :]
        of_grid = "grid_shape", grid_shape, get_nd_shape(len(sizes), kspace=True)
        of_result = "locs_batch_shape", None if dims is None else locs_batch_shape, batch_dims
        names = GridNames.of("Interpolate", (dims, shape, to), batch_shape, of_grid, of_result, why)
        of_locs = (*points, AnyDim(99).next_unused({*names.names, *points}))
        own_shape = names.shape(
            grid_shape=names.grid, points_shape=batch_dims, locs_shape=of_locs, frames=frames
        )
        super().__init__(own_shape, [GridPart(n, 0, n) for n in sizes], names.is_free)
        self.scale = factors
        self.grid_size, self.width, self.norm, self.pad_mode = sizes, width, norm, pad_mode
        self.kernel, self._weigh = kernel, weigh
        is_large = isinstance(weigh, KaiserBessel) and weigh.exponent > 80  # float32 ends at e^88
        self._least_dtype = torch.float64 if is_large else torch.float32
        self.table_budget = int(budget)
        self._table = Kept[Neighbours | InterpolationTable]()
        self.register_weight("locs", locs, "locs_shape", is_geometry=True)

    @staticmethod
    def fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the values of x at the points."""
        locs, x = linop.weight_part("locs"), linop.gathered(x)
        at, last = linop.frame_axes(x.ndim - len(linop.grid_size))
        x = x.movedim(at, last)
        batch = x.shape[: x.ndim - len(linop.grid_size) - len(last)]
        grids = x.reshape(math.prod(batch), linop.n_nodes(locs.shape))
        y = linop.interpolated(grids).reshape(batch + locs.shape[:-1])
        return linop.scattered(_narrowed(y, x).movedim(last, at))

    @staticmethod
    def adj_fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the grid with the values x of the points spread over it."""
        locs, x = linop.weight_part("locs"), linop.gathered_back(x)
        n_frame_axes = len(linop.shape.other_shapes["frames"])
        at, last = linop.frame_axes(x.ndim - (locs.ndim - 1 - n_frame_axes))
        x = x.movedim(at, last)
        batch = x.shape[: x.ndim - (locs.ndim - 1)]
        values = x.reshape(math.prod(batch), math.prod(locs.shape[:-1]))
        grid = _narrowed(linop.gridded(values), x)
        grid = grid.reshape(*batch, *locs.shape[:n_frame_axes], *linop.lengths)
        return linop.scattered_back(grid.movedim(last, at))

    def interpolated(self, grids: Tensor) -> Tensor:
        """Return the values of grids (B, n) at the points of all frames, (B, P)."""
        return self._sums_of(grids).interpolated(grids)

    def gridded(self, values: Tensor) -> Tensor:
        """Return the adjoint of ``interpolated`` applied to values (B, P): grids (B, n)."""
        return self._sums_of(values).gridded(values)

    def frame_axes(self, n_batch_axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes of frames in a batch of this number of axes, and the last axes."""
        batch, frames = (self.shape.other_shapes[key] for key in ("batch_shape", "frames"))
        beyond = n_batch_axes - len(batch)  # behind a run of dimensions axes count from the end
        positions = [batch.index(frame) for frame in frames]
        axes = tuple([at + (beyond if ELLIPSES in batch[:at] else 0) for at in positions])
        return axes, tuple(range(n_batch_axes - len(axes), n_batch_axes))

    def n_nodes(self, shape: torch.Size) -> int:
        """Return the number of grid points of all frames, for locations of this shape."""
        n_frames = shape[: len(self.shape.other_shapes["frames"])].numel()
        return n_frames * math.prod(self.lengths)

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table for values in single precision, 0 if there is none."""
        return self._nbytes_of_table(self._least_dtype)

    def _shape_of_locs(self) -> torch.Size:
        return self._weights["locs"].shape_of(self._weight("locs"))

    def _nbytes_of_table(self, dtype: torch.dtype) -> int:
        shape = self._shape_of_locs()
        n_points, n_weights = math.prod(shape[:-1]), math.ceil(self.width) ** shape[-1]
        nbytes = nbytes_of_table(n_points, n_weights, self.n_nodes(shape), dtype)
        return nbytes if self._is_kept(nbytes) else 0

    def _is_kept(self, nbytes: int) -> bool:
        weight = self._weight("locs")
        has_points = self._shape_of_locs().numel() > 0
        return has_points and nbytes <= self.table_budget and writes_are_counted(weight)

    def _sums_of(self, values: Tensor) -> Neighbours | InterpolationTable | NeighboursInSteps:
        """Return the table, the weights along each axis, or these computed now."""
        locs, part = self._weight("locs"), self.weight_part("locs")
        n_points, n_nodes = part.shape[:-1].numel(), self.n_nodes(part.shape)
        dtype = torch.promote_types(values.real.dtype, self._least_dtype)

        def neighbours(points: slice = _ALL) -> Neighbours:
            tables = self.neighbours(part, points, dtype)
            return Neighbours(*tables, n_nodes, self.lengths[-1])

        def in_steps() -> Neighbours | NeighboursInSteps:
            near, cells = partial(self.neighbours, part, dtype=dtype), partial(self._cells, part)
            steps = NeighboursInSteps(near, cells, part, n_points, n_nodes)
            is_long = len(steps.slices(len(values))) > 1 and part.is_cpu
            return steps if is_long and not is_recorded(part) else neighbours()

        def table() -> InterpolationTable:
            n_weights = math.ceil(self.width) ** len(self.grid_size)
            return InterpolationTable(neighbours, n_points, n_weights)

        if not is_plain(values, locs) or not values.numel():
            return neighbours()
        along_axes = part.numel() * math.ceil(self.width) * (torch.int64.itemsize + dtype.itemsize)
        make = table if self._nbytes_of_table(dtype) else neighbours
        if make is neighbours and (self.norm == 2 or not self._is_kept(along_axes)):
            return in_steps()
        return self._table.get_or_make([locs], dtype, make)

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the tile at each window, with a part of the budget and the table of its part."""
        tiles, whole = super()._tiles_at(windows), self._extent()
        for tile in tiles:
            if isinstance(tile, Interpolate) and (part := tile._extent()) < whole:
                budget = self.table_budget * part // whole
                table = self._table.related((*tile._weights["locs"].bounds, *tile._axes))
                vars(tile).update(table_budget=budget, _table=table)
        return tiles

    def _extent(self) -> int:
        return self._shape_of_locs().numel() * math.prod(self.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Size of the grid, or of the part of a tile."""
        return tuple([axis.stop - axis.start for axis in self._axes])

    def _cells(self, locs: Tensor, points: slice) -> Tensor:
        """Return the cells of some locations in the grids of all frames, for `dtype_of_sums`."""
        coordinates = locs.reshape(-1, locs.shape[-1])[points].double()
        strides = [*accumulate(self.lengths[:0:-1], mul, initial=1)][::-1]
        scaled = zip(coordinates.unbind(-1), self.scale, strides, strict=True)
        cells = [(at * scale).floor().long() * stride for at, scale, stride in scaled]
        return sum(cells, self._frames(locs, points) * math.prod(self.lengths))

    def _frames(self, locs: Tensor, points: slice) -> Tensor:
        """Return the number of the frame of each of some locations."""
        n_frame_axes = len(self.shape.other_shapes["frames"])
        numbers = torch.arange(math.prod(locs.shape[:-1]), device=locs.device)[points]
        return numbers // max(1, locs.shape[n_frame_axes:-1].numel())

    def neighbours(
        self, locs: Tensor, points: slice, dtype: torch.dtype
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return positions and weights of the neighbours of some locations, for `interpolated`."""
        radius = self.width / 2
        locs = locs.to(torch.promote_types(locs.dtype, torch.float32))
        reach = torch.arange(math.ceil(self.width), dtype=locs.dtype, device=locs.device)
        strides = [*accumulate(self.lengths[:0:-1], mul, initial=1)][::-1]
        coordinates = locs.reshape(-1, locs.shape[-1])[points].unbind(-1)
        axes = zip(coordinates, self.scale, self._axes, strides, strict=True)
        is_masked = self.pad_mode == "zeros" or self.lengths != self.grid_size
        positions, squares, outside = [], [], []
        offsets: list[Tensor | None] = []
        for at, scale, (size, start, stop), stride in axes:
            at = at if scale == 1 else at.double() * scale
            nodes = (at.detach() - radius).floor() + 1 + reach.unsqueeze(-1)
            indices = nodes.long() % size
            offset = (nodes - at).to(dtype) / radius  # the difference is exact
            squares.append(offset.square())
            offsets.append(offset)
            if is_masked:
                on_grid = nodes if self.pad_mode == "zeros" else indices
                outside.append((on_grid < start) | (on_grid >= stop))
            if (start, stop) != (0, size):  # neighbours outside have no weight, but need a position
                indices = (indices - start).clamp(0, stop - start - 1)
            positions.append(indices * stride)
        if self.shape.other_shapes["frames"]:  # one after the other in one long grid
            frame = self._frames(locs, points)
            positions[0] = positions[0] + frame * math.prod(self.lengths)
        if self.norm == 2:
            squares, offsets = [row_combinations(squares, add)], [None]
            outside = [row_combinations(outside, or_)] if is_masked else []
        weights = [self._weigh(*pair) for pair in zip(squares, offsets, strict=True)]
        if is_masked:
            pairs = zip(outside, weights, strict=True)
            weights = [torch.where(beyond, 0, weight) for beyond, weight in pairs]
        return positions, weights


def _narrowed(y: Tensor, x: Tensor) -> Tensor:
    """Return a result of x in the dtype of x, or in single precision for integers."""
    is_number = x.is_floating_point() or x.is_complex()
    return y.to(x.dtype if is_number else torch.promote_types(x.dtype, torch.float32))
