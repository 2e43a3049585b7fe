"""An operator that calls another library."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._base._sliceable import SliceableLinop
from .._dottest import is_adjoint
from ._external_matrix import ExternalMatrix, multiplied

Names: TypeAlias = Sequence[NamedDimension | str]


class ExternalOperator(SliceableLinop):
    """An operator that calls another library, on the CPU, in the precision of its input.

    A ``...`` at the front is a batch of vectors. ``lengths`` has the lengths of the other
    dimensions.
    """

    def __init__(
        self,
        matrix: ExternalMatrix,
        ishape: Names,
        oshape: Names,
        lengths: tuple[Sequence[int], Sequence[int]],
        name: str,
    ) -> None:
        inputs, outputs = as_dims(ishape), as_dims(oshape)
        batch = tuple(dim for dim in inputs[:1] if dim == ELLIPSES)
        sides = {"columns": inputs[len(batch) :], "rows": outputs[len(batch) :]}
        shape = NamedShape(inputs, outputs, **sides)
        super().__init__(shape, name)
        if outputs[: len(batch)] != batch or not {*sides["columns"], *sides["rows"]} <= shape.dims:
            raise ValueError(
                f"{name}: a ... must be at the front of both shapes or nowhere, and all other "
                f"dimensions must have names, got {shape}"
            )
        self.matrix = matrix
        # Not NumPy integers, which would become tensors in a graph.
        of_sides = [tuple(map(int, sizes)) for sizes in lengths]
        self.lengths = dict(zip(sides, of_sides, strict=True))
        for side, names in sides.items():
            if len(names) != len(self.lengths[side]):
                raise ValueError(
                    f"{name}: there must be one name for each of the sizes {self.lengths[side]}, "
                    f"got {shape}"
                )
            for dim, size in zip(names, self.lengths[side], strict=True):
                if self.size(dim) != size:
                    raise ValueError(
                        f"{name}: {dim} must have one size, got {self.size(dim)} and {size} "
                        f"in {shape}"
                    )
        if matrix.shape != (prod(of_sides[1]), prod(of_sides[0])):
            raise ValueError(
                f"{name}: the sizes must make up a matrix of shape {matrix.shape}, "
                f"got {of_sides[1]} x {of_sides[0]} for {shape}"
            )

    @property
    def is_complex_linear(self) -> bool:
        """Whether it is linear over the complex numbers, according to the library."""
        return self.matrix.is_complex_linear

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None for a batch dimension."""
        for side, lengths in self.lengths.items():
            names = self.shape.other_shapes[side]
            if dim in names:
                return lengths[names.index(dim)]
        return None

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: the matrix is in another library."""
        if self.size(dim) is None:
            return None
        return f"an operator of {self.matrix.library} cannot be cut"

    @staticmethod
    def fn(linop: ExternalOperator, x: Tensor, /) -> Tensor:
        """Return A x."""
        return linop.call(x, "columns", "rows")

    @staticmethod
    def adj_fn(linop: ExternalOperator, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        return linop.call(x, "rows", "columns")

    def call(self, x: Tensor, method: str, opposite: str) -> Tensor:
        """Return the result of the library for the vectors in ``x``."""
        if x.device.type not in ("cpu", "meta"):
            raise ValueError(
                f"{self.name}: the input must be on the CPU, where {self.matrix.library} "
                f"computes, got {x.device}; move it there and the result back"
            )
        if x.is_complex() and not (self.matrix.is_complex or self.is_complex_linear):
            raise TypeError(
                f"{self.name}: the input of an operator that is linear over the reals only and has "
                f"a real dtype must be real, got {x.dtype}; make it with dtype='complex128'"
            )
        if x.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
            x = x.to(torch.complex64 if x.is_complex() else torch.float32)
        batch = x.shape[: x.ndim - len(self.lengths[method])]
        rows = x.reshape(prod(batch), prod(self.lengths[method]))
        y = multiplied(rows, self.matrix.key, opposite == "columns")
        return y.reshape(batch + self.lengths[opposite])


def with_true_adjoint(owner: str, A: ExternalOperator) -> ExternalOperator:
    """Return ``A``, or raise an error if what the library calls its adjoint is another operator.

    An operator without an adjoint passes; it raises when the adjoint is asked for.
    """
    lengths = A.lengths["columns"]
    dtype = torch.complex128 if A.matrix.is_complex else torch.float64
    generator = torch.Generator()
    x = torch.randn(lengths, dtype=dtype, generator=generator, device="cpu")
    try:
        # Products of random vectors are nearly 0, whatever the adjoint; with A x alone, an error
        # may be orthogonal to it. Libraries may compute in single precision, and warn of what a
        # user has not asked for yet.
        with warnings.catch_warnings(action="ignore"):
            y = A(x)
            y = y / y.abs().max().clamp(min=torch.finfo(torch.float64).tiny) if y.numel() else y
            y += torch.randn(y.shape, dtype=y.dtype, generator=generator, device="cpu")
            is_right = is_adjoint(A, x, y, rtol=1e-3)
    except NotImplementedError:
        return A
    if not is_right:
        raise ValueError(
            f"{owner}: the adjoint of {A.name} must be that of its forward function, got "
            "<x, A^H y> that is not <A x, y>; mend the function in its library, or take both as "
            "they are by check_adjoint=False"
        )
    return A
