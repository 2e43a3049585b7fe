"""A few leading singular triplets, by block Golub-Kahan-Lanczos with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import torch
from torch import Generator, Tensor

from linops_core.siblings import check_integer, check_real, inner_products, norm, real_part

from .._shared._checks import Operator, check_finite
from .._shared._options import Watching, with_options
from .._shared._precision import OperatorPair, at_least_single, rounding_of, to_half
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason, reason_of
from .._shared._space import Space
from .._shared._tall import orthonormal
from .._shared._vectors import input_or_random

_NAME = "svd"


class SVD(NamedTuple):
    """Singular triplets: ``A(V[i])`` is ``S[i] * U[i]``."""

    U: Tensor
    """(k, *output shape), orthonormal."""
    S: Tensor
    """(k,), real, descending."""
    V: Tensor
    """(k, *input shape), orthonormal."""


@with_options(Watching)
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
    **watching: Unpack[Watching],
) -> SVD:
    r"""The k largest singular values of A, with their vectors.

    A and its adjoint are applied in turn to blocks of b = k + oversampling vectors; the first block
    is random. The result is the singular triplets of A between the spaces that all blocks span.
    :math:`A v_i = s_i u_i` holds to rounding. The steps end when the residuals
    :math:`r_i = |A^H u_i - s_i v_i|` are at most :math:`\mathrm{tol} \, s_1`. The error of
    :math:`s_i` is then at most :math:`r_i`. If the distance of :math:`s_i` to the next singular
    value is g, the error is at most :math:`r_i^2 / g`. A block has more than k vectors, so equal
    singular values are all found, with probability 1.

    If A is linear over the reals only, A x is the sum of :math:`s_i u_i \mathrm{Re} \langle v_i, x
    \rangle`. Vectors are orthonormal with respect to :math:`\mathrm{Re} \langle x, y \rangle`, and
    a complex space of dimension n has 2n of them.

    Each iteration keeps b vectors of the input and b of the output, and applies A and its adjoint b
    times. No gradients are recorded. For half precision S is in single precision.

    Parameters
    ----------
    k : int
        At most the number of entries of the input, and of the output; a larger k raises a
        ValueError.
    oversampling : int
        Number of vectors in a block in excess of k.
    tol : float
        Bound of the residuals, relative to the largest singular value.
    callback
        A step is a block. Its ``x`` is the singular values so far. Its ``values`` are "norm", the
        largest singular value, and "residual", the largest :math:`|A^H u_i - s_i v_i|` divided by
        it.

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
    check_integer(_NAME, "k", k, 1)
    check_integer(_NAME, "oversampling", oversampling, 0)
    tol = check_real(_NAME, "tol", tol, 0)
    goals, count = {"residual": tol}, ("max_num_iters", 1)
    progress = Progress(_NAME, max_num_iters, watching, goals=goals, count=count)
    like, generator = input_or_random(_NAME, A, "like", like, sizes, seed)
    pair, dtype, like = (
        OperatorPair(_NAME, A, adjoint, like.dtype),
        like.dtype,
        at_least_single(like),
    )
    output = pair.forward(pair.input.random_like(like))
    if pair.is_complex_linear:
        like = like.to(torch.promote_types(like.dtype, output.dtype))
        has_parts = False, False
    else:
        back = pair.adjoint(output)
        like = like.to(back.dtype) if back.is_complex() else real_part(like)
        output = pair.forward(pair.input.random_like(like))
        has_parts = output.is_complex(), like.is_complex()
        pair = on_real_tensors(pair, *has_parts)
        output, like = map(as_real_tensor, (output, like))
    most = min(pair.input.count(like), pair.output.count(output))
    if k > most:
        raise ValueError(
            f"{_NAME}: k must be at most {most}, the smaller dimension of input and output, got {k}"
        )
    left, right = _Basis(output.to(like.dtype), pair.output), _Basis(like, pair.input)
    noise = 2 * rounding_of(dtype)  # the residual has the rounding of A and of its adjoint
    unit = pair.output.unit_of(_NAME, output, is_output=True)
    pair, unit = pair.in_moderate_unit(unit)
    right.extend(right.space.random_like(like, generator, min(k + oversampling, most)), 0.0)

    steps = _SvdSteps(pair, left, right, generator, k, unit, tol, noise)
    progress.follow(steps)
    U, V = left.combined(steps.P.mT), right.combined(steps.Qh.conj())
    U, V = (as_complex_tensor(vectors, has) for vectors, has in zip((U, V), has_parts, strict=True))
    return SVD(to_half(U, dtype), steps.S, to_half(V, dtype))


@dataclass
class _SvdSteps(SolverSteps):
    """A between both spaces in coordinates, its triplets, and the newest block of the input."""

    pair: OperatorPair
    left: _Basis
    right: _Basis
    generator: Generator
    k: int
    unit: float
    tol: float
    noise: float

    def __post_init__(self) -> None:
        """Begin at the first block of the input."""
        right = self.right
        self.matrix, self.newest, self.scale = right.like.new_zeros(0, 0), right.blocks[0], 0.0

    def step(self) -> Measured:
        """Apply A to the newest block, and the adjoint to what is new of the result."""
        left, right, k, newest = self.left, self.right, self.k, self.newest
        images = right.images(self.pair.forward, newest)
        self.scale = scale = max(self.scale, left.norm(images))
        first = left.count
        new_left = left.extend(images, scale)
        if left.count < k and len(new_left) < len(newest):
            # The rank is less than k: the other singular values are 0.
            left.extend(left.space.random_like(left.like, self.generator, k - left.count), 0.0)
        matrix = torch.nn.functional.pad(self.matrix, (0, 0, 0, left.count - len(self.matrix)))
        coordinates = left.coordinates(images, left.blocks)
        self.matrix = torch.cat([matrix, coordinates.mT], dim=1)
        P, S, Qh = torch.linalg.svd(self.matrix, full_matrices=False)
        self.P, self.S, self.Qh = P[:, :k], S[:k] * self.unit, Qh[:k]
        residual, self.newest = 0.0, newest[:0]
        if len(new_left):
            images = left.images(self.pair.adjoint, new_left)
            right.norm(images)
            self.newest = right.extend(images, scale)
            rest = right.coordinates(images, [self.newest])
            columns = rest.mT @ P[first : first + len(new_left), :k]
            residual = float(norm(columns, (1,)).max().item())
        relative = residual / (float(S[0]) or 1.0)
        reason = reason_of(relative, self.tol, self.noise) if len(S) >= k else None
        if len(S) >= k and not len(self.newest):  # without a new direction, nothing would change
            reason = reason or StopReason.ROUNDING
        return {"norm": float(S[0]) * self.unit, "residual": relative}, reason

    def result(self) -> Tensor:
        """Return the singular values."""
        return torch.clone(self.S)


def as_real_tensor(x: Tensor) -> Tensor:
    """Return a complex tensor as a real one with one more axis; a real one as it is."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def as_complex_tensor(x: Tensor, has_parts: bool) -> Tensor:
    """Return the tensor that has these parts."""
    return torch.view_as_complex(x.contiguous()) if has_parts else x


def on_real_tensors(pair: OperatorPair, output_has: bool, input_has: bool) -> OperatorPair:
    """Return the operators between real tensors that hold real and imaginary parts."""

    def forward(x: Tensor) -> Tensor:
        return as_real_tensor(pair.forward(as_complex_tensor(x, input_has)))

    def adjoint(y: Tensor) -> Tensor:
        return as_real_tensor(pair.adjoint(as_complex_tensor(y, output_has)))

    spaces = pair.input, pair.output
    return OperatorPair(pair.owner, forward, adjoint, torch.float64, spaces=spaces)


class _Basis:
    """Orthonormal vectors, the rows of blocks, in the space of a given tensor."""

    def __init__(self, like: Tensor, space: Space) -> None:
        self.like, self.space = like, space
        self.blocks: list[Tensor] = []

    @property
    def count(self) -> int:
        return sum(map(len, self.blocks))

    def images(self, operator: Operator, rows: Tensor) -> Tensor:
        """Return the images of rows under an operator, as rows."""
        first, *others = rows.unbind()
        image = operator(first.reshape(self.like.shape)).flatten()
        result = image.new_empty(len(rows), image.numel())
        result[0] = image
        # Each image is copied before the next one, because an operator may return the same memory.
        for number, row in enumerate(others, 1):
            result[number] = operator(row.reshape(self.like.shape)).flatten()
        return result

    def extend(self, rows: Tensor, scale: float) -> Tensor:
        """Add a block for the part of the rows outside of the basis; return the block."""
        rest = rows
        # Once leaves parts in the basis, of the rounding of rows that are nearly in it.
        for _ in range(2):
            rest = self._orthogonal(rest)
            basis, triangle = orthonormal(rest.mT, self.space)
            turn, values, _ = torch.linalg.svd(triangle, full_matrices=False)
            kept = values > 16 * torch.finfo(values.dtype).eps * scale
            rest = (basis @ turn[:, kept]).mT
            scale = 1.0
        self.blocks.append(rest)
        return rest

    def _orthogonal(self, rows: Tensor) -> Tensor:
        for _ in range(2):
            for block in self.blocks:
                rows = rows - self.coordinates(rows, [block]) @ block
        return rows

    def coordinates(self, rows: Tensor, blocks: Sequence[Tensor]) -> Tensor:
        """Return the inner products of rows with the rows of blocks, side by side."""
        (products,) = self.space.total(
            torch.cat([inner_products(block, rows.mT).mT for block in blocks], 1)
        )
        return products

    def norm(self, rows: Tensor) -> float:
        """Return the norm of all rows together; raise an error unless it is finite."""
        return check_finite(_NAME, self.space.norm(rows).item(), rows.dtype)

    def combined(self, weights: Tensor) -> Tensor:
        """Return sums of the first vectors: weights (sums, vectors)."""
        total, first = weights.new_zeros(len(weights), self.like.numel()), 0
        for block in self.blocks:
            if first < weights.shape[1]:
                total = total.addmm_(weights[:, first : first + len(block)], block)
            first += len(block)
        return total.reshape(len(weights), *self.like.shape)
