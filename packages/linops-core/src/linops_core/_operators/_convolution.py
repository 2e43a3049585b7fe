"""Convolution of a grid with a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._sizes import is_size, per_axis
from .._base._unused_names import UnusedNames
from .._kernels._contraction import Axes, axes_along, letters_of
from .._kernels._correlate import correlated
from .._kernels._halo import Axis
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator, axis_names, checked_dims

_PADDING = ("zeros", "circular")
_METHODS = ("auto", "direct", "fft")


class Convolution(GridOperator[Axis]):
    r"""Convolution with a kernel,

    .. math:: y_n = \sum_m k_m \, x_{n - m + c},

    with the kernel's centre c at index ``size // 2`` along each axis, so that a kernel that is 1
    at its centre is the identity. This is the convolution of mathematics: the kernel is flipped
    against the input, unlike in :func:`torch.nn.functional.conv2d`. The output has the size of the
    input.

    Parameters
    ----------
    kernel : Tensor
        Real or complex, of any size: first the dimensions of ``kernel_batch_shape``, then one, two
        or three along the grid.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid, which can be sliced; any by default.
    in_grid_shape, out_grid_shape : sequence of dimensions, optional
        Of the grid in the input, Nx, Ny, Nz by default, and in the output, the same with the next
        index by default (Nx1, ...). With ``grid_size`` those of one side alone can be sliced.
    padding_mode : {"zeros", "circular"}
        What the input is outside of the grid: zero, or the grid again.
    kernel_batch_shape : sequence of dimensions, optional
        Dimensions of the batch along which there is a kernel for each slice; none by default.
    method : {"auto", "direct", "fft"}
        How to compute it. "direct" sums products, with an error relative to those that are summed.
        "fft" multiplies spectra, with an error relative to the largest value of the input, and
        carries an infinite value everywhere. "auto" sums products for kernels of up to 256 bytes,
        on small grids, and in half precision.
    grid_size : sequence of int, optional
        Size of the grid. Without it the grid may have any size, and cannot be sliced.
    dims : sequence of dimensions, optional
        The grid, wherever it stands, in the order of the kernel's axes; in the place of the shapes
        above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in their order; by default ``("...", *dims)``,
        or what a neighbour in a composition returns.
    to : sequence of dimensions, optional
        With ``dims``: what they are called in the output; by default they keep their names, and
        cannot be sliced.

    Raises
    ------
    TypeError
        If the kernel is no tensor, or ``grid_size`` no sequence.
    ValueError
        If an argument is not as said, or a dimension of the kernel's batch is not in the batch.

    Notes
    -----
    A tile of the output reads its slice of the input and the halo about it, a tile of the input
    writes as far as it reaches, see :meth:`NamedLinop.support`. At the ends of a periodic grid
    the halo is at the other end, so that the support is all of it.

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
    _grids = ("in_grid_shape", "out_grid_shape")
    _takes_any_batch = True

    def __init__(
        self,
        kernel: Tensor,
        batch_shape: Dims | None = None,
        in_grid_shape: Dims | None = None,
        out_grid_shape: Dims | None = None,
        padding_mode: str = "zeros",
        *,
        kernel_batch_shape: Dims = (),
        method: str = "auto",
        grid_size: Sequence[int] | None = None,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
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
        positional = {
            "batch_shape": batch_shape,
            "in_grid_shape": in_grid_shape,
            "out_grid_shape": out_grid_shape,
        }
        names = GridNames.given("Convolution", dims, shape, to, n_dims=ndim, instead=positional)
        if names is None:
            why = f"a kernel of shape {tuple(kernel.shape)}"
            default = axis_names("N", ndim)
            here = checked_dims("Convolution", "in_grid_shape", in_grid_shape, default, why)
            batch = as_dims((ELLIPSES,) if batch_shape is None else batch_shape)
            default = UnusedNames({*here, *batch}).each(here)
            there = checked_dims("Convolution", "out_grid_shape", out_grid_shape, default, why)
            names = GridNames.last(batch, here, there)
        if not set(kernel_batch) <= set(names.batch) - {ELLIPSES}:
            raise ValueError(
                f"Convolution: a dimension of the kernel's batch must be named in the batch "
                f"{names.batch}, got {kernel_batch}"
            )
        of_kernel = (*kernel_batch, *names.grid)
        own = names.shape(
            in_grid_shape=names.grid, out_grid_shape=names.result, kernel_shape=of_kernel
        )
        super().__init__(own, (), names.is_free)
        self.ndim, self.padding_mode, self.method = ndim, padding_mode, method
        self.grid_size = None
        if grid_size is not None:
            self.grid_size = per_axis("Convolution", "grid_size", grid_size)
            if len(self.grid_size) != ndim or not all(map(is_size, self.grid_size)):
                raise ValueError(
                    f"Convolution: grid_size must have {ndim} positive numbers, got "
                    f"{self.grid_size}"
                )
            self._axes = self._whole(self.grid_size)
        self.register_weight("kernel", kernel, "kernel_shape")
        self._alignment = self._alignment_in(own)

    @staticmethod
    def fn(linop: Convolution, x: Tensor, /) -> Tensor:
        """Return k * x: the correlation with the flipped kernel."""
        x, kernel = linop.gathered(x), linop.aligned_kernel(x.ndim)
        flipped = kernel.flip(tuple(range(-linop.ndim, 0)))
        return linop.scattered(correlated(x, flipped, linop.axes_for(x), linop.method))

    @staticmethod
    def adj_fn(linop: Convolution, x: Tensor, /) -> Tensor:
        """Return the correlation of x with conj(k)."""
        x, kernel = linop.gathered_back(x), linop.aligned_kernel(x.ndim).conj().resolve_conj()
        axes = [axis.reverse for axis in linop.axes_for(x)]
        return linop.scattered_back(correlated(x, kernel, axes, linop.method))

    def axes_for(self, x: Tensor) -> Sequence[Axis]:
        """Return the axes for an input of either way and the kernel as it is now.

        Those in ``_axes`` are of a kernel of one element.
        """
        own = self._axes or self._whole(x.shape[x.ndim - self.ndim :])
        sizes = self.kernel.shape[self.kernel.ndim - self.ndim :]
        return [
            Axis(n_input, n_output, n, n - 1 - n // 2 + offset, period)
            for (n_input, n_output, _, offset, period), n in zip(own, sizes, strict=True)
        ]

    @property
    def axes(self) -> Sequence[Axis]:
        """The axes of the correlation with the flipped kernel; empty where the grid may be any."""
        return self.axes_for(self.kernel) if self._axes else ()

    def _whole(self, sizes: Sequence[int]) -> tuple[Axis, ...]:
        is_ring = self.padding_mode == "circular"
        return tuple([Axis(size, size, 1, 0, size if is_ring else None) for size in sizes])

    def aligned_kernel(self, ndim: int) -> Tensor:
        """Return a view of the kernel whose batch fits an input of ``ndim`` axes."""
        kernel = self.weight_part("kernel")
        return kernel if kernel.ndim == self.ndim else self._alignment.view(kernel, ndim)

    def _alignment_in(self, shape: NamedShape) -> Axes:
        """Return how the axes of the kernel lie along those of an input with its grid last."""
        names = shape.other_shapes
        along = (*names["batch_shape"], *names["in_grid_shape"])
        return axes_along(*letters_of(names["kernel_shape"], along))

    def _fitted_with(self, shape: NamedShape) -> NamedLinop | None:
        names = shape.other_shapes
        if not {*names["kernel_shape"]} <= {*names["batch_shape"], *names["in_grid_shape"]}:
            return None
        fitted = super()._fitted_with(shape)
        return fitted and linked(fitted, None, _alignment=self._alignment_in(shape))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is of a grid of which too little is known."""
        if not self._axes and any(dim in dims for dims in self.axis_dims):
            return "a slice of the grid has neighbours where its size says; give grid_size"
        return super().why_opaque(dim)
