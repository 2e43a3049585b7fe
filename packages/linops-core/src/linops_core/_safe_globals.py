"""The classes in files of operators, for ``torch.load(weights_only=True)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from memmap.siblings import LAZY_MODULES
from nameddim import NamedDimension, NamedShape

from ._base._linop import NamedLinop

_FAMILY = "linops_"


# The list has classes; the annotation is that of torch.
def safe_globals(*packages: str) -> list[Callable[..., object] | tuple[Callable[..., object], str]]:
    """Return the classes of saved operators, for ``torch.load(weights_only=True)``.

    Pass them to the context ``torch.serialization.safe_globals``, or to ``add_safe_globals`` for
    the whole process; this function changes nothing. A file can then make objects of these classes
    and of those that torch allows, and set their attributes. No other class and no function is
    looked up.

    Parameters
    ----------
    *packages : str
        Top-level packages with your own operators; ``"__main__"`` for a script. A file can then
        call ``__init__`` and ``__setstate__`` of their classes with any arguments.

    Returns
    -------
    list of type
        Names and shapes of dimensions, ``slice``, ``range``, ``frozenset``, the operators of
        linops-core and of imported sister packages (after ``import torchlinops``, of all), and
        the classes in their ``NamedLinop.saved_with``.

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
    for package, home in LAZY_MODULES:  # which grows: an imported package adds its own
        if (package if home.startswith(".") else home).startswith(_FAMILY):
            import_module(home, package)
    classes: dict[type, None] = dict.fromkeys((slice, range, frozenset, NamedDimension, NamedShape))
    for cls in _below(NamedLinop):
        package, *modules = cls.__module__.split(".")
        is_ours = package.startswith(_FAMILY) and "testing" not in modules
        if is_ours or package in packages:
            classes[cls] = None
            for base in cls.__mro__:
                classes |= dict.fromkeys(vars(base).get("saved_with", ()))
    return list(classes)


def _below(cls: type[NamedLinop]) -> Iterator[type[NamedLinop]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _below(below)
