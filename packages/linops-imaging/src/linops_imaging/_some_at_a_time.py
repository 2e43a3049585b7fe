"""Functions of large tensors, computed for some items at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from linops_core.siblings import concatenate, steps_that_differ

AT_ONCE = 2**18
"""Numbers to compute at a time, about."""


def some_at_a_time(
    function: Callable[[Tensor], Tensor], items: Tensor, n: int, axis: int = 0, to: int = 0
) -> Tensor:
    """Return ``function`` of items along an axis, computed for n of them at a time.

    The results lie along axis ``to``. Beside the result there are the temporaries of n items, and
    the result once more if autograd or a transform records it.
    """
    pieces = steps_that_differ(items, items.split(max(1, n), axis), lambda piece: piece)
    return concatenate(map(function, pieces), to, items.shape[axis])


def applied_in_pieces(
    linop: Callable[[Tensor], Tensor],
    x: Tensor,
    axes: Sequence[tuple[int, int]],
    nbytes: int,
    at_once: int,
) -> Tensor:
    """Return A x, cut so that a piece needs about ``at_once`` of ``nbytes``.

    It is cut along ``axes``, pairs of an axis of x and the same axis of the result.
    """
    if nbytes <= at_once or not axes:
        return linop(x)
    (axis, to), *others = axes
    n = x.shape[axis]

    def inside(piece: Tensor) -> Tensor:
        nbytes_of_piece = nbytes * piece.shape[axis] // n
        return applied_in_pieces(linop, piece, others, nbytes_of_piece, at_once)

    return some_at_a_time(inside, x, n * at_once // nbytes, axis, to)
