"""A few leading singular triplets, by block Golub-Kahan-Lanczos with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ._half import applied_in_half, narrowed, rounding_of, widened
from ._progress import Progress
from ._random import random_input, random_like, seeded
from ._step import Callback, StopReason
from ._vectors import (
    Operator,
    check_count,
    check_scale,
    check_vector,
    checked_number,
    finite,
    is_moderate,
    norm,
    unit_of,
    with_adjoint,
)

_NAME = "svd"


class SVD(NamedTuple):
    """Singular triplets: ``A(V[i])`` is ``S[i] * U[i]``."""

    U: Tensor
    """(k, *output shape), orthonormal."""
    S: Tensor
    """(k,), real, descending."""
    V: Tensor
    """(k, *input shape), orthonormal."""


@torch.no_grad()
def svd(
    A: Operator,
    k: int,
    like: Tensor | None = None,
    max_num_iters: int = 20,
    tol: float = 1e-6,
    *,
    oversampling: int = 4,
    adjoint: Operator | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> SVD:
    r"""The k largest singular values of A, with their vectors.

    From b = k + oversampling random vectors on, A and its adjoint are applied in turn to blocks
    of b vectors; the triplets are those of A between the spaces that all blocks together span.
    :math:`A v_i = s_i u_i` holds to rounding, and the rest,
    :math:`|A^H u_i - s_i v_i| \le \mathrm{tol} \, s_1`, is what the tolerance is about: there is
    then a singular value within that distance of :math:`s_i`, and where the next one is g away,
    within its square over g. Because the block has more than k vectors, equal singular values are
    all found, but for an accident of the random vectors.

    It keeps all blocks: b vectors of the input and b of the output for each iteration, and
    applies A and its adjoint b times in each. In half precision the vectors are in single
    precision, and A and its adjoint are applied in half. No gradients are recorded.

    Parameters
    ----------
    A : NamedLinop or function
    k : int
        At most the dimension of the input and that of the output.
    like : Tensor, optional
        Any tensor of the shape, dtype and device of the input; needed for a function.
    max_num_iters : int
        Number of blocks after which to stop in any case.
    tol : float
        See above. ``CONVERGED`` allows for the rounding of A; where that alone is more, the steps
        end at the precision, which is ``ROUNDING``.
    oversampling : int
        Vectors in a block beyond k.
    adjoint : function, optional
        The adjoint, where A is a function and not a NamedLinop.
    sizes : mapping of dimension to int, optional
        Sizes of the input's dimensions that the operator does not know, without ``like``.
    seed : int
        Of the random numbers.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    callback : function, optional
        Called with a :class:`Step` after every block; its ``x`` are the singular values so far,
        its ``values`` are "norm", the largest, and "residual", the largest rest over it.

    Returns
    -------
    SVD
        ``U``, ``(k, *output shape)``, ``S``, ``(k,)``, and ``V``, ``(k, *input shape)``. In half
        precision S is in single precision.

    Raises
    ------
    TypeError
        If A is a function and its adjoint or ``like`` is not given.
    ValueError
        If k is more than there is, a number is out of its range, or a size is not known.
    ArithmeticError
        If values are NaN or infinite, or the scale of A leaves the range of the dtype.

    References
    ----------
    G. H. Golub, F. T. Luk and M. L. Overton, "A block Lanczos method for computing the singular
    values and corresponding singular vectors of a matrix", ACM Transactions on Mathematical
    Software 7 (1981), 149-169.

    C. Musco and C. Musco, "Randomized block Krylov methods for stronger and faster approximate
    singular value decomposition", NIPS 28 (2015).

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.tensor([1.0, -5.0, 3.0, 5.0]), ("N",))
    >>> torch.round(svd(A, 3).S, decimals=4)
    tensor([5., 5., 3.])
    """
    check_count(_NAME, "k", k, 1)
    check_count(_NAME, "max_num_iters", max_num_iters, 1)
    check_count(_NAME, "oversampling", oversampling)
    tol = checked_number(_NAME, "tol", tol)
    generator = seeded(_NAME, seed)
    if like is None:
        like = random_input(_NAME, A, sizes, generator)
    check_vector(_NAME, "like", like)
    A, adjoint = with_adjoint(_NAME, A, adjoint)
    dtype = like.dtype
    A, adjoint = (
        applied_in_half(_NAME, A, dtype),
        applied_in_half(_NAME, adjoint, dtype, "the adjoint"),
    )
    like = widened(like)
    output = A(like)
    like = like.to(torch.promote_types(like.dtype, output.dtype))
    most = min(like.numel(), output.numel())
    if k > most:
        raise ValueError(
            f"{_NAME}: k must be at most {most}, the least of the dimensions of input and "
            f"output, got {k}"
        )
    left = _Basis(output.numel(), like)
    right = _Basis(like.numel(), like)
    newest = right.extend(random_like(like, generator, min(k + oversampling, most)), 0.0)
    matrix = like.new_zeros(0, 0)
    scale, unit = 0.0, 1.0
    noise = 2 * rounding_of(dtype)  # of A and of its adjoint
    with Progress(_NAME, max_num_iters, tqdm_kwargs, callback) as progress:
        for iteration in range(1, max_num_iters + 1):
            images = torch.stack([A(row.reshape(like.shape)).flatten() for row in newest])
            if iteration == 1:
                unit = _unit(images, dtype)
            images = _divided(images, unit)
            scale = max(scale, finite(_NAME, norm(images).item(), images.dtype))
            first = left.count
            new_left = left.extend(images, scale)
            if left.count < k and len(new_left) < len(newest):
                # The rank is less than k: the other singular values are 0.
                left.extend(random_like(output.to(like.dtype), generator, k - left.count), 0.0)
            matrix = torch.nn.functional.pad(matrix, (0, 0, 0, left.count - len(matrix)))
            matrix = torch.cat([matrix, left.coordinates(images).mT], dim=1)
            P, S, Qh = torch.linalg.svd(matrix, full_matrices=False)
            if len(new_left):
                images = torch.stack(
                    [adjoint(row.reshape(output.shape)).flatten() for row in new_left]
                )
                images = _divided(images, unit)
                finite(_NAME, norm(images).item(), images.dtype)
                newest = right.extend(images, scale)
                rest = images @ newest.mH
                residual = _largest(rest.mT @ P[first : first + len(new_left), :k])
            else:
                newest, residual = images[:0], 0.0
            relative = residual / (float(S[0]) or 1.0)
            reason = None
            if len(S) >= k and relative + noise <= tol:
                reason = StopReason.CONVERGED
            elif len(S) >= k and (relative <= noise or not len(newest)):
                reason = StopReason.ROUNDING
            elif iteration == max_num_iters:
                reason = StopReason.MAX_ITERATIONS
            values = {"norm": float(S[0]) * unit, "residual": relative}
            progress.tell(iteration, partial(torch.mul, S[:k], unit), values, reason)
            if reason is not None:
                break
    U = left.combined(P[:, :k].mT).reshape(-1, *output.shape)
    V = right.combined(Qh[:k].conj()).reshape(-1, *like.shape)
    return SVD(narrowed(U, dtype), S[:k] * unit, narrowed(V, dtype))


def _unit(images: Tensor, dtype: torch.dtype) -> float:
    """Return a unit of A in which squares are within the range; 1 unless A is extreme."""
    unit = unit_of(_NAME, images, is_output=True)
    check_scale(_NAME, unit, narrowed(images, dtype).dtype)
    return 1.0 if is_moderate(unit) else unit


def _divided(images: Tensor, unit: float) -> Tensor:
    return images if unit == 1.0 else images.div_(unit)


def _largest(columns: Tensor) -> float:
    return float(norm(columns, [0]).max().item())


class _Basis:
    """Orthonormal vectors, the rows of blocks."""

    def __init__(self, dimension: int, like: Tensor) -> None:
        self.dimension, self.like = dimension, like
        self.blocks: list[Tensor] = []

    @property
    def count(self) -> int:
        return sum(map(len, self.blocks))

    def extend(self, rows: Tensor, scale: float) -> Tensor:
        """Add a block that spans what of the rows is new, more than rounding; return the block."""
        rest = rows
        for _ in range(2):  # the second time for what rounding left of the first
            rest = self._orthogonal(rest)
            basis, triangle = torch.linalg.qr(rest.mT)
            turn, sizes, _ = torch.linalg.svd(triangle, full_matrices=False)
            kept = sizes > 16 * torch.finfo(sizes.dtype).eps * scale
            rest = (basis @ turn[:, kept]).mT
            scale = 1.0
        self.blocks.append(rest)
        return rest

    def _orthogonal(self, rows: Tensor) -> Tensor:
        for _ in range(2):
            for block in self.blocks:
                rows = rows - (rows @ block.mH) @ block
        return rows

    def coordinates(self, rows: Tensor) -> Tensor:
        """Return the inner products of the rows with all vectors: (rows, vectors)."""
        return torch.cat([rows @ block.mH for block in self.blocks], dim=1)

    def combined(self, weights: Tensor) -> Tensor:
        """Return sums of the first vectors: weights (sums, vectors)."""
        total, first = weights.new_zeros(len(weights), self.dimension), 0
        for block in self.blocks:
            if first < weights.shape[1]:
                total = total.addmm_(weights[:, first : first + len(block)], block)
            first += len(block)
        return total
