"""The solution x of (A^H A + lam I) x = y in closed form."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor
from torch.nn import Parameter

from .._base._linop import NamedLinop
from .._base._rules import rules
from .._kernels._accumulate import writing_is_safe
from .._kernels._tracing import built
from ._chain import flat
from ._identity import Identity, is_unitary
from ._scalar import Scalar


def solve_shifted(linop: NamedLinop, y: Tensor, lam: float | Tensor) -> Tensor:
    r"""Return :math:`U^H (U y / (d + \lambda))`, where :math:`A^H A = U^H \mathrm{diag}(d) U`."""
    if not isinstance(y, Tensor):
        raise TypeError(f"{linop.signature}: y must be a torch.Tensor, got {type(y)}")
    least = _checked_shift(linop, lam)
    unitary, diagonal = built(_diagonalised, linop)
    z = unitary(y if y.is_floating_point() or y.is_complex() else y.to(torch.get_default_dtype()))
    denominator = diagonal(torch.ones_like(z.real)).real + lam
    if least < torch.finfo(denominator.dtype).tiny and _has_values(denominator):
        if not denominator.all():
            raise ValueError(
                f"{linop.signature}: lam must be positive where A.N has no inverse, got {least} "
                f"and zeros on the diagonal of {diagonal.signature}"
            )
    return unitary.H(z / denominator)


def _diagonalised(linop: NamedLinop) -> tuple[NamedLinop, NamedLinop]:
    """Return a unitary U and an elementwise D with A^H A = U^H D U."""
    if not linop.is_complex_linear:
        raise ValueError(
            f"{linop.signature}: (A.N + lam I)^-1 must have a closed form, got an operator that is "
            "linear over the reals only, and may treat real and imaginary parts differently; use "
            "linops_core.alg.conjugate_gradients(A.N + lam * Identity(), y)"
        )
    parts = flat([linop])
    # Numbers commute with all other operands, and must not hide a unitary operand.
    numbers = [part.anywhere() for part in parts if isinstance(part, Scalar)]
    others = [part for part in parts if not isinstance(part, Scalar)]
    unitary: list[NamedLinop] = []
    rest = linop
    while (reason := _why_not_diagonal(rest.N)) is not None:
        part = others[0]
        if not is_unitary(part):
            raise ValueError(
                f"{linop.signature}: (A.N + lam I)^-1 must have a closed form, got {part.signature}"
                f", which is not known to be unitary, and the normal of {rest.signature}, which "
                f"is not known to multiply element by element: {reason}; use "
                "linops_core.alg.conjugate_gradients(A.N + lam * Identity(), y)"
            )
        unitary.append(others.pop(0))
        rest = rules.compose(*others, *numbers)
    return rules.compose(*unitary) if unitary else Identity(linop.ishape), rest.N


def _why_not_diagonal(normal: NamedLinop) -> str | None:
    """Return why a normal operator is not known to be elementwise, or None if it is.

    An operator that can be sliced along every dimension can be cut into single elements.
    """
    for here, there in zip(normal.ishape, normal.oshape, strict=True):
        if here != there:
            return f"all elements along {here} meet each other"
        if (reason := normal.why_opaque(here)) is not None:
            return f"{here}: {reason}"
    return None


def _checked_shift(linop: NamedLinop, lam: float | Tensor) -> float:
    """Return the value of the shift, or infinity if it cannot be read."""
    is_scalar = isinstance(lam, Tensor) and not lam.ndim and not lam.is_complex()
    if not (isinstance(lam, Real) or is_scalar) or isinstance(lam, bool):
        raise TypeError(
            f"{linop.signature}: lam must be a real number or a real tensor without dimensions, "
            f"got {lam!r}"
        )
    if isinstance(lam, Tensor) and not _has_values(lam):
        return math.inf
    value = float(lam.detach() if isinstance(lam, Tensor) else lam)
    if not 0 <= value < math.inf:
        raise ValueError(f"{linop.signature}: lam must be finite and not negative, got {value}")
    return value


def _has_values(tensor: Tensor) -> bool:
    """Whether values may be read: not where they are traced or transformed."""
    return not tensor.is_meta and type(tensor) in (Tensor, Parameter) and writing_is_safe()
