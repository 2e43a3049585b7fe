"""Exchanges after which a vector is cut along another dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from linops_core import Identity, NamedLinop, Scalar, Side, of_adjoint
from linops_core.siblings import acts_as, size_of_side
from nameddim import NamedDimension, NamedShape

from .._ranks._transport import Transport
from .._shares._sharding import Sharding
from ._distributed import DistributedLinop, Moved


class Exchange(DistributedLinop):
    """The identity of a vector, cut along one dimension before and along another one after.

    One all_to_all along a dimension of the mesh sends each rank the part that it has afterwards. No
    element is sent twice, or to a rank that has it. The adjoint is the exchange in the other
    direction.

    Parameters
    ----------
    names : tuple of dimensions
        Dimensions of the vector.
    before, after : Sharding
        The cuts of the vector; they differ along one dimension of the mesh.
    ranks : Transport
    """

    is_real = True
    _gain: float | None = 1.0
    """The exchange keeps the norm."""

    def __init__(
        self, names: tuple[NamedDimension, ...], before: Sharding, after: Sharding, ranks: Transport
    ) -> None:
        super().__init__(NamedShape(names))
        self._shardings, self.ranks = {"input": before, "output": after}, ranks

    @property
    def moved(self) -> tuple[NamedDimension, ...]:
        """The dimensions that are cut in another way afterwards; first one that is cut before."""
        before, after = (self._shardings[side].cuts for side in ("input", "output"))
        return tuple([dim for dim in {**before, **after} if before.get(dim) != after.get(dim)])

    @staticmethod
    def fn(linop: Exchange, x: Tensor, /) -> Tensor:
        """Return the share of this rank after the exchange."""
        if not linop._follows(x)[0]:
            return linop.exchanged(x)
        back = linop.H
        y: Tensor = Moved.apply(x, linop.exchanged, back)  # type: ignore[no-untyped-call]  # of torch
        return y

    adj_fn = staticmethod(of_adjoint)

    def exchanged(self, x: Tensor) -> Tensor:
        """Return the share of this rank after the exchange: a view of new memory."""
        before, after = self._shardings["input"], self._shardings["output"]
        whole, cut = self.moved
        (at_whole,) = (at for at, c in before.axes(self.ishape).items() if c is before.cuts[whole])
        (at_cut,) = (at for at, c in after.axes(self.ishape).items() if c is after.cuts[cut])
        lengths, pieces = before.cuts[whole].lengths, after.cuts[cut].lengths
        if len(lengths) == 1:
            return x
        axis, mesh_dim = at_whole % x.ndim, before.cuts[whole].mesh_dim
        # With that axis first, the received parts are one tensor.
        parts = [part.movedim(axis, 0) for part in x.split(pieces, at_cut)]
        rest = parts[self.ranks.mesh.at[mesh_dim]].shape[1:]
        n_received = [length * rest.numel() for length in lengths]
        what = f"the exchange of {whole} for {cut}"
        received = self.ranks.exchanged(parts, n_received, mesh_dim, self.step_owner, what)
        return received.view(sum(lengths), *rest).movedim(0, axis)

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return the positions of all dimensions but the two that change."""
        return [(at, at) for at, dim in enumerate(self.ishape) if dim not in self.moved]

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the share of this rank of the input."""
        return size_of_side(self, dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of the dimensions that are cut on a side."""
        sharding = self._shardings[side]
        whole = {dim: cut.length for dim, cut in self.sharding.cuts.items()}
        return tuple([{**whole, **sharding.lengths}.get(dim) for dim in self.ishape])

    def own_normal(self) -> NamedLinop:
        """Return the identity, if the exchange keeps the norm."""
        return Identity(self.ishape) if self._gain else super().own_normal()

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H inner A, or the normal operator without ``inner``."""
        is_number = self._gain is not None and acts_as(inner, Scalar)
        return cast(NamedLinop, inner) if is_number else super().normal(inner)
