"""Zeros behind the end of one dimension, and what is left when its end is cut off."""

from __future__ import annotations

from nameddim import NamedDimension, NamedShape, as_dims

from .._base._sides import named_axes
from .._base._sizes import is_size, one_dimension
from .._kernels._shift import Shift
from ._grid_operator import Dims
from ._placement import Placement


class PadDim(Placement):
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
        If the lengths are not positive and rising, the dimension is not in the input, or the
        shapes differ in another one.

    Examples
    --------
    >>> import torch
    >>> A = PadDim("T", 2, 4, ("T",), ("T1",))
    >>> A(torch.tensor([1.0, 2.0]))
    tensor([1., 2., 0., 0.])
    >>> A.H(torch.arange(4.0))
    tensor([0., 1.])
    """

    def __init__(
        self,
        dim: NamedDimension | str | int,
        from_length: int,
        to_length: int,
        ishape: Dims,
        oshape: Dims,
    ) -> None:
        super().__init__(*at_the_end("PadDim", dim, from_length, to_length, ishape, oshape))


class Truncate(Placement):
    r"""The first elements of one dimension, as a view; the adjoint of :class:`PadDim`.

    The normal operator multiplies the others with zero.

    Parameters
    ----------
    dim : dimension or int
        Name of the dimension in the input, or its position in ``ishape``.
    from_length, to_length : int
        Its size in the input and in the output.
    ishape, oshape : sequence of dimensions
        As those of :class:`PadDim`.

    Raises
    ------
    ValueError
        If the lengths are not positive and falling, the dimension is not in the input, or the
        shapes differ in another one.

    Examples
    --------
    >>> import torch
    >>> Truncate("T", 4, 2, ("T",), ("T1",))(torch.arange(4.0))
    tensor([0., 1.])
    """

    def __init__(
        self,
        dim: NamedDimension | str | int,
        from_length: int,
        to_length: int,
        ishape: Dims,
        oshape: Dims,
    ) -> None:
        super().__init__(*at_the_end("Truncate", dim, from_length, to_length, ishape, oshape))


def at_the_end(
    owner: str,
    dim: NamedDimension | str | int,
    from_length: int,
    to_length: int,
    ishape: Dims,
    oshape: Dims,
) -> tuple[NamedShape, list[Shift]]:
    """Return the shape, and how the one axis changes whose elements stay where they are."""
    pads = owner == "PadDim"
    if not (is_size(from_length) and is_size(to_length)) or (
        from_length > to_length if pads else from_length < to_length
    ):
        raise ValueError(
            f"{owner}: lengths must be positive integers and to_length at "
            f"{'least' if pads else 'most'} from_length, got {from_length} to {to_length}"
        )
    inputs, outputs = as_dims(ishape), as_dims(oshape)
    axes = {own: axis for axis, own in named_axes(inputs)}
    if isinstance(dim, int):
        within = -len(inputs) <= dim < len(inputs)
        name = inputs[dim] if within else dim
    else:
        name = one_dimension(owner, "dim", dim)
    if name not in axes:
        raise ValueError(
            f"{owner}: dim must be a named dimension of the input ({', '.join(map(str, inputs))}) "
            f"or its position there, got {dim!r}"
        )
    position = inputs.index(name)
    changed = outputs[position : position + 1]
    if (*inputs[:position], *changed, *inputs[position + 1 :]) != outputs:
        raise ValueError(
            f"{owner}: oshape must be ishape but for {name}, got "
            f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})"
        )
    shape = NamedShape(inputs, outputs, from_grid=(name,), to_grid=changed)
    if not shape.dims >= {name, *changed}:
        raise ValueError(f"{owner}: the dimension must have a name on both sides, got {shape}")
    return shape, [Shift(axes[inputs[position]], int(from_length), int(to_length), 0)]
