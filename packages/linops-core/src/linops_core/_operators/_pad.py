"""Zero-padding and cropping."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._base._sizes import one_dimension, per_axis
from .._kernels._picked_axis import PickedAxis
from .._numbers import is_integer, is_size
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator, axis_names
from ._picks import Picking


class Centred(Picking):
    """The base of :class:`PadLast` and :class:`Crop`: the centre stays the centre."""

    def __init__(
        self,
        of_output: Sequence[int],
        of_input: Sequence[int],
        in_shape: Dims | None,
        out_shape: Dims | None,
        batch_shape: Dims | None,
        dims: Dims | None,
        shape: Dims | None,
        to: Dims | None,
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
        grid, out = ("in_shape", in_shape, axis_names("N", ndim)), ("out_shape", out_shape, None)
        why = f"the sizes {before}"
        names = GridNames.of(owner, (dims, shape, to), batch_shape, grid, out, why)
        own_shape = names.shape(from_grid=names.grid, to_grid=names.result)
        if not own_shape.dims >= {*names.grid, *names.result}:
            raise ValueError(f"{owner}: dimensions of the grid must have names, got {own_shape}")
        axes = [
            PickedAxis(int(n), int(m), int(n) // 2 - int(m) // 2)
            for n, m in zip(before, after, strict=True)
        ]
        GridOperator.__init__(self, own_shape, axes, names.is_free)


class PadLast(Centred):
    r"""Zeros around the last dimensions; the centre stays the centre.

    A pad of n elements to m is :math:`y_j = x_{j - o}`, :math:`o = \lfloor m / 2 \rfloor - \lfloor
    n / 2 \rfloor`. The centre is the same as in a centred :class:`FFT`: padding a centred spectrum
    interpolates the image. The adjoint is a :class:`Crop`, and the normal operator is the identity.
    ``Pad`` is another name of this class.

    Parameters
    ----------
    pad_im_size, im_size : sequence of int
        Sizes of the grid in the output and in the input.
    in_shape, out_shape : sequence of dimensions, optional
        Dimensions of the grid in the input, by default Nx, Ny, Nz, and in the output, by default
        the same with the next index: Nx1, Ny1. A dimension that keeps its name but not its size
        cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. They can be sliced. Any dimensions by default.
    dims : sequence of dimensions, optional
        Dimensions of the grid, at any place, in the order of the sizes; instead of the shapes
        above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: their names in the output. By default they keep their names and cannot be
        sliced.

    Raises
    ------
    TypeError
        If the sizes are not a sequence.
    ValueError
        If the sizes or the names do not fit each other, or the output is smaller than the input.

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
        *,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        names = in_shape, out_shape, batch_shape, dims, shape, to
        super().__init__(pad_im_size, im_size, *names)


Pad = PadLast


class Crop(Centred):
    r"""The middle of the last dimensions, as a view; the adjoint of :class:`PadLast`.

    The parameters are those of :class:`PadLast`. The output must not be larger than the input. The
    normal operator multiplies by a mask.

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
        *,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        names = in_shape, out_shape, batch_shape, dims, shape, to
        super().__init__(crop_im_size, im_size, *names)


class AtTheEnd(Picking):
    """The base of :class:`PadDim` and :class:`Truncate`: one dimension changes its length."""

    def __init__(
        self,
        dim: NamedDimension | str | int,
        from_length: int,
        to_length: int,
        ishape: Dims,
        oshape: Dims,
        *,
        before: int = 0,
    ) -> None:
        pads = isinstance(self, PadDim)
        owner = "PadDim" if pads else "Truncate"
        if not (is_size(from_length) and is_size(to_length)) or (
            from_length > to_length if pads else from_length < to_length
        ):
            raise ValueError(
                f"{owner}: lengths must be positive integers and to_length at "
                f"{'least' if pads else 'most'} from_length, got {from_length} to {to_length}"
            )
        inputs, outputs = as_dims(ishape), as_dims(oshape)
        if is_integer(dim):
            name = inputs[dim] if -len(inputs) <= dim < len(inputs) else None
        else:
            name = one_dimension(owner, "dim", dim)  # type: ignore[arg-type] # it is checked
        if name is None or name not in inputs or name == ELLIPSES:
            raise ValueError(
                f"{owner}: dim must be a named dimension of the input "
                f"({', '.join(map(str, inputs))}) or its position there, got {dim!r}"
            )
        position = inputs.index(name)
        changed = outputs[position : position + 1]
        shape = NamedShape(inputs, outputs, from_grid=(name,), to_grid=changed)
        if (*inputs[:position], *changed, *inputs[position + 1 :]) != outputs:
            raise ValueError(f"{owner}: oshape must equal ishape except for {name}, got {shape}")
        if not shape.dims >= {name, *changed}:
            raise ValueError(f"{owner}: the dimension must have a name on both sides, got {shape}")
        most = abs(to_length - from_length)
        if not is_integer(before, 0) or before > most:
            raise ValueError(
                f"{owner}: before must be an integer from 0 to {most}, as {from_length} become "
                f"{to_length}, got {before!r}"
            )
        first = -int(before) if pads else int(before)
        GridOperator.__init__(self, shape, [PickedAxis(int(from_length), int(to_length), first)])


class PadDim(AtTheEnd):
    r"""Zeros after (and before) the elements of one dimension; the adjoint of :class:`Truncate`.

    Parameters
    ----------
    dim : dimension or int
        Name of the dimension in the input, or its position in ``ishape``.
    from_length, to_length : int
        Size of the dimension in the input and in the output.
    ishape, oshape : sequence of dimensions
        Equal except for that dimension, which is at the same place and may have another name in the
        output. If it keeps its name, it cannot be sliced.
    before : int, optional
        Number of zeros before the first element (for Truncate: number of elements cut off there); 0
        by default.

    Raises
    ------
    ValueError
        If a length is not positive, to_length is below from_length (above it for Truncate), the
        dimension is not in the input, the shapes differ in another dimension, or ``before`` is
        larger than the difference of the lengths.

    Examples
    --------
    >>> import torch
    >>> A = PadDim("T", 2, 4, ("T",), ("T1",))
    >>> A(torch.tensor([1.0, 2.0]))
    tensor([1., 2., 0., 0.])
    >>> A.H(torch.arange(4.0))
    tensor([0., 1.])
    >>> PadDim("T", 2, 4, ("T",), ("T1",), before=1)(torch.tensor([1.0, 2.0]))
    tensor([0., 1., 2., 0.])
    """


class Truncate(AtTheEnd):
    r"""Consecutive elements of one dimension, as a view; the adjoint of :class:`PadDim`.

    The parameters are those of :class:`PadDim`. The normal operator sets the cut-off elements to
    zero.

    Examples
    --------
    >>> import torch
    >>> Truncate("T", 4, 2, ("T",), ("T1",))(torch.arange(4.0))
    tensor([0., 1.])
    """
