"""What ranks read of a vector beyond their shares of it: others send them that much."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from linops_core import NamedLinop
from nameddim import NamedDimension

from ._exchange import Exchange
from ._ranks import Ranks
from ._sharding import Cut, Sharding


class HaloExchange(Exchange):
    """From the share of each rank to what it reads, along one dimension of a vector.

    What a rank has already is not sent, nor what it does not read: where no rank reads more than
    it has, nothing is sent. The adjoint sends back what was read, and each rank adds that to its
    share, in the order of the ranks.

    Parameters
    ----------
    names : tuple of dimensions
        Those of the vector.
    dim : dimension
        That of which ranks read more.
    before, after : Sharding
        Of the shares, and of what is read.
    ranks : Ranks
    """

    gain = None

    def __init__(
        self,
        names: tuple[NamedDimension, ...],
        dim: NamedDimension,
        before: Sharding,
        after: Sharding,
        ranks: Ranks,
    ) -> None:
        super().__init__(names, before, after, ranks)
        self._dim = dim

    @property
    def moved(self) -> tuple[NamedDimension, ...]:
        """The dimension of which input and output have other slices."""
        return (self._dim,)

    def exchanged(self, x: Tensor) -> Tensor:
        """Return what this rank has afterwards: new memory."""
        before, after = (self._shardings[side].cuts[self._dim] for side in ("input", "output"))
        axes = self._shardings["input"].axes(self.ishape)
        (axis,) = (at % x.ndim for at, cut in axes.items() if cut is before)
        at = self.ranks.at[before.mesh_dim]
        y = x.new_zeros([*x.shape[:axis], after.lengths[at], *x.shape[axis + 1 :]])
        parts = [_common(x, axis, before.piece(at), piece) for piece in after.pieces]
        places = [_common(y, axis, after.piece(at), piece) for piece in before.pieces]
        if _sends(before, after):
            shapes = [place.shape for place in places]
            what = f"the {'sum' if before.reads else 'exchange'} of the halos of {self._dim}"
            parts = self.ranks.swapped(parts, shapes, before.mesh_dim, self.step_owner, what)
        else:
            places, parts = [places[at]], [parts[at]]
        for place, part in zip(places, parts, strict=True):
            place.add_(part)
        return y

    def renamed(self, names: Any) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        other = cast(HaloExchange, super().renamed(names))
        if other is not self:
            other._dim = names.get(self._dim, self._dim)
        return other

    def own_normal(self) -> NamedLinop:
        """Return the way there and back: what several ranks read is added up."""
        return NamedLinop.own_normal(self)

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return the way there and back around ``inner``."""
        return NamedLinop.normal(self, inner)


def _common(x: Tensor, axis: int, own: slice, other: slice) -> Tensor:
    """Return the part of a slice of a vector that is in another slice, too."""
    start = max(own.start, other.start)
    length = max(0, min(own.stop, other.stop) - start)
    return x.narrow(axis, start - own.start if length else 0, length)


def _sends(before: Cut, after: Cut) -> bool:
    """Return whether any rank has afterwards what it does not have before, or the other way."""
    shares, read = (before, after) if before.reads is None else (after, before)
    pairs = zip(shares.pieces, read.pieces, strict=True)
    return any(r.start < s.start or r.stop > s.stop for s, r in pairs if r.start < r.stop)
