"""The solution x of (A^H A + lam I) x = y in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from .._base._arithmetic import rules
from .._base._linop import NamedLinop
from .._base._question import Question, acts_as
from .._kernels._accumulate import writing_is_safe
from .._kernels._dtype import is_dense, not_a_tensor
from .._kernels._tracing import make_in_plain_python
from .._numbers import check_real
from ._add import Add
from ._chain import Chain
from ._identity import Identity
from ._normal import Normal
from ._scalar import Scalar


class Eigenbasis(NamedTuple):
    """The basis in which A^H A is diagonal: U, then a Fourier transform along some axes."""

    unitary: NamedLinop
    """U. Its normal U^H U may be another number than 1."""
    axes: tuple[int, ...]
    normal: NamedLinop
    """The inner operator M of A^H A = U^H M U: elementwise, or circulant along the axes."""


@Question
def shift_axes(linop: NamedLinop) -> tuple[int, ...]:
    """Return the axes along which a circular shift of the input shifts the output alike.

    None by default. The Fourier transform along these axes diagonalises the normal operator, and
    ``A.solve_shifted`` uses this. Input and output must have the same axes.
    """
    return ()


def solve_shifted(linop: NamedLinop, y: Tensor, lam: float | Tensor) -> Tensor:
    r"""Return :math:`U^H (U y / (d + \lambda))`, where :math:`A^H A = U^H \mathrm{diag}(d) U`."""
    if not is_dense(y):
        raise not_a_tensor(linop.signature, "y", y)
    least = _checked_shift(linop, lam)
    unitary, axes, normal = make_in_plain_python(_diagonalised, linop)
    z = unitary(y if y.is_floating_point() or y.is_complex() else y.to(torch.get_default_dtype()))
    axes = axes if z.numel() else ()
    ones = torch.ones_like(z.real)
    scale = unitary.H.N(ones).real
    denominator = scale * (_eigenvalues(normal, ones, axes) if axes else normal(ones).real) + lam
    if least < torch.finfo(denominator.dtype).tiny and _has_values(denominator):
        if not denominator.all():
            raise ValueError(
                f"{linop.signature}: lam must be positive if A.N has no inverse, got {least} "
                f"and zeros among the eigenvalues of {normal.signature}"
            )
    return unitary.H(_divided(z, scale * denominator, axes, normal))


rules.solve_shifted = solve_shifted


def _divided(z: Tensor, divisor: Tensor, axes: tuple[int, ...], normal: NamedLinop) -> Tensor:
    """Divide z entry by entry, after a Fourier transform along the axes."""
    if not axes:
        return z / divisor
    wide = z.to(torch.promote_types(z.dtype, torch.float32))  # half precision has no transforms
    quotient: Tensor = torch.fft.ifftn(torch.fft.fftn(wide, dim=axes) / divisor, dim=axes)
    is_real = not (z.is_complex() or normal(torch.zeros_like(z)).is_complex())
    return quotient.real.to(z.dtype) if is_real else quotient


def _diagonalised(linop: NamedLinop) -> Eigenbasis:
    """Return the basis in which A^H A is diagonal."""
    if not linop.is_complex_linear:
        raise ValueError(
            f"{linop.signature}: (A.N + lam I)^-1 must have a closed form, got an operator that is "
            "linear over the reals only, and may treat real and imaginary parts differently; use "
            "linops_solvers.conjugate_gradients(A.N + lam * Identity(), y)"
        )
    factors = linop.flatten()
    # Numbers commute with all other operands, and must not hide a unitary operand.
    numbers = [factor.anywhere() for factor in factors if acts_as(factor, Scalar)]
    others = [factor for factor in factors if not acts_as(factor, Scalar)]
    unitary: list[NamedLinop] = []
    rest = linop
    axes: tuple[int, ...] = ()
    while (reason := _why_not_diagonal(rest.N)) is not None:
        if axes := _circulant_axes(rest.N):
            break
        left = others[0]
        if not (_is_number(left.N) and _is_number(left.H.N)):
            raise ValueError(
                f"{linop.signature}: (A.N + lam I)^-1 must have a closed form, got {left.signature}"
                f", which is not known to be unitary, and the normal of {rest.signature}, which "
                f"is not known to multiply element by element: {reason}; use "
                "linops_solvers.conjugate_gradients(A.N + lam * Identity(), y)"
            )
        unitary.append(others.pop(0))
        rest = rules.compose(*others, *numbers)
    return Eigenbasis(rules.compose(*unitary) if unitary else Identity(linop.ishape), axes, rest.N)


def _why_not_diagonal(normal: NamedLinop) -> str | None:
    """Return why a normal operator is not known to be elementwise, or None if it is.

    An operator that can be sliced along every dimension can be cut into single elements.
    """
    factors = [factor for factor in normal.flatten() if not _is_number(factor)]
    if not factors:
        return None
    normal = rules.compose(*factors)
    for idim, odim in zip(normal.ishape, normal.oshape, strict=True):
        if idim != odim:
            return f"all elements along {idim} depend on each other"
        if (reason := normal.why_opaque(idim)) is not None:
            return f"{idim}: {reason}"
    return None


def _is_number(linop: NamedLinop) -> bool:
    """Whether an operator is known to multiply with a number, which may depend on the sizes."""
    if acts_as(linop, Normal):
        return linop.multiplies_by == "number"
    return acts_as(linop, Identity) or acts_as(linop, Scalar)


def _leaves(linop: NamedLinop) -> Iterator[NamedLinop]:
    """Yield what a sum of products is made of."""
    if acts_as(linop, Chain) or acts_as(linop, Add):
        for operand in linop.linops:
            yield from _leaves(operand)
    else:
        yield linop


def _circulant_axes(normal: NamedLinop) -> tuple[int, ...]:
    """Return the axes along which a circular shift of the input shifts the output; () if none."""
    axes_of_leaves = {shift_axes(leaf) for leaf in _leaves(normal) if not _is_number(leaf)}
    axes = axes_of_leaves.pop() if len(axes_of_leaves) == 1 else ()
    for position, (idim, odim) in enumerate(zip(normal.ishape, normal.oshape, strict=True)):
        if {position, position - len(normal.ishape)} & {*axes}:
            continue
        if idim != odim or normal.why_opaque(idim) is not None:
            return ()
    return axes


def _eigenvalues(normal: NamedLinop, ones: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the eigenvalues of a circulant operator: the Fourier transform of a column."""
    impulse = ones
    for axis in axes:
        first = torch.arange(ones.shape[axis], device=ones.device) == 0
        impulse = impulse * first.view(-1, *[1] * (ones.ndim - 1 - axis % ones.ndim))
    column = normal(impulse)
    column = column.to(torch.promote_types(column.dtype, torch.float32))
    values = torch.fft.fftn(column, dim=axes).real
    # Values below the rounding of the largest one of their batch count as zeros.
    noise = 16 * torch.finfo(values.dtype).eps * values.detach().abs().amax(axes, keepdim=True)
    return torch.where(values > noise, values, 0)


def _checked_shift(linop: NamedLinop, lam: float | Tensor) -> float:
    """Return the value of the shift, or infinity if it cannot be read."""
    if isinstance(lam, Tensor):
        lam = lam.detach()
        if not (lam.ndim or lam.is_complex() or _has_values(lam)):
            return math.inf
    return check_real(linop.signature, "lam", lam, 0)


def _has_values(tensor: Tensor) -> bool:
    """Whether values may be read: not where they are traced or transformed."""
    return not tensor.is_meta and type(tensor) in (Tensor, Parameter) and writing_is_safe()
