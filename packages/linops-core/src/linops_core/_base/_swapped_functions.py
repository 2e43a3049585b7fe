"""The functions of an adjoint: swapped by ``adjoint``, or by hand in a copy."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ._copying import linked_copy
from ._question import Question

_PAIRS = (("fn", "adj_fn"), ("normal_fn", "adj_normal_fn"), ("split", "adj_split"))
SWAPPED = frozenset(name for pair in _PAIRS for name in pair)
"""Static methods that an adjoint has swapped."""


def of_adjoint(linop: Any, x: Tensor, /) -> Tensor:
    """Return A^H x: the ``adj_fn`` of classes whose ``adjoint`` keeps ``fn`` and changes parts.

    Use it for an operator whose adjoint has, for example, the adjoints of its operands.

    Examples
    --------
    >>> import torch
    >>> from linops_core import NamedLinop, of_adjoint
    >>> from nameddim import NamedShape
    >>> class Move(NamedLinop):
    ...     "Circular shift by some elements; ``adjoint`` changes their number."
    ...     n_elements = 1
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         return x.roll(linop.n_elements, -1)
    ...     adj_fn = staticmethod(of_adjoint)
    ...     def adjoint(self):
    ...         other = super().adjoint()
    ...         vars(other)["n_elements"] = -self.n_elements
    ...         return other
    >>> A = Move(NamedShape(("N",)))
    >>> A.adj_fn(A, torch.tensor([1, 2, 3]))
    tensor([2, 3, 1])
    """
    # If the class overrides adj_fn, its function has called that of a base class.
    cls: Any = next(base for base in type(linop).__mro__ if base.adj_fn is of_adjoint)  # type: ignore[attr-defined]
    is_own = cls is type(linop)
    is_swapped = linop.fn is not type(linop).fn
    adjoint = linop.H if is_own else cls.adjoint(linop.H if is_swapped else linop)
    y: Tensor = adjoint.fn(adjoint, x) if is_own else cls.fn(adjoint, x)
    return y


def swapped(linop: nn.Module) -> dict[str, Any]:
    """Return the functions of the adjoint by name."""
    turned = [*_PAIRS, *(pair[::-1] for pair in _PAIRS)]
    return {name: getattr(linop, other) for name, other in turned}


@Question.inherited
def has_sizes_of_names(linop: object) -> bool:
    """Whether names say which sizes an operator has, also with swapped functions."""
    return False


def check_swap(linop: Any, base: Any) -> None:
    """Raise an error if a copy with swapped functions is not the adjoint of an operator.

    Sizes and slices of the copy of a Chain, for example, would be those of the operands as they
    are, and not of their adjoints. ``base`` is the base class of all operators.
    """
    if linop.adj_fn is not of_adjoint and has_sizes_of_names(linop):
        return
    classes: Any = type(linop).__mro__
    for cls in classes:
        if issubclass(cls, base) and cls.adj_fn is of_adjoint and cls.fn is not base.fn:
            raise NotImplementedError(
                f"{linop.name}: there is no adjoint; the class must override adjoint(), too, "
                f"because {cls.__name__} makes the adjoint from its parts"
            )


def finish_swap(linop: Any) -> None:
    """Make a copy of A, in which ``fn`` and ``adj_fn`` were just swapped by hand, the adjoint of A.

    The other pairs of functions are swapped, too. If the class has :func:`of_adjoint`, the parts
    become those of the adjoint instead. A pair with functions that are not of the class stays.
    """
    cls, attributes = type(linop), vars(linop)
    if _is_swapped(linop, "fn", "adj_fn") and cls.adj_fn is of_adjoint:
        _take_parts_of_adjoint(linop)
    is_swapped = _is_swapped(linop, "fn", "adj_fn")
    if is_swapped is None:
        return
    for first, second in _PAIRS[1:]:
        if _is_swapped(linop, first, second) is not None:
            attributes[first], attributes[second] = getattr(cls, first), getattr(cls, second)
            if is_swapped:
                attributes[first], attributes[second] = attributes[second], attributes[first]


def _is_swapped(linop: nn.Module, first: str, second: str) -> bool | None:
    """Whether a pair is that of the class in the other order; None if it is another pair."""
    of_class = [getattr(type(linop), name) for name in (first, second)]
    pair = [getattr(linop, name) for name in (first, second)]
    return False if pair == of_class else True if pair[::-1] == of_class else None


def _take_parts_of_adjoint(linop: Any) -> None:
    attributes = vars(linop)
    for name in SWAPPED & attributes.keys():
        del attributes[name]
    adjoints = [vars(cls)["adjoint"] for cls in type(linop).__mro__ if "adjoint" in vars(cls)]
    # The adjoint of a class may itself swap the functions of a copy by hand; then the next one in
    # the order of its bases finishes the swap.
    level = attributes.pop("_n_swaps", 0)
    shape = attributes["_shape"]
    adjoint = adjoints[level](linked_copy(linop, shape.H, _n_swaps=level + 1))
    attributes.clear()
    attributes.update(vars(adjoint), _shape=shape, _has_relatives=False)
    attributes.pop("_n_swaps", None)
