"""What operators do with ``@ + - * / **``: each builds another operator."""

from __future__ import annotations

from collections.abc import Mapping, Set
from numbers import Complex, Integral
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypeGuard, overload

from torch import Tensor

from .._kernels._tracing import built
from ._rules import rules

if TYPE_CHECKING:
    from ._linop import NamedLinop

Sign: TypeAlias = Literal["@", "+", "-", "*", "/", "**"]

_WANTED: dict[Sign, str] = {
    "@": "an operator or a tensor",
    "+": "an operator",
    "-": "an operator",
    "*": "a number",
    "/": "a number",
    "**": "an integer",
}

_ADD_NUMBER = "add a multiple of the identity, A + c * Identity({names})"
_ADD_ARRAY = "add tensors to the result, A(x) + y"
_NO_INVERSE = "solve with A instead, as by linops_core.alg.conjugate_gradients"
_SCALE_ENTRIES = "multiply entry by entry with Diagonal(w, dims) @ A"

_INSTEAD: dict[tuple[Sign, str], str] = {
    ("@", "number"): "multiply with a number as in c * A",
    ("@", "array"): "apply the operator to a tensor, A(torch.as_tensor(x))",
    ("+", "number"): _ADD_NUMBER,
    ("-", "number"): _ADD_NUMBER,
    ("+", "array"): _ADD_ARRAY,
    ("-", "array"): _ADD_ARRAY,
    ("*", "operator"): "compose operators with A @ B",
    ("*", "array"): f"apply the operator with A(x), or {_SCALE_ENTRIES}",
    ("/", "operator"): _NO_INVERSE,
    ("/", "array"): _SCALE_ENTRIES,
}


_NEVER_OPERANDS = (str, bytes, type(None), Mapping, Set)


def is_scalar(value: object) -> TypeGuard[complex | Tensor]:
    """Whether ``value`` is a number: of Python, of NumPy, or a tensor without dimensions."""
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Complex)


def _refused(linop: Any, sign: Sign, other: object) -> NamedLinop:
    """Refuse an operand that somebody may well write, and say what to write instead.

    Returns
    -------
    NotImplemented
        For operands of other kinds, which may know what to do with an operator.

    Raises
    ------
    TypeError
        If it is an operator, a number, a tensor, an array, a list, None, text, a mapping or a set.
    """
    if isinstance(other, Arithmetic):
        kind = "operator"
    elif isinstance(other, Complex) or (isinstance(other, Tensor) and other.ndim == 0):
        kind = "number"
    elif isinstance(other, (Tensor, list, tuple)) or hasattr(other, "__array_interface__"):
        kind = "array"
    elif isinstance(other, _NEVER_OPERANDS):
        kind = "other"
    else:
        return NotImplemented  # type: ignore[no-any-return]
    instead = _INSTEAD.get((sign, kind), "")
    names = "".join(f"{str(dim)!r}, " for dim in linop.ishape)
    advice = f"; {instead.format(names=f'({names.strip()})')}" if instead else ""
    shown = getattr(other, "signature", None) or (other if kind == "number" else type(other))
    raise TypeError(
        f"{linop.signature}: the operand of {sign} must be {_WANTED[sign]}, got {shown}{advice}"
    )


def _refused_behind(linop: Any, sign: Sign, other: object, rule: str, advice: str) -> NamedLinop:
    """Refuse an operator that stands behind something else, as `_refused` refuses an operand."""
    is_known = isinstance(other, (Complex, Tensor, list, tuple, *_NEVER_OPERANDS))
    if not is_known and not hasattr(other, "__array_interface__"):
        return NotImplemented  # type: ignore[no-any-return]
    shown = other if isinstance(other, Complex) else type(other)
    raise TypeError(f"{linop.signature}: an operator must {rule}, got {shown} {sign} A; {advice}")


class Arithmetic:
    """The arithmetic of operators, for :class:`NamedLinop` to inherit.

    ``self`` is typed Any: it is always a NamedLinop, which a class that this one inherits from
    cannot say.
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
            is_operator = isinstance(other, Arithmetic)
            result = self.compose(other) if is_operator else _refused(self, "@", other)
        return result

    def __rmatmul__(self: Any, other: object) -> NamedLinop:
        """Refuse x @ A: an operator acts on what stands behind it."""
        rule, advice = "stand before what it acts on", "write A(x), A @ x or c * A"
        return _refused_behind(self, "@", other, rule, advice)

    def compose(self: Any, inner: NamedLinop) -> NamedLinop:
        """Return the operator that applies ``inner`` first, then this one.

        Identities and zeros vanish, numbers are collected into one, chains are flattened. What
        follows a normal operator (N -> N1) may speak of its output as N.

        Raises
        ------
        ValueError
            If the two do not fit, in names or in sizes.
        """
        return built(rules.compose, inner, self)

    def __add__(self: Any, other: NamedLinop) -> NamedLinop:
        """Return A + B.

        What is added to a normal operator (N -> N1) may speak of its output as N.
        """
        is_operator = isinstance(other, Arithmetic)
        return built(rules.add, self, other) if is_operator else _refused(self, "+", other)

    def __radd__(self: Any, other: object) -> NamedLinop:
        """Return A for 0 + A, so that ``sum`` works."""
        is_zero = isinstance(other, int) and other == 0
        result: NamedLinop = self if is_zero else _refused(self, "+", other)
        return result

    def __sub__(self: Any, other: NamedLinop) -> NamedLinop:
        """Return A - B."""
        is_operator = isinstance(other, Arithmetic)
        result: NamedLinop = self + (-other) if is_operator else _refused(self, "-", other)
        return result

    def __rsub__(self: Any, other: object) -> NamedLinop:
        """Refuse c - A, and say what to write instead."""
        return _refused(self, "-", other)

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
        if not is_scalar(scalar):
            return _refused(self, "*", scalar)
        return built(rules.scale, self, scalar)

    __rmul__ = __mul__

    def __truediv__(self: Any, scalar: complex | Tensor) -> NamedLinop:
        """Return the operator divided by a real or complex number."""
        is_number = is_scalar(scalar)
        result: NamedLinop = self * (1 / scalar) if is_number else _refused(self, "/", scalar)
        return result

    def __rtruediv__(self: Any, other: object) -> NamedLinop:
        """Refuse c / A: there is no inverse."""
        return _refused_behind(self, "/", other, "not be a divisor", _NO_INVERSE)

    def __pow__(self: Any, exponent: SupportsIndex) -> NamedLinop:
        """Return A applied ``exponent`` times.

        Raises
        ------
        ValueError
            If the exponent is negative, or the operator does not map a space to itself.
        """
        whole = isinstance(exponent, Integral)
        if not whole:
            return _refused(self, "**", exponent)
        result: NamedLinop = built(rules.power, self, int(exponent))
        return result
