"""Zeros around the last dimensions, and the middle of them: pads and crops about the centre."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import NamedDimension, NamedShape, as_dims, get_nd_shape

from .._base._sizes import is_size, per_axis
from .._base._unused_names import UnusedNames
from .._kernels._shift import Shift
from ._placement import Placement

Dims = Sequence[NamedDimension | str]


class PadLast(Placement):
    r"""Zeros around the last dimensions, so that the centre stays the centre.

    With the centre of n elements at index :math:`\lfloor n / 2 \rfloor`, as that of a centred
    :class:`FFT`, it is :math:`y_j = x_{j - o}`, :math:`o = \lfloor m / 2 \rfloor - \lfloor n / 2
    \rfloor`, for a pad of n elements to m: a centred spectrum that is padded is that of the
    interpolated image. The adjoint is a :class:`Crop`, the normal operator the identity. ``Pad``
    is another name of this class.

    Parameters
    ----------
    pad_im_size : sequence of int
        Size of the grid in the output.
    im_size : sequence of int
        Size of the grid in the input.
    in_shape : sequence of dimensions, optional
        Of the grid in the input; Nx, Ny, Nz by default.
    out_shape : sequence of dimensions, optional
        Of the grid in the output. By default those of the input with the next index: Nx1, Ny1.
        Where a name stays though the size does not, the dimension cannot be sliced.
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
        sizes = grid_sizes("PadLast", im_size, pad_im_size)
        if any(padded < size for size, padded in sizes):
            raise ValueError(
                "PadLast: pad_im_size must be at least im_size in each dimension, "
                f"got {tuple(pad_im_size)} for {tuple(im_size)}"
            )
        shape = centred_shape("PadLast", len(sizes), in_shape, out_shape, batch_shape)
        super().__init__(shape, centred(sizes))


Pad = PadLast


class Crop(Placement):
    r"""The middle of the last dimensions; the adjoint of :class:`PadLast`.

    The centre of n elements is at index :math:`\lfloor n / 2 \rfloor`, as that of a centred
    :class:`FFT`, before and after. The result is a view. The normal operator multiplies with a
    mask.

    Parameters
    ----------
    crop_im_size : sequence of int
        Size of the grid in the output.
    im_size : sequence of int
        Size of the grid in the input.
    in_shape, out_shape, batch_shape : sequence of dimensions, optional
        As those of :class:`PadLast`.

    Raises
    ------
    TypeError
        If sizes are no sequence.
    ValueError
        If the sizes or the names do not go together, or the output is larger than the input.

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
        sizes = grid_sizes("Crop", im_size, crop_im_size)
        if any(cropped > size for size, cropped in sizes):
            raise ValueError(
                "Crop: crop_im_size must be at most im_size in each dimension, "
                f"got {tuple(crop_im_size)} for {tuple(im_size)}"
            )
        shape = centred_shape("Crop", len(sizes), in_shape, out_shape, batch_shape)
        super().__init__(shape, centred(sizes))


def grid_sizes(
    owner: str, of_input: Sequence[int], of_output: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (input size, output size) of each grid dimension.

    Raises
    ------
    TypeError
        If one of the two is no sequence.
    ValueError
        If there are none, not as many of the one as of the other, or one is no positive integer.
    """
    before, after = (per_axis(owner, "a size", sizes) for sizes in (of_input, of_output))
    if not before or len(before) != len(after) or not all(map(is_size, (*before, *after))):
        raise ValueError(
            f"{owner}: there must be as many sizes of the output as of the input, at least one, "
            f"all positive integers, got {after} for {before}"
        )
    return [(int(size), int(other)) for size, other in zip(before, after, strict=True)]


def centred_shape(
    owner: str,
    ndim: int,
    in_shape: Dims | None,
    out_shape: Dims | None,
    batch_shape: Dims | None,
) -> NamedShape:
    """Return the shape of an operator on the last ``ndim`` dimensions.

    Raises
    ------
    ValueError
        If there is not one named dimension for each.
    """
    batch = as_dims(("...",) if batch_shape is None else batch_shape)
    before = get_nd_shape(ndim) if in_shape is None else as_dims(in_shape)
    unused = UnusedNames({*batch, *before})
    after = unused.each(before) if out_shape is None else as_dims(out_shape)
    shape = NamedShape((*batch, *before), (*batch, *after), from_grid=before, to_grid=after)
    grids = (shape.other_shapes["from_grid"], shape.other_shapes["to_grid"])
    if any(len(grid) != ndim or not shape.dims >= set(grid) for grid in grids):
        raise ValueError(
            f"{owner}: in_shape and out_shape must be {ndim} named dimensions each for that many "
            f"sizes, got {shape}"
        )
    return shape


def centred(sizes: Sequence[tuple[int, int]]) -> list[Shift]:
    """Return how the last axes move when centre goes to centre."""
    return [
        Shift(i - len(sizes), before, after, after // 2 - before // 2)
        for i, (before, after) in enumerate(sizes)
    ]
