"""Zeros around the last dimensions, and the middle of them: pads and crops about the centre."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import as_dims, get_nd_shape

from .._base._sizes import is_size, per_axis
from .._base._unused_names import UnusedNames
from .._kernels._halo import Axis
from ._grid_operator import Dims, batched
from ._placement import Placement


class Centred(Placement):
    """The base of :class:`PadLast` and :class:`Crop`: the centre goes to the centre."""

    def __init__(
        self,
        of_output: Sequence[int],
        of_input: Sequence[int],
        in_shape: Dims | None,
        out_shape: Dims | None,
        batch_shape: Dims | None,
    ) -> None:
        pads = isinstance(self, PadLast)
        owner, argument = ("PadLast", "pad_im_size") if pads else ("Crop", "crop_im_size")
        before, after = (per_axis(owner, "a size", sizes) for sizes in (of_input, of_output))
        if not before or len(before) != len(after) or not all(map(is_size, (*before, *after))):
            raise ValueError(
                f"{owner}: there must be as many sizes of the output as of the input, at least "
                f"one, all positive integers, got {after} for {before}"
            )
        if any((n > m) if pads else (n < m) for n, m in zip(before, after, strict=True)):
            raise ValueError(
                f"{owner}: {argument} must be at {'least' if pads else 'most'} im_size in each "
                f"dimension, got {after} for {before}"
            )
        ndim = len(before)
        batch = as_dims(("...",) if batch_shape is None else batch_shape)
        here = get_nd_shape(ndim) if in_shape is None else as_dims(in_shape)
        unused = UnusedNames({*batch, *here})
        there = unused.each(here) if out_shape is None else as_dims(out_shape)
        shape = batched(batch, here, there, from_grid=here, to_grid=there)
        if any(len(grid) != ndim or not shape.dims >= set(grid) for grid in (here, there)):
            raise ValueError(
                f"{owner}: in_shape and out_shape must be {ndim} named dimensions each for that "
                f"many sizes, got {shape}"
            )
        axes = [
            Axis(int(n), int(m), 1, int(m) // 2 - int(n) // 2)
            for n, m in zip(before, after, strict=True)
        ]
        super().__init__(shape, axes, range(-ndim, 0))


class PadLast(Centred):
    r"""Zeros around the last dimensions, so that the centre stays the centre.

    With the centre of n elements at index :math:`\lfloor n / 2 \rfloor`, as that of a centred
    :class:`FFT`, it is :math:`y_j = x_{j - o}`, :math:`o = \lfloor m / 2 \rfloor - \lfloor n / 2
    \rfloor`, for a pad of n elements to m: a centred spectrum that is padded is that of the
    interpolated image. The adjoint is a :class:`Crop`, the normal operator the identity. ``Pad``
    is another name of this class.

    Parameters
    ----------
    pad_im_size, im_size : sequence of int
        Sizes of the grid in the output and in the input.
    in_shape, out_shape : sequence of dimensions, optional
        Of the grid in the input, Nx, Ny, Nz by default, and in the output, by default the same
        with the next index: Nx1, Ny1. Where a name stays though the size does not, the dimension
        cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid, which can be sliced; any by default.

    Raises
    ------
    TypeError
        If sizes are no sequence.
    ValueError
        If the sizes or the names do not go together, or the output is smaller than the input.

    Examples
    --------
    >>> import torch
    >>> A = PadLast([5], [2])
    >>> A(torch.tensor([1.0, 2.0]))
    tensor([0., 1., 2., 0., 0.])
    >>> A
    PadLast (..., Nx) -> (..., Nx1)
    """

    def __init__(
        self,
        pad_im_size: Sequence[int],
        im_size: Sequence[int],
        in_shape: Dims | None = None,
        out_shape: Dims | None = None,
        batch_shape: Dims | None = None,
    ) -> None:
        super().__init__(pad_im_size, im_size, in_shape, out_shape, batch_shape)


Pad = PadLast


class Crop(Centred):
    r"""The middle of the last dimensions, as a view; the adjoint of :class:`PadLast`.

    The parameters are those of :class:`PadLast`, but that the output must not be larger than the
    input. The normal operator multiplies with a mask.

    Examples
    --------
    >>> import torch
    >>> Crop([2], [5])(torch.arange(5.0))
    tensor([1., 2.])
    """

    def __init__(
        self,
        crop_im_size: Sequence[int],
        im_size: Sequence[int],
        in_shape: Dims | None = None,
        out_shape: Dims | None = None,
        batch_shape: Dims | None = None,
    ) -> None:
        super().__init__(crop_im_size, im_size, in_shape, out_shape, batch_shape)
