"""The dot test: is the adjoint the adjoint, and if not, by which factor is it off?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .._base._linop import NamedLinop
from .._base._sizes import input_lengths
from ._inner import inner, is_adjoint


class AdjointError(ValueError):
    """An adjoint is not the adjoint; the message says by which factor it is off."""


def dottest(
    A: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float64, torch.complex128),
    trials: int = 3,
    rtol: float | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> None:
    r"""Check :math:`\langle A x, y \rangle = \langle x, A^H y \rangle` on random vectors.

    Parameters
    ----------
    A : NamedLinop
    sizes : mapping of dimension to int, optional
        Sizes of the input's dimensions that the operator does not know. A ``...`` for which
        nothing is given stands for one dimension of size 2.
    dtypes : sequence of torch.dtype
        Of the vectors.
    trials : int
        Pairs of vectors for each dtype.
    rtol : float, optional
        As for :func:`is_adjoint`.
    seed : int
        Of the random numbers.
    device : torch.device or str, optional

    Raises
    ------
    AdjointError
        If the products differ, or the output of the adjoint has not the shape of the input. The
        message says by which factor the adjoint is off, if it is the same for all vectors.
    ValueError
        If the size of a dimension is not known.

    References
    ----------
    J. F. Claerbout, "Earth Soundings Analysis: Processing versus Inversion" (1992), chapter 5.

    Examples
    --------
    >>> from linops_core import FFT
    >>> dottest(FFT(1, norm="backward"), {"Nx": 4})
    >>> class InverseInstead(FFT):
    ...     @staticmethod
    ...     def adj_fn(linop, y):
    ...         return torch.fft.ifft(y)
    >>> try:
    ...     dottest(InverseInstead(1, norm="backward"), {"Nx": 4})
    ... except AdjointError as error:
    ...     print(str(error).rpartition(", ")[2])
    got 0.25 times the adjoint
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = input_lengths(A, sizes, of_run=[2])
    factors: list[complex] = []
    wrong = False
    for dtype in dtypes:
        for _ in range(trials):
            x = torch.randn(lengths, dtype=dtype, generator=generator, device="cpu").to(device)
            there = A(x).detach()
            y = _like(there, generator)
            back = A.H(y).detach()
            if back.shape != x.shape:
                raise AdjointError(
                    f"{A.signature}: the adjoint must return the shape of the input "
                    f"{tuple(x.shape)}, got {tuple(back.shape)}"
                )
            wrong |= not is_adjoint(A, x, y, rtol)
            left, right = complex(inner(there, y)), complex(inner(x, back))
            factors.append(right / left if left else complex("nan"))
    if wrong:
        raise AdjointError(
            f"{A.signature}: the adjoint must satisfy <A x, y> = <x, A^H y>, "
            f"got {_described(factors)}"
        )


def _like(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def _described(factors: Sequence[complex]) -> str:
    """Return in words what the ratios of the two products say."""
    mean = sum(factors) / len(factors)
    if not max(abs(factor - mean) for factor in factors) <= 1e-4 * abs(mean):
        return "what is no multiple of the adjoint"
    number = f"{mean.real:.6g}" if abs(mean.imag) <= 1e-6 * abs(mean) else f"({mean:.6g})"
    return f"{number} times the adjoint"
