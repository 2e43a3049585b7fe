"""Estimates of the trace and of the diagonal of an operator, from random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Unpack

import torch
from torch import Tensor

from linops_core.siblings import inner_products, vdot

from .._shared._checks import Operator, check_complex_linear, check_finite
from .._shared._options import Watching, with_options
from .._shared._precision import at_least_single, in_own_space
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured
from .._shared._space import Space, spaces_of
from .._shared._tall import orthonormal
from .._shared._vectors import input_or_random


class Estimate(NamedTuple):
    """A random estimate and its standard error."""

    value: Tensor
    """The unbiased estimate, in single precision if A is in half precision."""
    standard_error: Tensor
    """Its standard deviation, estimated from the samples: real, of the shape of ``value``."""


@with_options(Watching)
def estimate_trace(
    A: Operator,
    num_samples: int = 30,
    like: Tensor | None = None,
    *,
    method: Literal["hutchinson", "hutch++"] = "hutchinson",
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    **watching: Unpack[Watching],
) -> Estimate:
    r"""An estimate of the trace of A, a tensor without dimensions.

    Hutchinson's estimate is the mean of :math:`z^H A z` over vectors z of random signs (of 1, i,
    -1 and -i if z is complex). Its error is about :math:`\sqrt{2 / m} \, |A|_F` for a symmetric A
    and m samples. Hutch++ uses a third of the applications to find a space in which A is large, a
    third for the exact trace in this space, and a third to estimate the remainder. Its error falls
    as 1/m if A is positive semi-definite.

    Hutchinson's method keeps three vectors, Hutch++ keeps ``num_samples / 3``. Gradients flow
    from the estimate to A. They are unbiased estimates of the gradient of the trace.

    Parameters
    ----------
    A : NamedLinop or function
        Maps a space to itself. Names of input and output may differ.
    num_samples : int
        Number of applications of A: at least 2, and at least 6 for Hutch++.
    method : {"hutchinson", "hutch++"}
    callback
        A step is a sample. Its ``x`` is the estimate so far. Its ``values`` are "size", the norm of
        x, and "standard_error", the norm of the standard error.

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
    count = "num_samples", 2 if method == "hutchinson" else 6
    progress = Progress(owner, num_samples, watching, count=count)
    check_complex_linear(owner, A, "the trace is the trace of its complex matrix")
    mean = _EstimatorSteps(owner, A, *input_or_random(owner, A, "like", like, sizes, seed))
    basis = mean.like.new_zeros(0, mean.like.numel())
    if method == "hutch++":
        third = min(num_samples // 3, mean.space.count(mean.like))
        progress.limit -= 2 * third
        basis = mean.range(third)
        images = [mean.applied(row) for row in basis]
        trace = sum(vdot(*pair) for pair in zip(basis, images, strict=True))
        (mean.exact,) = mean.space.total(trace + mean.like.new_zeros(()))

    def sample() -> Tensor:
        z = mean.signs().flatten()
        if len(basis):
            (parts,) = mean.space.total(inner_products(basis, z))
            z = z - parts @ basis
        return mean.space.inner(z, mean.applied(z))

    return mean.of(sample, progress)


@with_options(Watching, like=estimate_trace)
def estimate_diagonal(
    A: Operator,
    num_samples: int = 30,
    like: Tensor | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    **watching: Unpack[Watching],
) -> Estimate:
    r"""An estimate of the diagonal of A, of the shape of the input.

    It is the mean of :math:`\bar z \odot A z` over vectors z of random signs (of 1, i, -1 and -i
    if z is complex). The variance of an entry is the sum of the squares of the other entries in its
    row, divided by the number of samples.

    The method keeps seven vectors. Gradients flow from the estimate to A.

    Parameters
    ----------
    num_samples : int
        Number of applications of A: at least 2.

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
    progress = Progress(owner, num_samples, watching, count=("num_samples", 2))
    check_complex_linear(owner, A, "the diagonal is the diagonal of its complex matrix")
    mean = _EstimatorSteps(owner, A, *input_or_random(owner, A, "like", like, sizes, seed))

    def sample() -> Tensor:
        z = mean.signs()
        return z.conj() * mean.applied(z).reshape(z.shape)

    return mean.of(sample, progress)


class _EstimatorSteps(SolverSteps):
    """The mean of samples, plus a constant, and its standard error."""

    def __init__(self, owner: str, A: Operator, like: Tensor, generator: torch.Generator) -> None:
        self.owner, self.A = owner, in_own_space(owner, A, like.dtype)
        self.like, self.generator = at_least_single(like), generator
        self.space, _ = spaces_of(owner, A)
        self.exact: Tensor | int = 0
        self.count = 0

    def applied(self, z: Tensor) -> Tensor:
        """Return A z, flat."""
        return self.A(z.reshape(self.like.shape)).flatten()

    def signs(self) -> Tensor:
        """Return random numbers of magnitude 1 with mean 0."""
        shape, dtype = self.like.shape, self.like.dtype.to_real()

        def drawn() -> Tensor:
            return torch.randint(0, 2, shape, generator=self.generator, dtype=dtype, device="cpu")

        signs = drawn().mul_(2).sub_(1)
        if self.like.is_complex():
            is_real = drawn()
            signs = torch.complex(signs * is_real, signs * (1 - is_real))
        return signs.to(self.like.device)

    @torch.no_grad()
    def range(self, count: int) -> Tensor:
        """Return orthonormal rows that span the images of random vectors under A."""
        images = [self.applied(self.signs()) for _ in range(count)]
        basis, _ = orthonormal(torch.stack(images, dim=1), self.space)
        return basis.mT.contiguous()

    def of(self, sample: Callable[[], Tensor], progress: Progress) -> Estimate:
        """Take the samples, and return the estimate."""
        self.sample = sample
        progress.follow(self)
        return self.estimate()

    def step(self) -> Measured:
        """Add a sample."""
        self.add(self.sample())
        return {}, None

    def shown(self) -> dict[str, float]:
        """Return the norms of the estimate and of its standard error."""
        norm, error = map(self.norm, self.estimate())
        return {"size": norm, "standard_error": error}

    def result(self) -> Tensor:
        """Return the mean so far."""
        return self.estimate().value.clone()

    def norm(self, estimate: Tensor) -> float:
        """Return the norm of an estimate, a number or a vector."""
        estimate = estimate.detach()
        norm = self.space.norm(estimate) if estimate.ndim else estimate.abs()
        return float(norm.item())

    def add(self, sample: Tensor) -> None:
        """Add a sample, by the recurrence of Welford."""
        self.count += 1
        if self.count == 1:
            self.mean = sample
            # Squares of differences in this unit stay in range.
            self.unit = Space().unit(sample)
            self.squares = torch.zeros_like(sample.detach().abs())
            return
        apart = sample - self.mean
        self.mean = torch.add(self.mean, apart, alpha=1 / self.count)
        square = (apart.detach() / self.unit).abs().square_()
        self.squares.add_(square, alpha=1 - 1 / self.count)

    def estimate(self) -> Estimate:
        """Return the estimate so far."""
        total = self.mean.detach().abs().sum()
        if self.mean.ndim:
            (total,) = self.space.total(total)
        check_finite(self.owner, float(total.item()))
        degrees = self.count - 1  # degrees of freedom, because the mean is estimated, too
        spread = self.squares / (degrees * self.count) if degrees else self.squares + math.inf
        return Estimate(self.exact + self.mean, spread.clamp(min=0).sqrt() * self.unit)
