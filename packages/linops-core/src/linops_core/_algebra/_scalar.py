"""Multiplication by a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    return rules.compose(linop, Scalar(number, linop.oshape))


def divide(linop: NamedLinop, number: complex | Tensor) -> NamedLinop:
    """Return the operator divided by a number, in steps by which data stay in range."""
    if isinstance(number, Tensor):
        if number.is_floating_point() or number.is_complex():
            is_known = number.is_cpu and can_read_values(number) and not number.requires_grad
            if not is_known:
                return scale(linop, 1 / number)
        number = number.item()  # a reciprocal may be out of range of the tensor's dtype
    number, step = as_python(number), 2.0**100
    if number == 0:
        raise ZeroDivisionError(f"{linop.signature}: the divisor must not be 0, got {number}")
    # The reciprocal of 1e-40 is out of range of float32, that of 1e-310 of float64.
    while 0 < max(abs(number.real), abs(number.imag)) < 1 / step:
        linop, number = scale(linop, step), number * step
    while step < max(abs(number.real), abs(number.imag)) <= float_info.max:
        linop, number = scale(linop, 1 / step), number / step
    return scale(linop, 1 / number)


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
