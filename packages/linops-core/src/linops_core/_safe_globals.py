"""The classes of which files of operators are made, for ``torch.load(weights_only=True)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nameddim import NamedDimension, NamedShape

from ._base._linop import NamedLinop

_FAMILY = "linops_"


# Returned are classes; the annotation is what torch takes.
def safe_globals(*packages: str) -> list[Callable[..., object] | tuple[Callable[..., object], str]]:
    """Return the classes of saved operators, to be allowed where a file is loaded without its code.

    They are given to ``torch.serialization.safe_globals``, a context, or ``add_safe_globals``, for
    good; this function changes nothing. A file then makes objects of these classes and of those
    that torch allows, and sets their attributes: no other class and no function is looked up.

    Parameters
    ----------
    *packages : str
        Top-level packages of operators of your own, ``"__main__"`` for a script; everything that
        their classes can be made to do in ``__init__`` and ``__setstate__`` is then allowed.

    Returns
    -------
    list of type
        Names and shapes of dimensions, ``slice``, ``range``, ``frozenset``, and those operators of
        linops-core and its sister packages that are imported, with the values that they say they
        keep (``NamedLinop.saved_with``).

    Examples
    --------
    >>> import io, torch
    >>> from linops_core import FFT, Diagonal
    >>> A, file = Diagonal(torch.ones(3), ("Kx",)) @ FFT(1, ()), io.BytesIO()
    >>> torch.save(A, file)
    >>> _ = file.seek(0)
    >>> with torch.serialization.safe_globals(safe_globals()):
    ...     B = torch.load(file, weights_only=True)
    >>> torch.equal(B(torch.ones(3)), A(torch.ones(3)))
    True
    """
    found: dict[type, None] = dict.fromkeys((slice, range, frozenset, NamedDimension, NamedShape))
    for cls in _below(NamedLinop):
        package, *modules = cls.__module__.split(".")
        is_ours = package.startswith(_FAMILY) and "testing" not in modules
        if is_ours or package in packages:
            found[cls] = None
            for base in cls.__mro__:
                found |= dict.fromkeys(vars(base).get("saved_with", ()))
    return list(found)


def _below(cls: type[NamedLinop]) -> Iterator[type[NamedLinop]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _below(below)
