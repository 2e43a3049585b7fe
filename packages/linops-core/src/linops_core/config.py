"""Settings for derived operators.

Read or assign these names of the module:

``cache_adjoint_normal`` (True)
    Whether ``A.H`` and ``A.N`` are kept, so that the next access returns the same operator, and
    ``A.H.H`` is ``A``. If False, every access makes a new operator. Operators that were kept before
    stay.
``reduce_identity_in_normal`` (True)
    Whether ``A.normal(Identity(...))`` is ``A.N``, which may have a closed form. If False, it is
    the composition of A and its adjoint. This setting matters in chains: ``(F S).N`` is
    ``S.normal(F.N)``, and the normal of a unitary F is an identity.

Settings do not change results. They are read when an operator is made, not when it is called. An
assignment holds in all threads. The settings of a block of :func:`using` take precedence in the
thread or task that entered the block.

How much freed memory glibc keeps is a setting of the process, not of this module. The first call of
an operator with a shape raises it, unless the environment variable ``MALLOC_MMAP_THRESHOLD_`` was
set before Python started: ``131072`` is the default of glibc.
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
        Settings by name; the others stay as they are.

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
    """A module whose settings may differ between threads, and which checks names."""

    def __getattribute__(self, name: str) -> object:
        """Return the current value of a setting, or another attribute of the module."""
        in_this_block = _in_this_block.get()
        return in_this_block[name] if name in in_this_block else super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a setting for all threads."""
        if name.startswith("__"):  # attributes of the import system
            super().__setattr__(name, value)
            return
        if name not in _SETTINGS:
            raise AttributeError(f"config: {_RULE}, got {name!r}")
        _check_value(name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Raise an error: a setting always has a value."""
        raise AttributeError(f"config: {name} cannot be deleted")


sys.modules[__name__].__class__ = _Config
