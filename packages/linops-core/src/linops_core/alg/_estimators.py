"""Estimates of the trace and of the diagonal of an operator, from random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ._batched_vectors import BatchedVectors
from ._checks import Operator, check_count, finite, in_own_space
from ._precision import applied_in_half, widened
from ._progress import Iterate, Progress
from ._random import input_or_random, seeded
from ._step import Callback
from ._vectors import norm


class Estimate(NamedTuple):
    """A random number or tensor, and how far it is off."""

    value: Tensor
    """The estimate; without bias. In single precision where A is in half precision."""
    standard_error: Tensor
    """Its standard deviation, itself estimated from the samples; real, shape of ``value``."""


def estimate_trace(
    A: Operator,
    num_samples: int = 30,
    like: Tensor | None = None,
    *,
    method: Literal["hutchinson", "hutch++"] = "hutchinson",
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Estimate:
    r"""The trace of A, estimated.

    Hutchinson's estimate is the mean of :math:`z^H A z` over vectors z of random signs (of 1, i,
    -1 and -i if z is complex). Its error is about :math:`\sqrt{2 / m} \, |A|_F` for a symmetric A
    and m samples. Hutch++ spends a third of the applications on a space in which A is large, a
    third on the trace there, which is exact, and the last on the estimate for the rest: its error
    falls as 1/m where A is positive semi-definite.

    Hutchinson's keeps three vectors, Hutch++ a third as many as num_samples. Gradients flow from
    the estimate to A; the gradient is an estimate of that of the trace, without bias.

    Parameters
    ----------
    A : NamedLinop or function
        From a space to itself; the names may differ.
    num_samples : int
        How often A is applied: at least 2, and 6 for Hutch++.
    like : Tensor, optional
        Any tensor of the shape, dtype and device of the input; needed for a function.
    method : {"hutchinson", "hutch++"}
    sizes : mapping of dimension to int, optional
        Sizes of the input's dimensions that the operator does not know, without ``like``.
    seed : int
        Of the random numbers.
    tqdm_kwargs, callback : optional
        A step is a sample. Its ``x`` is the estimate so far, its ``values`` are "size", the
        magnitude of x, and "standard_error".

    Returns
    -------
    Estimate
        ``value``, without dimensions, and its ``standard_error``.

    Raises
    ------
    TypeError, ValueError, ArithmeticError
        As all solvers do, see :mod:`linops_core.alg`. ValueError also if there are too few samples.

    References
    ----------
    M. F. Hutchinson, "A stochastic estimator of the trace of the influence matrix for Laplacian
    smoothing splines", Communications in Statistics 18 (1989), 1059-1076.

    R. A. Meyer, C. Musco, C. Musco and D. P. Woodruff, "Hutch++: optimal stochastic trace
    estimation", Symposium on Simplicity in Algorithms (2021), algorithm 1.

    Examples
    --------
    Of a diagonal operator every sample gives the trace:

    >>> from linops_core import Diagonal
    >>> estimate_trace(Diagonal(torch.tensor([1.0, 2.0, 4.0]), ("N",)))
    Estimate(value=tensor(7.), standard_error=tensor(0.))
    """
    owner = "estimate_trace"
    if method not in ("hutchinson", "hutch++"):
        raise ValueError(f'{owner}: method must be "hutchinson" or "hutch++", got {method!r}')
    check_count(owner, "num_samples", num_samples, 2 if method == "hutchinson" else 6)
    generator = seeded(owner, seed)
    like = input_or_random(owner, A, ("like", like), sizes, generator)
    A, like = applied_in_half(owner, A, like.dtype), widened(like)
    mean, basis = _Mean(owner), like.new_zeros(0, like.numel())
    if method == "hutch++":
        third = min(num_samples // 3, like.numel())
        num_samples -= 2 * third
        basis = _range(owner, A, like, third, generator)
        images = [in_own_space(owner, A, row.reshape(like.shape)) for row in basis]
        known = sum(torch.vdot(q, Aq.flatten()) for q, Aq in zip(basis, images, strict=True))
        mean = _Mean(owner, known)

    def sample() -> Tensor:
        z = _signs(like, generator).flatten()
        z = z - (basis.conj() @ z) @ basis if len(basis) else z
        return torch.vdot(z, in_own_space(owner, A, z.reshape(like.shape)).flatten())

    progress = Progress(owner, num_samples, tqdm_kwargs, callback)
    return progress.follow(mean.of(sample, progress.is_watched), _shown).estimate()


def estimate_diagonal(
    A: Operator,
    num_samples: int = 30,
    like: Tensor | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Estimate:
    r"""The diagonal of A, estimated.

    It is the mean of :math:`\bar z \odot A z` over vectors z of random signs (of 1, i, -1 and -i
    if z is complex). The variance of an entry is the sum of the squares of the other entries of
    its row, over the number of samples.

    It keeps seven vectors. Gradients flow from the estimate to A.

    Parameters
    ----------
    A : NamedLinop or function
        From a space to itself; the names may differ.
    num_samples : int
        How often A is applied: at least 2.
    like : Tensor, optional
        Any tensor of the shape, dtype and device of the input; needed for a function.
    sizes : mapping of dimension to int, optional
        Sizes of the input's dimensions that the operator does not know, without ``like``.
    seed : int
        Of the random numbers.
    tqdm_kwargs, callback : optional
        A step is a sample. Its ``x`` is the estimate so far, its ``values`` are "size", the norm of
        x, and "standard_error", the norm of that.

    Returns
    -------
    Estimate
        ``value``, of the shape of the input, and its ``standard_error``, entry by entry.

    Raises
    ------
    TypeError, ValueError, ArithmeticError
        As all solvers do, see :mod:`linops_core.alg`. ValueError also if there are too few samples.

    References
    ----------
    C. Bekas, E. Kokiopoulou and Y. Saad, "An estimator for the diagonal of a matrix", Applied
    Numerical Mathematics 57 (2007), 1214-1229.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> estimate_diagonal(Diagonal(torch.tensor([1.0, 2.0, 4.0]), ("N",))).value
    tensor([1., 2., 4.])
    """
    owner = "estimate_diagonal"
    check_count(owner, "num_samples", num_samples, 2)
    generator = seeded(owner, seed)
    like = input_or_random(owner, A, ("like", like), sizes, generator)
    A, like = applied_in_half(owner, A, like.dtype), widened(like)

    def sample() -> Tensor:
        z = _signs(like, generator)
        return z.conj() * in_own_space(owner, A, z)

    progress = Progress(owner, num_samples, tqdm_kwargs, callback)
    return progress.follow(_Mean(owner).of(sample, progress.is_watched), _shown).estimate()


class _Mean:
    """The mean of samples, plus a constant, and its standard error."""

    def __init__(self, owner: str, known: Tensor | int = 0) -> None:
        self.owner, self.known = owner, known
        self.count = 0

    def of(self, sample: Callable[[], Tensor], is_watched: bool) -> Iterator[Iterate[_Mean]]:
        """Take one sample after the other."""
        yield self, {}, None
        while True:
            self.add(sample())
            yield self, self.values() if is_watched else {}, None

    def add(self, sample: Tensor) -> None:
        """Take one more, by the recurrence of Welford."""
        self.count += 1
        if self.count == 1:
            self.mean = sample
            # Squares of differences are taken in this unit, so that none leaves its range.
            self.unit = BatchedVectors().unit(sample)
            self.squares = torch.zeros_like(sample.detach().abs())
            return
        apart = sample - self.mean
        self.mean = torch.add(self.mean, apart, alpha=1 / self.count)
        square = (apart.detach() / self.unit).abs().square_()
        self.squares.add_(square, alpha=1 - 1 / self.count)

    def estimate(self) -> Estimate:
        """Return what is known so far."""
        finite(self.owner, float(self.mean.detach().abs().sum().item()))
        spread = self.squares / (max(self.count - 1, 1) * self.count)
        if self.count == 1:
            spread = spread + math.inf
        return Estimate(self.known + self.mean, spread.clamp(min=0).sqrt() * self.unit)

    def values(self) -> dict[str, float]:
        """Return the norms of the estimate and of its error."""
        size, error = (float(norm(one.detach()).item()) for one in self.estimate())
        return {"size": size, "standard_error": error}


def _shown(mean: _Mean) -> Tensor:
    return mean.estimate().value.clone()


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return random numbers of magnitude 1 of which mean and mean square are 0 and 1."""

    def drawn() -> Tensor:
        dtype = like.dtype.to_real()
        return torch.randint(0, 2, like.shape, generator=generator, dtype=dtype, device="cpu")

    signs = drawn().mul_(2).sub_(1)
    if like.is_complex():
        is_real = drawn()
        signs = torch.complex(signs * is_real, signs * (1 - is_real))
    return signs.to(like.device)


@torch.no_grad()
def _range(owner: str, A: Operator, like: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return orthonormal rows that span where A maps random vectors to."""
    images = [in_own_space(owner, A, _signs(like, generator)).flatten() for _ in range(count)]
    basis: Tensor = torch.linalg.qr(torch.stack(images, dim=1)).Q
    return basis.mT.contiguous()
