"""Half precision: solvers compute in single precision, and apply operators in half."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from linops_core import NamedLinop

from ._checks import (
    Operator,
    check_callable,
    check_input_kept,
    check_scale,
    is_complex_linear,
    version_of,
)
from ._products import LARGEST_UNIT, is_moderate
from ._space import Space, norms_of, spaces_of
from ._stacked import StackedOperators

_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


_SOLUTION_RULE = "the scale of A and y must be such that the solution is"


class OperatorPair:
    """An operator and its adjoint, and the spaces of their vectors.

    Both are applied by ``forward`` and ``adjoint``. Where the dtype is half precision, these take
    and return tensors in single precision. They refuse an operator that writes into its input.

    Parameters
    ----------
    owner : str
        The name of the solver, for messages.
    A : NamedLinop or function
    adjoint : function, optional
        Of a function it is asked for when it is needed. Of a Hermitian function it is A itself.
    dtype : torch.dtype
        That of the vectors.
    name : str
        The name of A in messages.
    like : OperatorPair, optional
        Another pair, of whose operators these functions are made. They have its spaces.
    spaces : pair of Space, optional
        The spaces of input and output; they follow from A.
    input_space : Space, optional
        A space in which vectors of the input are also.

    Raises
    ------
    TypeError
        If A or the adjoint cannot be called. When the adjoint is needed, if A is a function and
        came without it.
    """

    def __init__(
        self,
        owner: str,
        A: Operator,
        adjoint: Operator | None,
        dtype: torch.dtype,
        name: str = "A",
        *,
        like: OperatorPair | None = None,
        spaces: tuple[Space, Space] | None = None,
        input_space: Space | None = None,
    ) -> None:
        self.owner, self.dtype, self.name = owner, dtype, name
        # Functions that are made of an operator do not show whether it is complex linear.
        self.is_complex_linear = is_complex_linear(A if like is None else like)
        self.forward = applied_in_half(owner, A, dtype, name)
        """The function of A."""
        self.has_normal = adjoint is None
        if adjoint is None:
            adjoint = A.H if isinstance(A, NamedLinop) else partial(_no_adjoint, owner, A)
        self.given = (A, adjoint)
        if spaces is None and like is not None:
            spaces = like.input, like.output
        elif spaces is None and isinstance(A, StackedOperators):
            spaces = A.spaces(input_space)
        self.input: Space
        """The space of the input."""
        self.output: Space
        """The space of the output."""
        self.input, self.output = spaces or spaces_of(owner, A, input_space)
        self.adjoint = applied_in_half(owner, adjoint, dtype, "the adjoint")
        """The function of the adjoint."""

    def sketch(self, like: Tensor) -> dict[str, tuple[Space, Tensor]]:
        """Return what A and its adjoint make of a random vector, for a fingerprint."""
        image = self.forward(self.input.random_like(like.detach()))
        back = self.adjoint(image)
        return {
            self.name: (self.output, image),
            f"the adjoint of {self.name}": (self.input, back),
        }

    def norms_of(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor] = (),
        *,
        products: Sequence[tuple[Tensor, Tensor]] = (),
    ) -> list[float]:
        """Return norms of inputs and then of outputs, and Re x^H z of pairs of inputs."""
        pairs = [(self.input, *pair) for pair in products]
        return norms_of(self.owner, (self.input, inputs), (self.output, outputs), products=pairs)

    def in_moderate_unit(
        self, unit: float, most: float = LARGEST_UNIT, back: Tensor | None = None
    ) -> tuple[OperatorPair, float]:
        """Return A over a unit, and the unit; itself and 1 if both are at most ``most``.

        ``unit`` is that of an output of A or its adjoint for a vector near 1. If it is the output
        of the adjoint for data, give that as ``back``: where it is small, A may be small, or the
        data out of its range, so that A is applied to a random vector.
        """
        most = LARGEST_UNIT if self.dtype in _WIDE else most
        if back is not None and unit < 1 / most:
            with torch.no_grad():
                image = self.forward(self.input.random_like(back.detach()))
            unit = max(unit, self.output.unit_of(self.owner, image, is_output=True))
        check_scale(self.owner, unit, self.dtype)
        if 1 / most <= unit <= most:
            return self, 1.0
        dtype = torch.promote_types(self.dtype, torch.float32)
        forward, adjoint = lambda x: self.forward(x) / unit, lambda y: self.adjoint(y) / unit
        pair = OperatorPair(self.owner, forward, adjoint, dtype, self.name, like=self)
        pair.dtype = self.dtype  # of its rounding
        return pair, unit

    def normal(self) -> Operator:
        """Return A^H A: ``A.N`` of a NamedLinop, else the product."""
        A = self.given[0]
        if isinstance(A, StackedOperators):
            return applied_in_half(self.owner, A.normal, self.dtype, f"the normal of {self.name}")
        if self.has_normal and isinstance(A, NamedLinop):
            return applied_in_half(self.owner, A.N, self.dtype, f"{self.name}.N")
        return lambda x: self.adjoint(self.forward(x))


def _no_adjoint(owner: str, A: Operator, y: Tensor) -> Tensor:
    raise TypeError(f"{owner}: the adjoint of a function must be given (adjoint=), got {A!r}")


def applied_in_half(
    owner: str,
    A: Callable[..., Tensor],
    dtype: torch.dtype,
    name: str = "A",
    *,
    may_write: bool = False,
) -> Callable[..., Tensor]:
    """Return A, or a proximal map, for tensors in single precision where the dtype is half.

    An A that writes into its input raises a ValueError, unless it may.
    """
    check_callable(owner, name, A)
    is_half = dtype in _WIDE

    def apply(x: Tensor, *others: object) -> Tensor:
        version = version_of(x)
        image = A(to_half(x, dtype), *others)
        if not isinstance(image, Tensor):
            raise TypeError(
                f"{owner}: {name} must return a torch.Tensor, got {type(image)}; convert it by "
                "torch.as_tensor"
            )
        if not may_write:
            check_input_kept(owner, name, x, version)
        if is_half and image.dtype not in _WIDE:
            raise ValueError(
                f"{owner}: {name} must return the precision that it is given, {dtype}, "
                f"got {image.dtype}"
            )
        return at_least_single(image) if is_half else image

    return apply


def in_own_space(owner: str, A: Operator, dtype: torch.dtype, name: str = "A") -> Operator:
    """Return A as ``applied_in_half`` does; an output must have the shape and dtype of the input.

    Raises
    ------
    ValueError
        If it is called and does not map a space to itself, or writes into its input.
    """
    inside = applied_in_half(owner, A, dtype, name)

    def apply(x: Tensor) -> Tensor:
        image = inside(x)
        if (image.shape, image.dtype) != (x.shape, x.dtype):
            advice = f"; give vectors of {image.dtype}" if image.shape == x.shape else ""
            raise ValueError(
                f"{owner}: {name} must map a space to itself, got an output of shape "
                f"{tuple(image.shape)} and {image.dtype} for an input of shape {tuple(x.shape)} "
                f"and {x.dtype}{advice}"
            )
        return image

    return apply


def at_least_single(x: Tensor) -> Tensor:
    """Return x in single precision where it is in half precision, else x itself.

    Unsigned integers of several bytes, in which torch computes little, become int64.
    """
    if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return x.long()
    return x.to(_WIDE[x.dtype]) if x.dtype in _WIDE else x


def to_half(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x in the half precision of a dtype, complex if x is; x itself for other dtypes."""
    if dtype not in _WIDE:
        return x
    return x.to(torch.complex32 if x.is_complex() else dtype.to_real())


def in_given_precision(
    owner: str,
    x: Tensor,
    dtype: torch.dtype,
    unit: float | Tensor = 1.0,
    space: Space | None = None,
    *,
    of_y: float | Tensor = 1.0,
    rule: str = _SOLUTION_RULE,
) -> Tensor:
    """Return x times a unit, in new memory, in the precision of a dtype.

    If it leaves the range of the dtype, an ArithmeticError is raised. ``space`` is that of x, and
    ``of_y`` the unit of the data: x may be as small as they are, and as coarse.
    """
    # Two factors, because the unit may be out of range although the product is not.
    is_plain = isinstance(unit, Tensor) or is_moderate(unit)
    root = 1.0 if is_plain else 2.0 ** (math.frexp(unit)[1] // 2)
    scaled = x * unit if is_plain else x * root * (unit / root)
    result = to_half(scaled, dtype)
    if result is scaled and is_moderate(unit):
        return result
    space, exact, information = space or Space(), x.detach(), torch.finfo(result.dtype)
    precision, spacing = information.eps, information.tiny * information.eps
    lost = space.norm(at_least_single(result.detach()) / root / (unit / root) - exact)
    size, count = space.norm(exact), space.count(exact) / max(lost.numel(), 1)
    # Units are such that results are near 1, or small where the exact ones are 0. The smallest
    # numbers have one spacing, to which entries of y are rounded, too; A may be a little above 1.
    of_data = 2 * math.sqrt(count) * spacing / of_y
    is_kept = (lost <= precision * (size + precision)) | ((lost <= of_data) & (lost < size / 2))
    if not is_kept.all():
        got = "numbers too small for it" if result.isfinite().all() else "infinity"
        raise out_of_range(owner, result.dtype, got, rule)
    return result


def out_of_range(
    owner: str, dtype: torch.dtype, got: str, rule: str = _SOLUTION_RULE
) -> ArithmeticError:
    """Return the error for a result that must be in the range of a dtype."""
    advice = "; convert A and the vectors by .float()" if dtype in _WIDE else ""
    return ArithmeticError(f"{owner}: {rule} in the range of {dtype}, got {got}{advice}")


def rounding_of(dtype: torch.dtype) -> float:
    """Return the assumed rounding of A x in a dtype, relative to |A| |x|."""
    # Measured for 300 columns: up to 2.5 times the precision, half of it where only A is in half.
    return (2 if dtype in _WIDE else 4) * torch.finfo(dtype).eps
