"""Operators side by side along a dimension: block columns, block rows, block diagonals."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import NamedDimension, NamedShape

from ..._base._dimensions import Side
from ..._base._linop import NamedLinop
from ..._base._sizes import one_dimension
from .._same_space import same_space
from ._blocks import blocks_along
from ._side_by_side import SideBySide


class Concat(SideBySide):
    r"""Operators side by side: their inputs, outputs or both are concatenated.

    With ``odim`` alone it is a block column: all operands get the whole input, and their outputs
    are concatenated. With ``idim`` alone it is a block row: each operand gets its block of the
    input, and the outputs are added. With both it is a block diagonal. Outputs are written into one
    tensor one by one, unless autograd keeps them all.

    Parameters
    ----------
    *linops : NamedLinop
        All must have the same names.
    idim, odim : dimension, optional
        At least one. If the dimension is in both shapes, give it as both ``idim`` and ``odim``.
    isizes, osizes : sequence of int, optional
        Length of each operand's block; needed if an operand does not know its size.
    threaded, num_workers : optional
        As for :class:`Stack`.

    Raises
    ------
    ValueError
        If the shapes differ, a dimension is missing, its block sizes are not known, or num_workers
        is not positive.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A, B = (Diagonal(torch.full((2,), w), ("N",)) for w in (2.0, 3.0))
    >>> Concat(A, B, idim="N", odim="N")(torch.ones(4))
    tensor([2., 2., 3., 3.])
    """

    def __init__(
        self,
        *linops: NamedLinop,
        idim: NamedDimension | str | None = None,
        odim: NamedDimension | str | None = None,
        isizes: Sequence[int] | None = None,
        osizes: Sequence[int] | None = None,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        if idim is None and odim is None:
            raise ValueError("Concat: idim, odim or both must be given, got neither")
        given: tuple[tuple[Side, NamedDimension | str | None, Sequence[int] | None], ...]
        given = (("input", idim, isizes), ("output", odim, osizes))
        dims: dict[Side, NamedDimension] = {
            side: one_dimension("Concat", f"{side[0]}dim", dim)
            for side, dim, _ in given
            if dim is not None
        }
        operands = same_space("Concat", linops, sized_apart=frozenset(dims.values()))
        blocks = {
            side: blocks_along(operands, side, dims[side], sizes)
            for side, _, sizes in given
            if side in dims
        }
        shape = NamedShape(operands[0].ishape, operands[0].oshape)
        super().__init__(shape, operands, blocks, threaded, num_workers, name)
        for dim in {*dims.values()} & {*self.ishape} & {*self.oshape}:
            if self.idim != self.odim or self.isizes != self.osizes:
                raise ValueError(
                    f"{self.name}: {dim} is in the input and in the output ({self.shape}), so it "
                    "must be both idim and odim with the same blocks, "
                    f"got idim={self.idim} {self.isizes}, odim={self.odim} {self.osizes}"
                )

    @property
    def isizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``idim``; empty if that is None."""
        return self._blocks["input"].sizes if "input" in self._blocks else ()

    @property
    def osizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``odim``; empty if that is None."""
        return self._blocks["output"].sizes if "output" in self._blocks else ()
