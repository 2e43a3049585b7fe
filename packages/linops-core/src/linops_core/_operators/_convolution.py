"""Convolution of a grid with a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims, get_nd_shape

from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._roles import Role, why_on_both_sides
from .._base._sizes import is_size, per_axis
from .._base._sliceable import SliceableLinop
from .._base._unused_names import UnusedNames
from .._kernels._align import aligned
from .._kernels._correlate import correlated
from .._kernels._halo import Axis
from .._kernels._shift import Shift

Shape: TypeAlias = Sequence[NamedDimension | str]

_PADDING = ("zeros", "circular")
_METHODS = ("auto", "direct", "fft")


class Convolution(SliceableLinop):
    r"""Convolution with a kernel,

    .. math:: y_n = \sum_m k_m \, x_{n - m + c},

    with the kernel's centre c at index ``size // 2`` along each axis, so that a kernel that is 1
    at its centre is the identity. This is the convolution of mathematics: the kernel is flipped
    against the input, unlike in :func:`torch.nn.functional.conv2d`. The output has the size of the
    input.

    Parameters
    ----------
    kernel : Tensor
        Real or complex, of any size, also larger than the grid: first the dimensions of
        ``kernel_batch_shape``, then one, two or three along the grid.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid, which can be sliced; any by default.
    in_grid_shape, out_grid_shape : sequence of dimensions, optional
        Of the grid in the input, Nx, Ny, Nz by default, and in the output, the same names with
        an index that is free by default (Nx1, ...). With ``grid_size`` those that are in one of
        them alone can be sliced.
    padding_mode : {"zeros", "circular"}
        What the input is outside of the grid: zero, or the grid again.
    kernel_batch_shape : sequence of dimensions, optional
        Dimensions of the batch along which there is a kernel for each slice; none by default.
    method : {"auto", "direct", "fft"}
        How to compute it. "direct" sums products, with an error relative to those that are summed.
        "fft" multiplies spectra, with an error relative to the largest value of the input, which
        also carries an infinite value everywhere. "auto" takes the faster one for the size of the
        kernel: products for kernels of up to 256 bytes, on small grids, and in half precision.
    grid_size : sequence of int, optional
        Size of the grid, without which it may have any, and cannot be sliced: where a slice ends
        on a ring, and how long the other side is, follow from it.

    Raises
    ------
    TypeError
        If the kernel is no tensor, or ``grid_size`` no sequence.
    ValueError
        If the kernel is empty or has not the dimensions said, padding_mode or method is none of
        those, a dimension of the kernel's batch is not in the batch, or grid_size is not one
        positive number per dimension.

    Notes
    -----
    A tile of the output reads its slice of the input and the halo about it, a tile of the input
    writes as far as it reaches; :meth:`NamedLinop.support` says what that is. It is computed as a
    small convolution of just that, also by "fft". At the ends of a periodic grid the halo is at
    the other end, so that the support is all of it.

    Examples
    --------
    >>> import torch
    >>> A = Convolution(torch.tensor([1.0, 2.0, 3.0]))
    >>> A(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([1., 2., 3., 0.])
    >>> A.H(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([3., 2., 1., 0.])
    >>> A = Convolution(torch.ones(3), grid_size=[8])
    >>> A.split(A, {"Nx1": slice(4, 6)}).support("Nx")
    slice(3, 7, None)
    """

    kernel: Tensor

    def __init__(
        self,
        kernel: Tensor,
        batch_shape: Shape | None = None,
        in_grid_shape: Shape | None = None,
        out_grid_shape: Shape | None = None,
        padding_mode: str = "zeros",
        *,
        kernel_batch_shape: Shape = (),
        method: str = "auto",
        grid_size: Sequence[int] | None = None,
    ) -> None:
        if padding_mode not in _PADDING:
            raise ValueError(
                f"Convolution: padding_mode must be one of {[*_PADDING]}, got {padding_mode!r}"
            )
        if method not in _METHODS:
            raise ValueError(f"Convolution: method must be one of {[*_METHODS]}, got {method!r}")
        if not isinstance(kernel, Tensor):
            raise TypeError(f"Convolution: kernel must be a torch.Tensor, got {type(kernel)}")
        kernel_batch = as_dims(kernel_batch_shape)
        ndim = kernel.ndim - len(kernel_batch)
        if ndim not in (1, 2, 3) or not kernel.numel():
            raise ValueError(
                "Convolution: the kernel must have elements, and 1, 2 or 3 dimensions behind those "
                f"of its batch {kernel_batch}, got shape {tuple(kernel.shape)}"
            )
        batch = as_dims(("...",) if batch_shape is None else batch_shape)
        for dim in kernel_batch:
            if dim not in batch or dim == ELLIPSES:
                raise ValueError(
                    f"Convolution: a dimension of the kernel's batch must be named in the batch "
                    f"{batch}, got {dim}"
                )
        here = as_dims(get_nd_shape(ndim) if in_grid_shape is None else in_grid_shape)
        there = (
            UnusedNames({*here, *batch}).each(here)
            if out_grid_shape is None
            else as_dims(out_grid_shape)
        )
        if len(here) != ndim or len(there) != ndim:
            raise ValueError(
                f"Convolution: in_grid_shape and out_grid_shape must have {ndim} dimensions for a "
                f"kernel of shape {tuple(kernel.shape)}, got {here} and {there}"
            )
        shape = NamedShape(
            (*batch, *here),
            (*batch, *there),
            batch_shape=batch,
            in_grid_shape=here,
            out_grid_shape=there,
            kernel_shape=(*kernel_batch, *here),
        )
        super().__init__(shape)
        self.ndim, self.padding_mode, self.method = ndim, padding_mode, method
        self.register_weight("kernel", kernel, "kernel_shape")
        self.grid_size = (
            None if grid_size is None else per_axis("Convolution", "grid_size", grid_size)
        )
        self._check_grid_size()
        self._shifts = None if self.grid_size is None else _unmoved(self.grid_size)

    def _check_grid_size(self) -> None:
        if self.grid_size is None:
            return
        if len(self.grid_size) != self.ndim or not all(map(is_size, self.grid_size)):
            raise ValueError(
                f"Convolution: grid_size must have {self.ndim} positive numbers, "
                f"got {self.grid_size}"
            )
        sizes: dict[NamedDimension, int] = {}
        for grid in ("in_grid_shape", "out_grid_shape"):
            for dim, size in zip(self.shape.other_shapes[grid], self.grid_size, strict=True):
                if sizes.setdefault(dim, size) != size:
                    raise ValueError(
                        f"Convolution: a dimension must have one size in grid_size, got "
                        f"{sizes[dim]} and {size} for {dim} in {self.shape}"
                    )

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return k * x: the correlation with the flipped kernel."""
        kernel = linop.aligned_kernel(x.ndim).flip(tuple(range(-linop.ndim, 0)))
        return correlated(x, kernel, linop.axes(linop.shifts(x)), linop.method)

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the correlation of x with conj(k)."""
        kernel = linop.aligned_kernel(x.ndim).conj().resolve_conj()
        axes = [axis.reverse for axis in linop.axes(linop.shifts(x))]
        return correlated(x, kernel, axes, linop.method)

    def shifts(self, x: Tensor) -> tuple[Shift, ...]:
        """Return which part of the grid input and output are, for an input of either way."""
        return _unmoved(x.shape[x.ndim - self.ndim :]) if self._shifts is None else self._shifts

    def axes(self, shifts: Sequence[Shift]) -> list[Axis]:
        """Return the axes of the correlation with the flipped kernel."""
        taps = self.kernel.shape[self.kernel.ndim - self.ndim :]
        periods: Sequence[int | None] = [None] * self.ndim
        if self.padding_mode == "circular":
            periods = self.grid_size or [shift.n_input for shift in shifts]
        return [
            Axis(shift.n_input, shift.n_output, n, n - 1 - n // 2 + shift.offset, period)
            for shift, n, period in zip(shifts, taps, periods, strict=True)
        ]

    def aligned_kernel(self, ndim: int) -> Tensor:
        """Return a view of the kernel whose batch fits an input of ``ndim`` axes."""
        shapes = self.shape.other_shapes
        kernel = self.weight_part("kernel")
        if kernel.ndim == self.ndim:
            return kernel
        target = (*shapes["batch_shape"], *shapes["in_grid_shape"])
        return aligned(kernel, shapes["kernel_shape"], target, ndim)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``: in the kernel's batch, or of the grid where it is given."""
        here, there = self._grids()
        if dim not in (*here, *there):
            return super().size(dim)
        if self._shifts is None:
            return None
        if dim in here:
            return self._shifts[here.index(dim)].n_input
        return self._shifts[there.index(dim)].n_output

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is of a grid of which too little is known."""
        here, there = self._grids()
        if dim not in (*here, *there):
            return None
        if self._shifts is None:
            return "a slice of the grid has neighbours where its size says; give grid_size"
        return why_on_both_sides(self.shape, dim)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return what a tile reads or writes along the grid; see :meth:`NamedLinop.support`."""
        if self._shifts is None or self.role(dim) in (None, Role.OPAQUE):
            return None
        here, there = self._grids()
        axes = self.axes(self._shifts)
        if dim in here:
            return axes[here.index(dim)].read
        return axes[there.index(dim)].written if dim in there else None

    def _grids(self) -> tuple[tuple[NamedDimension, ...], tuple[NamedDimension, ...]]:
        shapes = self.shape.other_shapes
        return shapes["in_grid_shape"], shapes["out_grid_shape"]

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        here, there = linop._grids()
        of_grid = window.keys() & {*here, *there}
        # The axes of the kernel are called as the grid is, and are not cut with it.
        others = {dim: piece for dim, piece in window.items() if dim not in of_grid}
        piece = SliceableLinop.split(linop, others)
        if of_grid:
            piece = linked(piece)
            vars(piece)["_shifts"] = tuple(
                shift.cut(window.get(dim), window.get(other))
                for shift, dim, other in zip(linop._shifts, here, there, strict=True)
            )
        return piece

    adj_split = split


def _unmoved(sizes: Sequence[int]) -> tuple[Shift, ...]:
    """Return that input and output are the whole grid."""
    return tuple(Shift(axis - len(sizes), size, size, 0) for axis, size in enumerate(sizes))
