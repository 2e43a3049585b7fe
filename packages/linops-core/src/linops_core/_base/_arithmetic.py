"""Arithmetic of operators: ``@ + - * / **`` and shifted inverses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from numbers import Complex
from typing import (
    TYPE_CHECKING,
    Literal,
    Self,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeGuard,
    overload,
)

from torch import Tensor

from .._kernels._tracing import make_in_plain_python
from .._numbers import is_integer
from ._dimensions import DimensionedModule

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

_ADD_NUMBER = (
    "if A maps a space to itself, add a multiple of the identity, A + c * Identity({names})"
)
_ADD_ARRAY = "add tensors to the result, A(x) + y"
_NO_INVERSE = "solve with A instead, as by linops_solvers.conjugate_gradients"
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
    ("**", "number"): "only a Diagonal has other powers, all real ones",
    ("/", "array"): _SCALE_ENTRIES,
}


class Rules:
    """Functions of compositions that the base calls, without a choice by class.

    Imports go from compositions to the base. So the module in ``_algebra`` with the class that a
    function returns, such as ``_chain``, sets the function when it is imported.
    """

    compose: Callable[..., NamedLinop]
    """Composes operators; the first one is applied first."""
    add: Callable[..., NamedLinop]
    scale: Callable[[NamedLinop, complex | Tensor], NamedLinop]
    divide: Callable[[NamedLinop, complex | Tensor], NamedLinop]
    power: Callable[[NamedLinop, int], NamedLinop]
    conjugate: Callable[[NamedLinop], NamedLinop]
    normal: Callable[[NamedLinop, NamedLinop | None], NamedLinop]
    """Makes A^H inner A from A and an optional inner operator."""
    solve_shifted: Callable[..., Tensor]
    """Returns x with (A^H A + lam I) x = y for A, y and lam."""
    tile_that_follows_weights: Callable[..., NamedLinop]
    """Returns a tile that follows the weights, for A, a window and what ``split`` of A returns."""


rules = Rules()


def is_scalar(value: object) -> TypeGuard[complex | Tensor]:
    """Whether ``value`` is a number of Python or NumPy, or a tensor without dimensions."""
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Complex)


def _kind(value: object) -> str | None:
    """Return the kind of a wrong operand, for messages; None for unknown classes."""
    if isinstance(value, Arithmetic):
        return "operator"
    if is_scalar(value):
        return "number"
    if isinstance(value, (Tensor, list, tuple)) or hasattr(value, "__array_interface__"):
        return "array"
    return "other" if isinstance(value, (str, bytes, type(None), Mapping, Set)) else None


class Arithmetic(DimensionedModule):
    """The arithmetic of operators, for :class:`NamedLinop` to inherit."""

    # So that NumPy calls __rmul__ for its scalars, and does not loop over an array.
    __array_ufunc__ = None

    @overload
    def __matmul__(self, other: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, other: NamedLinop) -> NamedLinop: ...
    def __matmul__(self, other: Tensor | NamedLinop) -> Tensor | NamedLinop:
        """Return A x for a tensor, the composition A B for an operator."""
        if isinstance(other, Tensor):
            result: Tensor = self(other)
            return result
        return self.compose(other) if isinstance(other, Arithmetic) else _refused(self, "@", other)

    def __rmatmul__(self, other: object) -> NamedLinop:
        """Raise an error for x @ A: an operator acts on the operand to its right."""
        rule, advice = "stand before what it acts on", "write A(x), A @ x or c * A"
        return _refused(self, "@", other, rule, advice)

    def compose(self, inner: NamedLinop) -> NamedLinop:
        """Return the operator that applies ``inner`` first, then this one.

        Identities and zeros are removed, numbers are collected into one, chains are flattened. An
        operator after a normal operator (N -> N1) may name its input N.

        Raises
        ------
        ValueError
            If the two do not fit, in names or in sizes.
        """
        return make_in_plain_python(rules.compose, inner, self)

    def __add__(self, other: NamedLinop) -> NamedLinop:
        """Return A + B.

        An operator added to a normal operator (N -> N1) may name its output N.
        """
        if not isinstance(other, Arithmetic):
            return _refused(self, "+", other)
        return make_in_plain_python(rules.add, self, other)

    def __radd__(self, other: object) -> Self | NamedLinop:
        """Return A for 0 + A, so that ``sum`` works."""
        return self if isinstance(other, int) and other == 0 else _refused(self, "+", other)

    def __sub__(self, other: NamedLinop) -> NamedLinop:
        """Return A - B."""
        return self + -other if isinstance(other, Arithmetic) else _refused(self, "-", other)

    def __rsub__(self, other: object) -> NamedLinop:
        """Raise an error for c - A that says what to write instead."""
        return _refused(self, "-", other)

    def __neg__(self) -> NamedLinop:
        """Return -A."""
        return -1 * self

    def __pos__(self) -> Self:
        """Return A."""
        return self

    def __mul__(self, scalar: complex | Tensor) -> NamedLinop:
        """Return the operator times a real or complex number."""
        if not is_scalar(scalar):
            return _refused(self, "*", scalar)
        return make_in_plain_python(rules.scale, self, scalar)

    __rmul__ = __mul__

    def __truediv__(self, scalar: complex | Tensor) -> NamedLinop:
        """Return the operator divided by a real or complex number.

        Raises
        ------
        ZeroDivisionError
            If the number is zero. A tensor on another device or with a gradient is not read, and
            its results are not finite.
        """
        if not is_scalar(scalar):
            return _refused(self, "/", scalar)
        return make_in_plain_python(rules.divide, self, scalar)

    def __rtruediv__(self, other: object) -> NamedLinop:
        """Raise an error for c / A: there is no inverse."""
        return _refused(self, "/", other, "not be a divisor", _NO_INVERSE)

    def __pow__(self, exponent: SupportsIndex | SupportsFloat) -> NamedLinop:
        """Return A applied ``exponent`` times.

        Raises
        ------
        ValueError
            If the exponent is negative, or the operator does not map a space to itself.
        """
        if not is_integer(exponent):
            return _refused(self, "**", exponent)
        return make_in_plain_python(rules.power, self, int(exponent))

    def solve_shifted(self, y: Tensor, lam: float | Tensor) -> Tensor:
        r"""Return :math:`x = (A^H A + \lambda I)^{-1} y` in closed form, if one is known.

        A closed form is known in three cases. ``A.N`` multiplies element by element
        (:class:`Diagonal`, :class:`Scalar`, :class:`Sampling`, coil maps). ``A.N`` multiplies
        element by element between a unitary operator and its adjoint, as for a mask after an
        :class:`FFT` of any norm. ``A.N`` is a circular convolution along the same dimensions
        (:class:`Convolution`). Gradients reach y, lam and the weights.

        Parameters
        ----------
        y : Tensor
            Of shape ``ishape``.
        lam : float or Tensor
            Not negative; a tensor must have no dimensions.

        Returns
        -------
        Tensor
            Of the shape of y; complex if the unitary operator is complex.

        Raises
        ------
        TypeError
            If y is not a tensor, or lam no real number.
        ValueError
            If no closed form is known: solve with :func:`linops_solvers.conjugate_gradients` and
            ``A.N + lam * Identity()``. Also if lam is negative or not finite, or if lam is zero and
            A maps a nonzero vector to zero.

        Examples
        --------
        >>> import torch
        >>> from linops_core import FFT, Sampling
        >>> mask = Sampling.from_mask(torch.tensor([True, False]), input_shape=("Kx",))
        >>> A = mask @ FFT(1)
        >>> x = A.solve_shifted(torch.tensor([1.0, 1.0]), 1.0)
        >>> x
        tensor([0.5000+0.j, 0.5000+0.j])
        >>> torch.allclose(A.N(x) + 1.0 * x, torch.tensor([1.0 + 0j, 1.0]))
        True
        """
        return rules.solve_shifted(self, y, lam)


def _refused(
    linop: DimensionedModule, sign: Sign, other: object, rule: str = "", advice: str = ""
) -> NamedLinop:
    """Raise an error for a wrong operand that says what to write instead.

    With a rule, the operand is to the left of the operator. For operands of other classes,
    which may support operators, return NotImplemented.
    """
    if (kind := _kind(other)) is None:
        return NotImplemented  # type: ignore[no-any-return]
    shown = other if kind == "number" else type(other)
    if isinstance(other, Arithmetic):
        shown = other.signature
    if rule:
        raise TypeError(
            f"{linop.signature}: an operator must {rule}, got {shown} {sign} A; {advice}"
        )
    names = "".join(f"{str(dim)!r}, " for dim in linop.ishape)
    instead = _INSTEAD.get((sign, kind), "").format(names=f"({names.strip()})")
    raise TypeError(
        f"{linop.signature}: the operand of {sign} must be {_WANTED[sign]}, got {shown}"
        f"{instead and f'; {instead}'}"
    )
