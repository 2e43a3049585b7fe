"""Multiplication by a tensor and summation over some of its dimensions."""

from __future__ import annotations

from typing import ClassVar, Self

from torch import Tensor

from nameddim import ELLIPSES, Dim, NamedDimension, NamedShape, as_dims

from .._algebra._slice_by_slice import gains_by_slices
from .._base._copying import linked_copy
from .._base._linop import NamedLinop
from .._base._sliceable import SliceableLinop
from .._kernels._contraction import Axes, Contraction, letters_of
from ._grid_names import Dims


class Dense(SliceableLinop):
    r"""Multiplication by a weight, and a sum over the dimensions that only the input has.

    In index notation it is :math:`y_{bo} = \sum_i w_{bio} x_{bi}`. Dimensions in input and output
    are batch dimensions, those only in the output are rows, those only in the input are columns.
    Matrices are Dense, and so are coil maps of MRI: a weight ``("C", "Nx", "Ny")`` from ``("Nx",
    "Ny")`` to ``("C", "Nx", "Ny")``. All dimensions can be sliced.

    Parameters
    ----------
    weight : Tensor
        Real or complex. It is not copied, unless it is a lazy conjugate, ``w.conj()``; a Parameter
        stays a Parameter.
    weightshape : sequence of dimensions, optional
        Dimensions of the weight. By default ``("M", "N")`` for a matrix, ``("B", "M", "N")`` for a
        batch of matrices, ``("B", "B1", "M", "N")`` for two batch dimensions, and so on.
    ishape, oshape : sequences of dimensions, optional
        By default the input has the last dimension of the weight and the output has the others. The
        default batch dimensions ``B``, ``B1``, ... are in both. The weight is broadcast along a
        ``...``, and along dimensions of both shapes that it does not have.
    broadcast_dims : sequence of dimensions, optional
        Dimensions of input and output in which the weight has size 1 and is broadcast.

    Raises
    ------
    ValueError
        If a dimension of the weight is in neither shape, a dimension of only one shape is not in
        the weight, or the weight does not fit its shape.

    Examples
    --------
    >>> import torch
    >>> A = Dense(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), ("M", "N"), ("N",), ("M",))
    >>> A(torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    >>> A.H(torch.tensor([1.0, 1.0]))
    tensor([4., 6.])
    >>> Dense(torch.ones(2, 3, 4)).shape  # the product of each matrix and a vector of its own
    (B, N) -> (B, M), weightshape=(B, M, N)
    """

    saved_with: ClassVar[tuple[type, ...]] = (Axes, Contraction)

    weight: Tensor
    takes_any_batch = True

    def __init__(
        self,
        weight: Tensor,
        weightshape: Dims | None = None,
        ishape: Dims | None = None,
        oshape: Dims | None = None,
        broadcast_dims: Dims | None = None,
    ) -> None:
        batch: tuple[NamedDimension, ...] = ()
        if weightshape is None:
            count = weight.ndim - 2 if isinstance(weight, Tensor) else 0
            batch = tuple(NamedDimension("B", axis) for axis in range(count))
            weightshape = (*batch, "M", "N")
        weight_dims = as_dims(weightshape)
        inputs = (*batch, *weight_dims[-1:]) if ishape is None else as_dims(ishape)
        outputs = weight_dims[:-1] if oshape is None else as_dims(oshape)
        super().__init__(NamedShape(inputs, outputs, weightshape=weight_dims))
        broadcast = as_dims(() if broadcast_dims is None else broadcast_dims)
        self.register_weight("weight", weight, "weightshape", broadcast)
        self._check_dims(weight_dims, broadcast)
        self._forward, self._backward = _both_ways(weight_dims, inputs, outputs)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and its sums along the axes there."""
        sides = (shape.ishape, shape.oshape)
        if self.is_adjoint:
            sides = sides[::-1]
        forward, backward = _both_ways(shape.other_shapes["weightshape"], *sides)
        return linked_copy(self, shape, _forward=forward, _backward=backward)

    def _check_dims(
        self, weight_dims: tuple[NamedDimension, ...], broadcast: tuple[NamedDimension, ...]
    ) -> None:
        inputs, outputs, of_weight = {*self.ishape}, {*self.oshape}, {*weight_dims}
        rules = {
            "every dimension of the weight must be a named one of the input or of the output": (
                of_weight - ((inputs | outputs) - {ELLIPSES})
            ),
            "a dimension of one side alone must be in the weight": (inputs ^ outputs) - of_weight,
            "a broadcast dimension must be in the input and in the output": (
                {*broadcast} - (inputs & outputs)
            ),
            "dimensions must have names": (inputs | outputs) - self.dims - {ELLIPSES},
        }
        for rule, others in rules.items():
            for dim in others:
                raise ValueError(f"{self.name}: {rule}, got {dim} for {self.shape}")

    @classmethod
    def from_einstr(
        cls,
        weight: Tensor,
        einstr: str,
        broadcast_dims: Dims | None = None,
    ) -> Self:
        """Make a Dense from a string like ``"MN,N->M"``: weight, input and output.

        Dimensions are written as in :func:`nameddim.Dim`: an upper-case letter begins each name.

        Raises
        ------
        ValueError
            If the string does not have this form, or as for :class:`Dense`.

        Examples
        --------
        >>> import torch
        >>> Dense.from_einstr(torch.ones(2, 3), "MN,N->M").H
        Dense (M) -> (N)  weight: float32 (2, 3) cpu 24 B
        """
        left, arrow, outputs = einstr.partition("->")
        of_weight, comma, inputs = left.partition(",")
        if not arrow or not comma or "," in inputs:
            raise ValueError(
                f"{cls.__name__}: an einsum string must look like 'MN,N->M', got {einstr!r}"
            )
        weightshape, ishape, oshape = (Dim(part.strip()) for part in (of_weight, inputs, outputs))
        return cls(weight, weightshape, ishape, oshape, broadcast_dims)

    @staticmethod
    def fn(linop: Dense, x: Tensor, /) -> Tensor:
        """Return the sum over the input's dimensions of w x."""
        return linop._forward(linop.weight_part("weight"), x)

    @staticmethod
    def adj_fn(linop: Dense, x: Tensor, /) -> Tensor:
        """Return the sum over the output's dimensions of conj(w) x."""
        return linop._backward(linop.weight_part("weight").conj(), x)


@gains_by_slices.register(Dense)
def _sums_few_products(linop: Dense) -> bool:
    return {linop._forward.kind, linop._backward.kind} == {"product", "sum of products"}


def _both_ways(weight: Dims, inputs: Dims, outputs: Dims) -> tuple[Contraction, Contraction]:
    """Return the contractions of the operator and of its adjoint."""
    of_weight, of_x, of_y = letters_of(weight, inputs, outputs)
    return Contraction(of_weight, of_x, of_y), Contraction(of_weight, of_y, of_x)
