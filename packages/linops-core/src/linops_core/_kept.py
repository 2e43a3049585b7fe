"""Values that are computed once and kept: three ways, one for each kind of value.

1. :class:`Memo`, for a value about an operator that needs no numbers of its tensors: lengths of
   dimensions, numbers of operands, plans of loops, tiles. One object for each kind of value is at
   the top of a module. The values lie with the operators. An operator with the same dimensions and
   attributes takes them over. All others, copies and files find their own.

2. :class:`Kept`, for a value that is computed from tensors: a table, a kernel, a count, the outcome
   of a check. It is an attribute that the constructor of an operator makes. Operators that read the
   same weights have the same one: an adjoint, a normal operator, a tile. A value is returned only
   for the tensors from which it was made, if they have not changed (:class:`TensorState`). Its key
   says what else decides it, such as a dtype. Ask :func:`is_plain` and :func:`writes_are_counted`
   first: they tell where changes are not seen.

   A copy with other tensors never has the ``Kept`` of its original, because the functions that copy
   operators replace every :class:`Cache`. A class need not do anything for it. Copies on the same
   tensors share one, so tiles that are sent to a device make one table there. Values are freed with
   the last operator that has them.

3. :func:`one_call` and :func:`made_once_per_call`, for a value that is right until a call ends: the
   comparison of weights, copies that were sent.

In each of them, ``get_or_make`` (or ``made_once_per_call``) returns the value, and calls a function
that makes it if none is kept. ``get`` returns None then. Do not keep values in dictionaries: copies
of operators take these over, and plans of memory do not know of them. An operator of your own keeps
values in a class that is derived from :class:`Cache`. Plans of graphs, which have no operator, are
kept for the numbers in memory by such a class in linops-imaging.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from threading import Lock
from typing import Any, Generic, Self, TypeVar, cast
from weakref import WeakValueDictionary

import torch
from torch import Size, Tensor

from ._kernels._changes import TensorState
from ._kernels._plain import wait_for
from ._kernels._torch_state import has_storage

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """A value about an operator, in the dictionary ``_memos`` of the operator.

    Parameters
    ----------
    is_own : bool
        Whether the value is about one object, so that no other operator takes it over.
    """

    def __init__(self, *, is_own: bool = False) -> None:
        self.is_own = is_own

    def get(self, linop: Any) -> Value | None:
        """Return the value that is kept with an operator, or None."""
        return cast("Value | None", linop.__dict__["_memos"].get(self))

    def get_or_make(self, linop: Any, make: Callable[[], Value]) -> Value:
        """Return the value that is kept with an operator; ``make`` computes it if none is."""
        kept = self.get(linop)
        return self.keep(linop, make()) if kept is None else kept

    def keep(self, linop: Any, value: Value) -> Value:
        """Keep a value with an operator, and return it."""
        linop.__dict__["_memos"][self] = value
        return value

    def forget(self, linop: Any) -> None:
        """Keep no value with an operator."""
        linop.__dict__["_memos"].pop(self, None)


CHECKED = Memo[tuple[tuple[object, ...], Size]](is_own=True)
"""The facts of the last call that was checked, and the shape of its result."""


def inherited_values(values: dict[Memo[Any], Any]) -> dict[Memo[Any], Any]:
    """Return the values that another operator with the same attributes takes over."""
    return {memo: value for memo, value in values.items() if not memo.is_own}


def has_fixed_lengths(shape: Size) -> bool:
    """Whether a shape can be a key: it has numbers, and not symbols of a tracer."""
    return all([type(length) is int for length in shape])


class Cache:
    """Values that are made at first use and kept, so that the first call takes more memory.

    Derive a class from it for values that your operator computes from its tensors, and make one in
    the constructor of the operator. Adjoints and tiles, which read the same weights, share it.
    Copies and files have an empty one, which is made without arguments. Keep what tells whether the
    tensors have changed, such as the version of a weight, beside the values.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it as an empty one."""
        return type(self), ()

    def related(self, key: Hashable) -> Self:
        """Return an empty one for an operator made from this one's, the same for equal keys.

        It is freed with the last operator that has it.
        """
        relatives: WeakValueDictionary[Hashable, Self]
        relatives = vars(self).setdefault("_relatives", WeakValueDictionary())
        return relatives.setdefault(key, copy(self))

    def for_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """Return the one of copies with these tensors."""
        return self.related(tuple(map(id, tensors)))


class Kept(Cache, Generic[Value]):
    """Values computed from some tensors, kept until these change.

    Parameters
    ----------
    is_only : bool
        Whether one value is kept at a time, also of copies with views of the same memory.
    """

    def __init__(self, is_only: bool = False) -> None:
        self._is_only, self._lock = is_only, Lock()
        # One attribute, because `get` may run while another thread replaces both.
        self._made: tuple[TensorState | None, dict[Hashable, Value]] = None, {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it as an empty one."""
        return type(self), (self._is_only,)

    def for_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """Return the one of copies with these tensors."""
        if not self._is_only:
            return super().for_tensors(tensors)
        memory = [t.untyped_storage()._cdata if has_storage(t) else id(t) for t in tensors]
        return self.related(frozenset(memory))

    def get(self, tensors: Sequence[Tensor], key: Hashable) -> Value | None:
        """Return the value if it was made for the tensors as they are now, else None."""
        state, values = self._made
        return values.get(key) if state is not None and state.is_current(*tensors) else None

    def get_or_make(
        self, tensors: Sequence[Tensor], key: Hashable, make: Callable[[], Value]
    ) -> Value:
        """Return ``make()`` for the current tensors, computed once for each key."""
        with self._lock:
            value = self.get(tensors, key)
            if value is None:
                wait_for(*tensors)
                state, values = self._made
                if self._is_only or state is None or not state.is_current(*tensors):
                    values = {}
                    self._made = None, values  # frees the old ones before the new one is made
                with torch.inference_mode(False), torch.no_grad():
                    state, value = TensorState(*tensors), make()
                wait_for(*tensors)
                values[key] = value
                self._made = state, values
            return value


_CALL: ContextVar[dict[Hashable, Any] | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Treat everything inside the block, also nested calls, as one call of this thread.

    Changes of weights during the call are not seen. While torch compiles there is no such scope,
    because it cannot trace a context variable.
    """
    if torch.compiler.is_compiling() or _CALL.get() is not None:
        yield
        return
    token = _CALL.set({})
    try:
        yield
    finally:
        _CALL.reset(token)


def made_once_per_call(key: Hashable, make: Callable[[], Value]) -> Value:
    """Return ``make()``, computed once for each key of a call; outside of one, each time."""
    call = None if torch.compiler.is_compiling() else _CALL.get()
    if call is None:
        return make()
    if key not in call:
        call[key] = make()
    return cast(Value, call[key])
