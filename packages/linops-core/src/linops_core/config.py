"""Settings of how derived operators are made.

Each is a name of this module, to be read and assigned:

``cache_adjoint_normal`` (True)
    Whether an ``A.H`` or ``A.N`` is kept, so that the next access returns it and ``A.H.H`` is
    ``A``. If not, every access makes another one; what was kept before stays.
``reduce_identity_in_normal`` (True)
    Whether ``A.normal(Identity(...))`` is ``A.N``, and so may have a closed form. If not, it is
    made of the adjoint and the operator. It happens along a chain: ``(F S).N`` is
    ``S.normal(F.N)``, and the normal of a unitary F is an identity.

No setting changes the mathematics, and all are read when an operator is made, never when it is
called. An assignment holds in all threads; :func:`using` goes before it in its block, in the thread
or task that entered it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

__all__ = ["cache_adjoint_normal", "reduce_identity_in_normal", "using"]

cache_adjoint_normal: bool = True
reduce_identity_in_normal: bool = True

_SETTINGS = ("cache_adjoint_normal", "reduce_identity_in_normal")
_RULE = f"a setting must be one of {', '.join(_SETTINGS)}"
_in_this_block: ContextVar[Mapping[str, bool]] = ContextVar("linops_core.config", default={})  # noqa: B039 # never written to


@contextmanager
def using(**settings: bool) -> Iterator[None]:
    """Use these settings in a ``with`` block, or in a function that is decorated with it.

    Parameters
    ----------
    **settings : bool
        By their names; the others stay as they are.

    Raises
    ------
    TypeError
        If there is no setting of that name, or a value is not a bool.

    Examples
    --------
    >>> from linops_core import config
    >>> with config.using(cache_adjoint_normal=False):
    ...     config.cache_adjoint_normal
    False
    >>> config.cache_adjoint_normal
    True
    """
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise TypeError(f"using: {_RULE}, got {name!r}")
        _check_value(name, value)
    token = _in_this_block.set({**_in_this_block.get(), **settings})
    try:
        yield
    finally:
        _in_this_block.reset(token)


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"config: {name} must be True or False, got {value!r}")


class _Config(ModuleType):
    """A module whose settings may differ between threads, and which refuses misspelt names."""

    def __getattribute__(self, name: str) -> object:
        """Return the value of a setting that holds here, or anything else in the module."""
        in_this_block = _in_this_block.get()
        return in_this_block[name] if name in in_this_block else super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a setting for all threads."""
        if name.startswith("__"):  # what the import system sets
            super().__setattr__(name, value)
            return
        if name not in _SETTINGS:
            raise AttributeError(f"config: {_RULE}, got {name!r}")
        _check_value(name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Refuse: a setting always has a value."""
        raise AttributeError(f"config: {name} cannot be deleted")


sys.modules[__name__].__class__ = _Config
