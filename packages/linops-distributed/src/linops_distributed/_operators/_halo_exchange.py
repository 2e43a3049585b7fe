"""Halos: the parts of a vector that ranks read beyond their shares."""

from __future__ import annotations

from torch import Tensor

from linops_core.siblings import at_least_single

from .._shares._sharding import Cut
from ._exchange import Exchange


class HaloExchange(Exchange):
    """Extends the share of each rank to the slice that it reads, along one dimension of a vector.

    Ranks send only elements that another rank reads and does not have. The adjoint sends the halos
    back, and each rank adds them to its share in the order of the ranks, half precision in single.

    Parameters
    ----------
    names : tuple of dimensions
        Dimensions of the vector.
    before, after : Sharding
        The shares, and the slices that ranks read.
    ranks : Transport
    """

    _gain = None

    def exchanged(self, x: Tensor) -> Tensor:
        """Return the slice that this rank reads, in new memory."""
        (dim,) = self.moved
        before, after = (self._shardings[side].cuts[dim] for side in ("input", "output"))
        axes = self._shardings["input"].axes(self.ishape)
        (axis,) = (at % x.ndim for at, cut in axes.items() if cut is before)
        at = self.ranks.mesh.at[before.mesh_dim]
        dtype = at_least_single(x.dtype) if before.reads else x.dtype
        shape = [*x.shape[:axis], after.lengths[at], *x.shape[axis + 1 :]]
        y = x.new_zeros(shape, dtype=dtype)
        parts = [_common(x, axis, before.piece(at), piece) for piece in after.pieces]
        targets = [_common(y, axis, after.piece(at), piece) for piece in before.pieces]
        if _sends(before, after):
            kept, parts[at] = parts[at], x.new_empty(0)  # is not copied
            n_received = [0 if n == at else target.numel() for n, target in enumerate(targets)]
            what = f"the {'sum' if before.reads else 'exchange'} of the halos of {dim}"
            received = self.ranks.exchanged(
                parts, n_received, before.mesh_dim, self.step_owner, what
            )
            got = enumerate(zip(targets, received.split(n_received), strict=True))
            parts = [kept if n == at else part.view(target.shape) for n, (target, part) in got]
        else:
            targets, parts = [targets[at]], [parts[at]]
        for target, part in zip(targets, parts, strict=True):
            target.add_(part)
        return y.to(x.dtype)


def _common(x: Tensor, axis: int, piece: slice, other: slice) -> Tensor:
    """Return the part of a slice that is also in another slice."""
    start = max(piece.start, other.start)
    length = max(0, min(piece.stop, other.stop) - start)
    return x.narrow(axis, start - piece.start if length else 0, length)


def _sends(before: Cut, after: Cut) -> bool:
    """Return whether any rank sends in this exchange or in its adjoint."""
    shares, read = (before, after) if before.reads is None else (after, before)
    pairs = zip(shares.pieces, read.pieces, strict=True)
    return any(r.start < s.start or r.stop > s.stop for s, r in pairs if r.start < r.stop)
