"""Multiplication by a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import frexp
from numbers import Integral, Real
from sys import float_info
from typing import Any, TypeGuard, cast

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._base._arithmetic import is_scalar, rules
from .._base._copying import linked_copy
from .._base._dimensions import is_part_of
from .._base._linop import NamedLinop
from .._base._question import acts_as
from .._base._sliceable import SliceableLinop
from .._kernels._dtype import product_in_wide_dtype
from .._kernels._plain import can_read_values


_EXTREME = 64
"""Numbers beyond this power of two are applied in two steps."""


class Scalar(SliceableLinop):
    r"""Multiplication by one number, :math:`x \mapsto w x`; the adjoint uses :math:`\bar w`.

    Parameters
    ----------
    weight : int, float, complex or Tensor
        A tensor must not have dimensions. It is not copied, and gradients reach it. A Python number
        does not change the precision of the other factor.
    ioshape : sequence of dimensions, optional
        Any dimensions by default.

    Raises
    ------
    TypeError
        If the weight is neither a number nor a tensor without dimensions.

    Examples
    --------
    >>> import torch
    >>> Scalar(2j).H(torch.tensor([1j]))
    tensor([2.+0.j])
    """

    weight: Any  # a Python number or a tensor; mypy has no type for both

    def __init__(
        self,
        weight: complex | Tensor,
        ioshape: Sequence[NamedDimension | str] = ("...",),
    ) -> None:
        super().__init__(NamedShape(ioshape, weight_shape=()))
        if not is_scalar(weight):
            raise TypeError(
                f"{self.name}: the weight must be a number or a tensor without dimensions, "
                f"got {weight!r}"
            )
        if isinstance(weight, Tensor):
            self.register_weight("weight", weight, "weight_shape")
        else:
            self.weight = as_python(weight)

    @staticmethod
    def fn(linop: Scalar, x: Tensor, /) -> Tensor:
        """Return w x."""
        return product_in_wide_dtype(linop.factor(), x)

    @staticmethod
    def adj_fn(linop: Scalar, x: Tensor, /) -> Tensor:
        """Return conj(w) x."""
        return product_in_wide_dtype(_conjugate(linop.factor()), x)

    @staticmethod
    def normal_fn(linop: Scalar, x: Tensor, /) -> Tensor:
        """Return ``|w|^2 x``."""
        factor = linop.factor()
        # Not |w|^2 first: the dtype of a tensor may hold w but not its square.
        return product_in_wide_dtype(_conjugate(factor), product_in_wide_dtype(factor, x))

    adj_normal_fn = normal_fn

    def factor(self) -> Tensor | complex:
        """Return w: the Python number, or the current tensor."""
        return self.weight_part("weight") if self._weights else self.weight

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operator on these dimensions, which must include its own."""
        if not is_part_of(self.ishape, dims, in_order=False) or self.ishape != self.oshape:
            return None
        return linked_copy(self, NamedShape(dims, weight_shape=()))

    def extra_repr(self) -> str:
        """Return the text of ``repr`` for the weight."""
        return super().extra_repr() if isinstance(self.weight, Tensor) else f"weight: {self.weight}"

    def adjoint(self) -> NamedLinop:
        """Return the multiplication by conj(w)."""
        if isinstance(self.weight, Tensor):
            return super().adjoint()
        # The number itself is conjugated, because rules multiply numbers by their values.
        return linked_copy(self, self.shape.H, weight=self.weight.conjugate())

    def conj(self) -> NamedLinop:
        """Return the multiplication by conj(w)."""
        if isinstance(self.weight, Tensor):
            return super().conj()
        return linked_copy(self, weight=self.weight.conjugate())

    def own_normal(self) -> NamedLinop:
        """Return the multiplication by ``|w|^2``."""
        if is_number(self):
            squared = (self.weight * self.weight.conjugate()).real
            if may_be_moved(squared) and bool(squared) == bool(self.weight):  # not rounded to zero
                return Scalar(squared, self.ishape)
        return super().own_normal()

    def anywhere(self) -> Scalar:
        """Return the multiplication by w for any dimensions, if it commutes with operators."""
        return linked_copy(self, NamedShape(("...",), weight_shape=()))


def scale(linop: NamedLinop, number: complex | Tensor) -> NamedLinop:
    """Return ``number`` times the operator."""
    if isinstance(number, Tensor):
        return rules.compose(linop, Scalar(number, linop.oshape))
    number, step = _near_one(as_python(number))
    return _in_steps(linop, number, step)


def divide(linop: NamedLinop, number: complex | Tensor) -> NamedLinop:
    """Return the operator divided by a number."""
    if isinstance(number, Tensor):
        if number.is_floating_point() or number.is_complex():
            is_known = number.is_cpu and can_read_values(number) and not number.requires_grad
            if not is_known:
                return scale(linop, 1 / number)
        number = number.item()  # a reciprocal may be out of range of the tensor's dtype
    number, step = _near_one(as_python(number))
    if number == 0:
        raise ZeroDivisionError(f"{linop.signature}: the divisor must not be 0, got {number}")
    return _in_steps(linop, 1 / number, 1 / step)


def _near_one(number: complex) -> tuple[complex, float]:
    """Return n and a step s with ``number`` = n s^2: 1 for a number that is not extreme."""
    size = max(abs(number.real), abs(number.imag))
    exponent = frexp(size)[1] if size <= float_info.max else 0
    if abs(exponent) <= _EXTREME:
        return number, 1.0
    step = 2.0 ** (exponent // 2)
    return number / step / step, step


def _in_steps(linop: NamedLinop, number: complex, step: float) -> NamedLinop:
    """Return n s^2 A as n s A s.

    So data of moderate size stay in range also where s^2 does not, as 1e40 in float32, on the way
    forth, on the way back and in gradients.
    """
    if step != 1:
        steps = [Scalar(step, dims) for dims in (linop.ishape, linop.oshape)]
        linop = rules.compose(steps[0], linop, steps[1])
    return rules.compose(linop, Scalar(number, linop.oshape))


rules.scale, rules.divide = scale, divide


def may_be_moved(number: complex) -> bool:
    """Whether a number may be moved along a chain: products stay in range."""
    # Not abs(number), which Python refuses for a complex number that is not in range.
    return number == 0 or 1e-6 <= max(abs(number.real), abs(number.imag)) <= 1e6


def commutes(number: complex, linops: Iterable[NamedLinop]) -> bool:
    """Whether a number may be moved past operators; a real number always may."""
    return not isinstance(number, complex) or all([linop.is_complex_linear for linop in linops])


def with_few_numbers(linops: Mapping[int, NamedLinop]) -> dict[int, NamedLinop]:
    """Return the operators by their numbers, with Python numbers multiplied into the last one.

    Numbers that are or would become very large or small stay, because operators between may
    compensate them. A complex number stays before an operator that is linear over the reals only.
    """
    kept, between = dict(linops), list[NamedLinop]()
    last = None
    for position, linop in linops.items():
        if not (is_number(linop) and may_be_moved(number_of(linop))):
            between.append(linop)
            continue
        if last is not None and commutes(number_of(kept[last]), between):
            product = number_of(kept[last]) * number_of(linop)
            if may_be_moved(product):
                del kept[last]
                kept[position] = Scalar(product, linop.ishape)
        last, between = position, []
    return kept


def is_number(linop: object) -> TypeGuard[Scalar]:
    """Whether ``linop`` is the multiplication by a Python number."""
    # The functions of an adjoint multiply by the conjugate of its weight.
    return acts_as(linop, Scalar) and not isinstance(linop.weight, Tensor) and not linop.is_adjoint


def is_real_number(linop: object) -> bool:
    """Whether ``linop`` is the multiplication by a real Python number."""
    return is_number(linop) and not isinstance(linop.weight, complex)


def is_extreme(linops: Iterable[NamedLinop]) -> bool:
    """Whether the product of the numbers among operators is extreme."""
    size = 1.0
    for linop in linops:
        if is_number(linop) and number_of(linop):
            size *= max(abs(number_of(linop).real), abs(number_of(linop).imag))
    return not 2.0**-_EXTREME <= size <= 2.0**_EXTREME


def number_of(linop: NamedLinop) -> complex:
    """Return the Python number of a Scalar."""
    return cast(complex, linop.weight)


def as_python(number: complex) -> complex:
    """Return a number of any kind, such as one of NumPy or a fraction, as a Python number."""
    if isinstance(number, Integral):
        return int(number)
    return float(number) if isinstance(number, Real) else complex(number)


def _conjugate(weight: Any) -> Any:
    return weight.conj() if isinstance(weight, Tensor) else weight.conjugate()
