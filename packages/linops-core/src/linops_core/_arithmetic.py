"""What operators do with ``@ + - * / **``: each builds another operator."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from torch import Tensor

if TYPE_CHECKING:
    from ._linop import NamedLinop


class Arithmetic:
    """The arithmetic of operators, for :class:`NamedLinop` to inherit.

    The rules are in ``_algebra``, which knows all kinds of operators. It is imported when an
    expression is built, because each of those kinds is itself a NamedLinop. ``self`` is typed Any:
    it is always a NamedLinop, which a class that this one inherits from cannot say.
    """

    # NumPy is to leave its scalars to __rmul__, and not to spread an operator over an array.
    __array_ufunc__ = None

    @overload
    def __matmul__(self: Any, other: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self: Any, other: NamedLinop) -> NamedLinop: ...
    def __matmul__(self: Any, other: Tensor | NamedLinop) -> Tensor | NamedLinop:
        """Return A x for a tensor, the composition A B for an operator."""
        result: Tensor | NamedLinop
        if isinstance(other, Tensor):
            result = self(other)
        else:
            result = self.compose(other) if isinstance(other, Arithmetic) else NotImplemented
        return result

    def compose(self: Any, inner: NamedLinop) -> NamedLinop:
        """Return the operator that applies ``inner`` first, then this one.

        Identities and zeros vanish, numbers are collected into one, chains are flattened. What
        follows a normal operator (N -> N1) may speak of its output as N.

        Raises
        ------
        ValueError
            If the two do not fit, in names or in sizes.
        """
        from ._algebra import composed

        return composed(inner, self)

    def __add__(self: Any, other: NamedLinop) -> NamedLinop:
        """Return A + B.

        What is added to a normal operator (N -> N1) may speak of its output as N.
        """
        from ._algebra import summed

        return summed(self, other) if isinstance(other, Arithmetic) else NotImplemented

    def __radd__(self: Any, other: object) -> NamedLinop:
        """Return A for 0 + A, so that ``sum`` works."""
        result: NamedLinop = self if isinstance(other, int) and other == 0 else NotImplemented
        return result

    def __sub__(self: Any, other: NamedLinop) -> NamedLinop:
        """Return A - B."""
        result: NamedLinop = self + (-other) if isinstance(other, Arithmetic) else NotImplemented
        return result

    def __neg__(self: Any) -> NamedLinop:
        """Return -A."""
        result: NamedLinop = -1 * self
        return result

    def __pos__(self: Any) -> NamedLinop:
        """Return A."""
        result: NamedLinop = self
        return result

    def __mul__(self: Any, scalar: complex | Tensor) -> NamedLinop:
        """Return the operator times a real or complex number."""
        from ._algebra import scaled
        from ._scalar import is_scalar

        return scaled(self, scalar) if is_scalar(scalar) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self: Any, scalar: complex | Tensor) -> NamedLinop:
        """Return the operator divided by a real or complex number."""
        from ._scalar import is_scalar

        result: NamedLinop = self * (1 / scalar) if is_scalar(scalar) else NotImplemented
        return result

    def __pow__(self: Any, exponent: SupportsIndex) -> NamedLinop:
        """Return A applied ``exponent`` times.

        Raises
        ------
        ValueError
            If the exponent is negative, or the operator does not map a space to itself.
        """
        from ._algebra import power

        whole = isinstance(exponent, Integral)
        result: NamedLinop = power(self, int(exponent)) if whole else NotImplemented
        return result
