"""What decides how much memory an operator takes, to find tiles that take the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

from torch import Tensor, nn

from linops_core import Cache
from linops_core.siblings import WeightPart

from .._private_torch import FakeTensor

Value = TypeVar("Value")

# Of modules: what calls do not read, or what they find again.
_IGNORED = {"_adjoint", "_memos", "_has_relatives", "_name", "_normal", "_steps", "_whole"}


class Structures:
    """What is equal for operators, tensors and numbers that take the same memory.

    Weights count by size, strides and dtype; the place of a tile in its weight does not count.
    Objects of unknown classes are equal if they say so. What was found about a module is kept:
    operators that keep what they compute do so in caches.
    """

    def __init__(self) -> None:
        self._structures = dict[int, tuple[nn.Module, _Seen]]()
        self._numbers = dict[Hashable, int]()
        self._first = dict[Hashable, Any]()

    def of(self, value: object) -> tuple[Hashable, list[Hashable]]:
        """Return what is equal, and the identities of caches, with their positions in weights."""
        seen = _Seen([], [])
        return self._of(value, seen), seen.caches

    def first_of(self, value: Value) -> Value:
        """Return the first of the values that were equal and share their caches."""
        key, caches = self.of(value)
        first: Value = self._first.setdefault((key, *caches), value)
        return first

    def _of(self, value: Any, seen: _Seen) -> Hashable:
        if isinstance(value, Tensor):
            device = value.fake_device if isinstance(value, FakeTensor) else value.device
            bits = value.is_conj(), value.is_neg(), value.requires_grad
            return value.shape, value.stride(), value.dtype, device, bits
        if isinstance(value, WeightPart):
            cut = [self._of(piece, seen) for piece in value.cut]
            seen.cuts.append(tuple(cut))
            lengths = tuple([None if p.start is None else p.stop - p.start for p in value.cut])
            return self._of(tuple(value._replace(cut=())), seen), lengths
        if isinstance(value, nn.Module):
            if id(value) not in self._structures:
                self._structures[id(value)] = value, self._of_module(value)
            structure = self._structures[id(value)][1]
            seen.cuts.extend(structure.cuts)
            seen.caches.extend(structure.caches)
            return structure.number
        if isinstance(value, dict):
            return tuple([(name, self._of(each, seen)) for name, each in value.items()])
        if isinstance(value, (tuple, list)):
            return type(value), tuple([self._of(each, seen) for each in value])
        if is_dataclass(value) and not isinstance(value, type):
            each = [getattr(value, field.name) for field in fields(value)]
            return type(value), self._of(each, seen)
        if isinstance(value, slice):
            return slice, value.start, value.stop, value.step
        if isinstance(value, (set, frozenset)):
            return frozenset(value)
        return type(value), value if type(value).__hash__ is not None else id(value)

    def _of_module(self, module: nn.Module) -> _Seen:
        structure, attributes, caches = _Seen([], []), list[Hashable](), list[int]()
        for name, value in vars(module).items():
            if isinstance(value, Cache):
                caches.append(id(value))
            elif name not in _IGNORED:
                attributes.append((name, self._of(value, structure)))
        structure.caches.extend([(cache, *structure.cuts) for cache in caches])
        key = type(module), *attributes
        return structure._replace(number=self._numbers.setdefault(key, len(self._numbers)))


class _Seen(NamedTuple):
    """What was found inside of an object; equal modules have the same number."""

    cuts: list[Hashable]
    caches: list[Hashable]
    number: int = 0
