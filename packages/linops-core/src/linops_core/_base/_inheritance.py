"""What a class derived from an operator's does not inherit."""

from __future__ import annotations

_TRUE_OF_FN = (
    "adjoint",
    "conj",
    "normal",
    "normal_fn",
    "adj_normal_fn",
    "own_normal",
    "without_fftshift",
)

_PAST_FORWARD = ("normal", "normal_fn", "adj_normal_fn", "own_normal")
"""Those that do not go through the ``forward`` of the operator and of its adjoint."""


def forget_what_no_longer_holds(cls: type, base: type) -> None:
    """Give ``cls`` the general methods of ``base`` where it says anew what the operator does.

    A class that overrides the ``fn`` or ``adj_fn`` of another operator is another operator. The
    closed forms that the other one has are not its own, unless it says so itself. Nor are those
    of the normal, if it overrides ``forward``.
    """
    if "__call__" in vars(cls):
        raise TypeError(
            f"{cls.__name__}: an operator must say what it does in fn(linop, x), got a class that "
            "overrides __call__"
        )
    for name in _TRUE_OF_FN:
        definer = next(found for found in cls.__mro__ if name in vars(found))
        if definer in (cls, base) or not issubclass(definer, base):
            continue
        is_other = any(_is_replaced(fn, cls, definer, base) for fn in ("fn", "adj_fn"))
        if is_other or (name in _PAST_FORWARD and "forward" in vars(cls)):
            setattr(cls, name, vars(base)[name])


def _is_replaced(fn: str, cls: type, definer: type, base: type) -> bool:
    known = getattr(definer, fn)
    return known is not getattr(base, fn) and getattr(cls, fn) is not known
