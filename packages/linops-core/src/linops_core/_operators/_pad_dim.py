"""Zeros behind the end of one dimension, and what is left when its end is cut off."""

from __future__ import annotations

from nameddim import NamedDimension, NamedShape, as_dims

from .._base._sides import axis_of
from .._base._sizes import is_size, one_dimension
from .._kernels._halo import Axis
from ._grid_operator import Dims
from ._placement import Placement


class AtTheEnd(Placement):
    """The base of :class:`PadDim` and :class:`Truncate`: one dimension ends elsewhere."""

    def __init__(
        self,
        dim: NamedDimension | str | int,
        from_length: int,
        to_length: int,
        ishape: Dims,
        oshape: Dims,
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
        if isinstance(dim, int):
            name = inputs[dim] if -len(inputs) <= dim < len(inputs) else None
        else:
            name = one_dimension(owner, "dim", dim)
        if name is None or name not in inputs or name == "...":
            raise ValueError(
                f"{owner}: dim must be a named dimension of the input "
                f"({', '.join(map(str, inputs))}) or its position there, got {dim!r}"
            )
        position = inputs.index(name)
        changed = outputs[position : position + 1]
        shape = NamedShape(inputs, outputs, from_grid=(name,), to_grid=changed)
        if (*inputs[:position], *changed, *inputs[position + 1 :]) != outputs:
            raise ValueError(f"{owner}: oshape must be ishape but for {name}, got {shape}")
        if not shape.dims >= {name, *changed}:
            raise ValueError(f"{owner}: the dimension must have a name on both sides, got {shape}")
        axis = Axis(int(from_length), int(to_length), 1, 0)
        super().__init__(shape, [axis], [axis_of(position, inputs)])


class PadDim(AtTheEnd):
    r"""Zeros behind the last element of one dimension; the adjoint of :class:`Truncate`.

    Parameters
    ----------
    dim : dimension or int
        Name of the dimension in the input, or its position in ``ishape``.
    from_length, to_length : int
        Its size in the input and in the output.
    ishape, oshape : sequence of dimensions
        The same but for that dimension, which is at the same place in both and may have another
        name in the output. Where the name stays, the dimension cannot be sliced.

    Raises
    ------
    ValueError
        If the lengths are not positive and rising (falling for Truncate), the dimension is not in
        the input, or the shapes differ in another one.

    Examples
    --------
    >>> import torch
    >>> A = PadDim("T", 2, 4, ("T",), ("T1",))
    >>> A(torch.tensor([1.0, 2.0]))
    tensor([1., 2., 0., 0.])
    >>> A.H(torch.arange(4.0))
    tensor([0., 1.])
    """


class Truncate(AtTheEnd):
    r"""The first elements of one dimension, as a view; the adjoint of :class:`PadDim`.

    The parameters are those of :class:`PadDim`. The normal operator multiplies what is cut off
    with zero.

    Examples
    --------
    >>> import torch
    >>> Truncate("T", 4, 2, ("T",), ("T1",))(torch.arange(4.0))
    tensor([0., 1.])
    """
