"""Tensors as vectors: checks of what comes in, sums in place, norms in any unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TypeAlias

import torch
from torch import Tensor

from .._base._linop import NamedLinop
from .._kernels._tracing import is_recorded

Operator: TypeAlias = Callable[[Tensor], Tensor]


def check_vector(owner: str, name: str, y: Tensor) -> None:
    """Refuse what is no tensor of numbers with a fraction.

    Raises
    ------
    TypeError
        If y is neither floating nor complex, or of a dtype without arithmetic.
    """
    if not isinstance(y, Tensor):
        raise TypeError(f"{owner}: {name} must be a torch.Tensor, got {type(y)}")
    if not (y.is_floating_point() or y.is_complex()) or torch.finfo(y.dtype).bits < 16:
        raise TypeError(f"{owner}: {name} must be of a floating or complex dtype, got {y.dtype}")


def check_callable(owner: str, name: str, given: object) -> None:
    """Refuse what cannot be applied to a vector.

    Raises
    ------
    TypeError
        If it is neither an operator nor a function.
    """
    if not callable(given):
        raise TypeError(f"{owner}: {name} must be an operator or a function, got {given!r}")


def check_count(owner: str, name: str, value: int, least: int = 0) -> None:
    """Refuse what is no number of steps or vectors, or one below ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{owner}: {name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{owner}: {name} must be at least {least}, got {value}")


def checked_number(
    owner: str, name: str, value: float, *, is_positive: bool = False, may_be_inf: bool = False
) -> float:
    """Return an option as a float: at least 0, and finite unless infinity has a meaning.

    Parameters
    ----------
    owner, name : str
        Who takes the option and its name, for messages.
    value : float
        Any real number, also a tensor without dimensions.
    is_positive : bool
        Whether 0 is refused too.
    may_be_inf : bool

    Raises
    ------
    TypeError
        If it is no real number.
    ValueError
        If it is out of its range, or NaN.
    """
    is_scalar = isinstance(value, Tensor) and not value.ndim and not value.is_complex()
    if not (isinstance(value, Real) or is_scalar) or isinstance(value, bool):
        raise TypeError(f"{owner}: {name} must be a real number, got {value!r}")
    number = float(value)
    is_large_enough = number > 0 if is_positive else number >= 0
    if not is_large_enough or (number == math.inf and not may_be_inf):
        rule = "positive" if is_positive else "at least 0"
        rule += "" if may_be_inf else " and finite"
        raise ValueError(f"{owner}: {name} must be {rule}, got {number}")
    return number


def check_like(owner: str, name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    """Refuse x where its shape or dtype is not that of the other."""
    if (x.shape, x.dtype) != (other.shape, other.dtype):
        raise ValueError(
            f"{owner}: {name} must have the shape and dtype of {other_name}, "
            f"{tuple(other.shape)} of {other.dtype}, got {tuple(x.shape)} of {x.dtype}"
        )


def in_own_space(owner: str, A: Operator, x: Tensor, name: str = "A") -> Tensor:
    """Return A x, refused where it is not of the shape and dtype of x."""
    check_callable(owner, name, A)
    image = A(x)
    if (image.shape, image.dtype) != (x.shape, x.dtype):
        raise ValueError(
            f"{owner}: {name} must map a space to itself, got an output of shape "
            f"{tuple(image.shape)} and {image.dtype} for an input of shape {tuple(x.shape)} "
            f"and {x.dtype}"
        )
    return image


def with_adjoint(owner: str, A: Operator, adjoint: Operator | None) -> tuple[Operator, Operator]:
    """Return A and its adjoint.

    Raises
    ------
    TypeError
        If A is a function and its adjoint is not given, or one of them cannot be called.
    """
    check_callable(owner, "A", A)
    if adjoint is not None:
        check_callable(owner, "the adjoint", adjoint)
        return A, adjoint
    if isinstance(A, NamedLinop):
        return A, A.H
    raise TypeError(f"{owner}: the adjoint of a function must be given (adjoint=), got {A!r}")


def finite(owner: str, value: float, dtype: torch.dtype | None = None) -> float:
    """Return the value, refused where it is NaN or infinite.

    The dtype is named for a value of which the scale of A may be the reason.
    """
    if not math.isfinite(value):
        why = "" if dtype is None else f"; the scale of A may be past what {dtype} holds"
        raise ArithmeticError(f"{owner}: values must stay finite, got {value}{why}")
    return value


def check_scale(owner: str, units: float | Tensor, dtype: torch.dtype) -> None:
    """Refuse an operator of which the outputs are so small that the dtype rounds them coarsely.

    Parameters
    ----------
    owner : str
    units : float or Tensor
        The largest parts of outputs, for inputs near 1; 0 for zeros, which have no scale.
    dtype : torch.dtype

    Raises
    ------
    ArithmeticError
        If a number that is ``tiny`` of the dtype is more than its precision of an output.
    """
    information = torch.finfo(dtype)
    # Smaller numbers may be flushed to zero, but not in float16: all devices have its subnormals.
    is_gradual = dtype.to_real() is torch.float16
    lowest = information.tiny if is_gradual else information.tiny / information.eps
    for unit in units.tolist() if isinstance(units, Tensor) else [units]:
        if 0 < unit < lowest:
            raise ArithmeticError(
                f"{owner}: the scale of A must be at least {lowest:.2g}, for the precision of "
                f"{dtype}, got outputs of {unit:.2g} for inputs near 1"
            )


def is_moderate(units: float | Tensor) -> bool:
    """Whether squares of sums of squares in these units, which may be 0, are in any range."""
    if isinstance(units, Tensor):
        return bool((((units >= 2.0**-16) & (units <= 2.0**16)) | (units == 0)).all())
    return 2.0**-16 <= units <= 2.0**16 or not units


def add_scaled(x: Tensor, scale: Tensor | float, z: Tensor, into: Tensor | None = None) -> Tensor:
    """Return x + scale z; in the memory of x, or of ``into``, unless autograd follows."""
    into = x if into is None else into
    if not isinstance(scale, Tensor):
        if is_recorded(x, z):
            return torch.add(x, z, alpha=scale)
        return torch.add(x, z, alpha=scale, out=into)
    scale = scale.to(z.dtype)
    if is_recorded(x, z, scale):
        return torch.addcmul(x, scale, z)
    return torch.addcmul(x, scale, z, out=into)


def extrapolated(x: Tensor, z: Tensor, factor: float, into: Tensor | None = None) -> Tensor:
    """Return x + factor (z - x); in the memory of ``into`` unless autograd follows."""
    if into is None or is_recorded(x, z):
        return torch.lerp(x, z, factor)
    return torch.lerp(x, z, factor, out=into)


def real_dot(x: Tensor, z: Tensor) -> Tensor:
    """Return Re(x^H z) as a tensor without dimensions."""
    return torch.vdot(x.flatten(), z.flatten()).real


def normal_of(A: Operator, forward: Operator, adjoint: Operator) -> Operator:
    """Return A^H A: that of the operator itself, which may have a closed form, if it has one."""
    if isinstance(A, NamedLinop) and adjoint is A.H:
        return A.N
    return lambda x: adjoint(forward(x))


def norm(x: Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over some dimensions, or over all.

    Complex numbers are taken for pairs of real ones, for which there are vector instructions: torch
    takes hundreds of times as long for complex norms on a CPU.
    """
    dims = list(dims) or list(range(x.ndim))
    if x.is_complex():
        pairs = torch.view_as_real(x.conj() if x.is_conj() else x)
        length: Tensor = torch.linalg.vector_norm(pairs, dim=[*dims, x.ndim], keepdim=keepdim)
        return length.squeeze(-1) if keepdim else length
    length = torch.linalg.vector_norm(x, dim=dims or None, keepdim=keepdim)
    return length


def largest_part(x: Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Return the largest magnitude of the real and imaginary parts, which must be some."""
    dims = list(dims) or list(range(x.ndim))
    x = x.detach()
    if x.is_complex():
        pairs = torch.view_as_real(x.conj() if x.is_conj() else x).abs()
        part = pairs.amax([*dims, x.ndim], keepdim=keepdim)
        return part.squeeze(-1) if keepdim else part
    return x.abs().amax(dims, keepdim=keepdim)


def magnitudes(owner: str, *vectors: Tensor, numbers: Sequence[Tensor] = ()) -> list[float]:
    """Return the norms of the vectors and, after them, the numbers; one wait for the device.

    A norm whose square leaves the range of the dtype is computed again in another unit.

    Raises
    ------
    ArithmeticError
        If a vector has NaN or infinity.
    """
    norms = [norm(vector.detach()) for vector in vectors]
    found: list[float] = torch.stack([*norms, *(one.detach() for one in numbers)]).tolist()
    for index, vector in enumerate(vectors):
        if not _is_exact(found[index], vector):
            found[index] = _in_other_unit(owner, vector.detach())
    return found


def _is_exact(value: float, vector: Tensor) -> bool:
    information = torch.finfo(vector.dtype)
    # Squares that fall below the range are then, all together, below the precision of the sum.
    lowest = math.sqrt(vector.numel() * information.tiny / information.eps)
    return lowest < value < math.sqrt(information.max)


def _in_other_unit(owner: str, vector: Tensor) -> float:
    largest = finite(owner, largest_part(vector).item()) if vector.numel() else 0.0
    if not largest:
        return 0.0
    unit = 2.0 ** (math.frexp(largest)[1] - 1)
    return float(norm(vector / unit).item()) * unit


def unit_of(owner: str, y: Tensor, is_output: bool = False) -> float:
    """Return the power of two below the largest part of y, maybe an output; 1 for zeros.

    In this unit no square of a norm leaves the range of the dtype, and to change to it and back
    rounds nothing.
    """
    dtype = y.dtype if is_output else None
    largest = finite(owner, largest_part(y).item(), dtype) if y.numel() else 0.0
    # The inverse of a unit must be in the range as well: some devices multiply by it.
    lowest = torch.finfo(y.dtype).tiny
    return min(max(2.0 ** (math.frexp(largest)[1] - 1), lowest), 1 / lowest) if largest else 1.0
