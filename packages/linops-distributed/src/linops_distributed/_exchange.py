"""The same vector, cut along another dimension: ranks send each other what they lack of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from linops_core import Identity, NamedLinop, Scalar, Side
from nameddim import NamedDimension, NamedShape

from ._distributed import DistributedLinop
from ._ranks import Ranks
from ._sharding import Sharding


class Exchange(DistributedLinop):
    """The identity of a vector that is cut along one dimension before and along another after.

    Each rank along a dimension of the mesh sends to each other one, in one all_to_all, the part
    that this one has afterwards. No element is sent twice, nor to a rank that has it. The adjoint
    is the exchange in the other direction.

    Parameters
    ----------
    names : tuple of dimensions
        Those of the vector.
    before, after : Sharding
        How it is cut. Along one dimension of the mesh they differ.
    ranks : Ranks
    """

    _is_real = True
    gain: float | None = 1.0
    """It keeps the norm."""

    def __init__(
        self, names: tuple[NamedDimension, ...], before: Sharding, after: Sharding, ranks: Ranks
    ) -> None:
        super().__init__(NamedShape(names))
        self._shardings, self.ranks = {"input": before, "output": after}, ranks

    @property
    def moved(self) -> tuple[NamedDimension, ...]:
        """The dimension that is cut before, and the one that is cut after."""
        before, after = (self._shardings[side].cuts for side in ("input", "output"))
        (whole,), (cut,) = before.keys() - after.keys(), after.keys() - before.keys()
        return whole, cut

    @staticmethod
    def fn(linop: Exchange, x: Tensor, /) -> Tensor:
        """Return the share of this rank after the exchange."""
        if not linop._follows(x)[0]:
            return linop.exchanged(x)
        y: Tensor = _Exchanged.apply(x, linop)  # type: ignore[no-untyped-call]  # of torch
        return y

    adj_fn = fn  # in the other direction, because the shardings of an adjoint are swapped

    def exchanged(self, x: Tensor) -> Tensor:
        """Return what this rank has of the vector afterwards: a view of memory of its own."""
        before, after = self._shardings["input"], self._shardings["output"]
        whole, cut = self.moved
        (at_whole,) = (at for at, c in before.axes(self.ishape).items() if c is before.cuts[whole])
        (at_cut,) = (at for at, c in after.axes(self.ishape).items() if c is after.cuts[cut])
        return self.ranks.exchanged(
            x,
            before.cuts[whole].mesh_dim,
            (at_whole % x.ndim, before.cuts[whole].lengths),
            (at_cut % x.ndim, after.cuts[cut].lengths),
            self.step_owner,
            f"the exchange of {whole} for {cut}",
        )

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return that all dimensions keep their lengths, but for those two."""
        return [(at, at) for at, dim in enumerate(self.ishape) if dim not in self.moved]

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the share of this rank of the input."""
        return self.size_of_side(dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of what is cut on either side."""
        own = self._shardings[side]
        whole = {dim: cut.length for dim, cut in self.sharding.cuts.items()}
        return tuple([{**whole, **own.lengths}.get(dim) for dim in self.ishape])

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity(self.ishape)

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return the way there and back around ``inner``, and a number without it."""
        is_number = isinstance(inner, Scalar)
        return cast(NamedLinop, inner) if is_number else super().normal(inner)


class _Exchanged(torch.autograd.Function):
    """An exchange whose derivative is the exchange in the other direction."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, linop: Exchange) -> Tensor:
        ctx.linop = linop
        return linop.exchanged(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        back = ctx.linop.H
        return back(gradient), None
