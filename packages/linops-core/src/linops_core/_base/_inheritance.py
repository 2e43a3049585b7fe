"""Methods that a class derived from an operator class must not inherit."""

from __future__ import annotations

from ._swapped_functions import of_adjoint

_TRUE_OF_FN = (
    "adjoint",
    "conj",
    "normal",
    "normal_fn",
    "adj_normal_fn",
    "own_normal",
    "without_fftshift",
    "along",
    "_takes_out",
    "_gains_by_slices",
    "_has_number_as_normal",
    "_normal_keeps_names",
    "_shift_axes",
)

_PAST_FORWARD = ("normal", "normal_fn", "adj_normal_fn", "own_normal", "_gains_by_slices")
"""Methods that bypass ``forward``: not inherited by a class that overrides it."""

_WITH_OUT = ("fn", "adj_fn", "normal_fn", "adj_normal_fn")
"""Functions that take ``out=`` if ``_takes_out`` says so."""


def forget_what_no_longer_holds(cls: type, base: type) -> None:
    """Give ``cls`` the general methods of ``base`` if it overrides ``fn`` or ``adj_fn``.

    Then it is another operator, and the closed forms of its parent do not hold. A class that
    overrides a closed form may have one without ``out=``.
    """
    if "__call__" in vars(cls):
        raise TypeError(
            f"{cls.__name__}: an operator must override fn(linop, x), got a class that "
            "overrides __call__"
        )
    for name in _TRUE_OF_FN:
        definer = next(found for found in cls.__mro__ if name in vars(found))
        if definer in (cls, base) or not issubclass(definer, base):
            continue
        is_other = any(_is_replaced(fn, cls, definer, base) for fn in ("fn", "adj_fn"))
        if name == "_takes_out":
            is_other = any(getattr(cls, fn) is not getattr(definer, fn) for fn in _WITH_OUT)
        if is_other or (name in _PAST_FORWARD and "forward" in vars(cls)):
            forgotten = [name]
            if name == "adjoint" and _of(cls, "adj_fn") is of_adjoint:
                forgotten.append("adj_fn")  # the base says that there is none
            for each in forgotten:
                setattr(cls, each, vars(base)[each])


def _is_replaced(fn: str, cls: type, definer: type, base: type) -> bool:
    known = _of(definer, fn)
    return known is not _of(base, fn) and _of(cls, fn) is not known


def _of(cls: type, name: str) -> object:
    return getattr(cls, name)
