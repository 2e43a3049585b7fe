"""Convolution of a grid with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch import Tensor

from nameddim import ELLIPSES, ND, NamedDimension, NamedShape, get_nd_shape

from ._align import aligned
from ._correlate import correlated
from ._sliceable import SliceableLinop

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
        Dimensions before the grid, which can be sliced; any by default. The grid cannot.
    in_grid_shape, out_grid_shape : sequence of dimensions, optional
        Of the grid in the input, Nx, Ny, Nz by default, and in the output, the same names with
        an index that is free by default (Nx1, ...).
    padding_mode : {"zeros", "circular"}
        What the input is outside of the grid: zero, or the grid again.
    kernel_batch_shape : sequence of dimensions, optional
        Dimensions of the batch along which there is a kernel for each slice; none by default.
    method : {"auto", "direct", "fft"}
        How to compute it. "direct" sums products, with an error relative to those that are summed.
        "fft" multiplies spectra, with an error relative to the largest value of the input, which
        also carries an infinite value everywhere. "auto" takes the faster one for the size of the
        kernel: products for kernels of up to 256 bytes, on small grids, and in half precision.

    Raises
    ------
    ValueError
        If the kernel is empty or has not the dimensions said, padding_mode or method is none of
        those, or a dimension of the kernel's batch is not in the batch.

    Examples
    --------
    >>> import torch
    >>> A = Convolution(torch.tensor([1.0, 2.0, 3.0]))
    >>> A(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([1., 2., 3., 0.])
    >>> A.H(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([3., 2., 1., 0.])
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
    ) -> None:
        if padding_mode not in _PADDING:
            raise ValueError(
                f"Convolution: padding_mode must be one of {[*_PADDING]}, got {padding_mode!r}"
            )
        if method not in _METHODS:
            raise ValueError(f"Convolution: method must be one of {[*_METHODS]}, got {method!r}")
        kernel_batch = ND.infer(tuple(kernel_batch_shape))
        ndim = kernel.ndim - len(kernel_batch)
        if ndim not in (1, 2, 3) or not kernel.numel():
            raise ValueError(
                "Convolution: the kernel must have elements, and 1, 2 or 3 dimensions behind those "
                f"of its batch {kernel_batch}, got shape {tuple(kernel.shape)}"
            )
        batch = ND.infer(("...",) if batch_shape is None else tuple(batch_shape))
        for dim in kernel_batch:
            if dim not in batch or dim == ELLIPSES:
                raise ValueError(
                    f"Convolution: a dimension of the kernel's batch must be named in the batch "
                    f"{batch}, got {dim}"
                )
        here = ND.infer(tuple(get_nd_shape(ndim) if in_grid_shape is None else in_grid_shape))
        there = _others(here, batch) if out_grid_shape is None else ND.infer(tuple(out_grid_shape))
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

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return k * x: the correlation with the flipped kernel."""
        kernel = linop.aligned_kernel(x.ndim)
        axes = tuple(range(-linop.ndim, 0))
        before = [kernel.shape[axis] - 1 - kernel.shape[axis] // 2 for axis in axes]
        return linop.correlate(x, kernel.flip(axes), before)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the correlation of x with conj(k)."""
        kernel = linop.aligned_kernel(x.ndim)
        before = [kernel.shape[axis] // 2 for axis in range(-linop.ndim, 0)]
        return linop.correlate(x, kernel.conj().resolve_conj(), before)  # type: ignore[no-any-return]

    def correlate(self, x: Tensor, weight: Tensor, before: Sequence[int]) -> Tensor:
        """Return the correlation in the way that was asked for."""
        return correlated(x, weight, before, self.padding_mode == "circular", self.method)

    def aligned_kernel(self, ndim: int) -> Tensor:
        """Return a view of the kernel whose batch fits an input of ``ndim`` axes."""
        shapes = self.shape.other_shapes
        kernel = self.weight_part("kernel")
        if kernel.ndim == self.ndim:
            return kernel
        target = (*shapes["batch_shape"], *shapes["in_grid_shape"])
        return aligned(kernel, shapes["kernel_shape"], target, ndim)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the kernel's batch; the grid may have any."""
        return None if dim in self.shape.other_shapes["in_grid_shape"] else super().size(dim)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is of the grid, where neighbours are mixed."""
        shapes = self.shape.other_shapes
        if dim in shapes["in_grid_shape"] or dim in shapes["out_grid_shape"]:
            return "a convolution mixes neighbours on its grid"
        return None


def _others(
    names: tuple[NamedDimension, ...], batch: tuple[NamedDimension, ...]
) -> tuple[NamedDimension, ...]:
    """Return for each name the same with the first index that is free."""
    used = {*names, *batch}
    found: list[NamedDimension] = []
    for name in names:
        found.append(name.next_unused(used))
        used.add(found[-1])
    return tuple(found)
