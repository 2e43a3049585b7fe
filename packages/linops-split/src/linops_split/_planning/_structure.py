"""What decides how much memory an operator takes, to find tiles that take the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from linops_core import Cache
from linops_core.siblings import WeightPart

from .._private_torch import FakeTensor

# Of modules: what calls do not read, or what they find again.
_IGNORED = {"_adjoint", "_found", "_has_relatives", "_name", "_normal", "_steps", "_whole"}


class Structures:
    """What is equal for operators, tensors and numbers that take the same memory.

    Weights count by size, strides and dtype; the place of a tile in its weight does not count.
    Objects of unknown classes are equal if they say so. What was found about a module is kept while
    it and its parts have the same attributes.
    """

    def __init__(self) -> None:
        self._known = dict[int, _Known]()

    def of(self, value: object) -> tuple[Hashable, list[Hashable]]:
        """Return what is equal, and the identities of caches, with their places in weights."""
        found = _Known()
        return self._of(value, found), found.caches

    def _of(self, value: Any, found: _Known) -> Hashable:
        if isinstance(value, Tensor):
            device = value.fake_device if isinstance(value, FakeTensor) else value.device
            bits = value.is_conj(), value.is_neg(), value.requires_grad
            return value.shape, value.stride(), value.dtype, device, bits
        if isinstance(value, WeightPart):
            cut = [self._of(piece, found) for piece in value.cut]
            found.cuts.append(tuple(cut))
            lengths = tuple([None if p.start is None else p.stop - p.start for p in value.cut])
            return self._of(tuple(value._replace(cut=())), found), lengths
        if isinstance(value, nn.Module):
            own = self._known.get(id(value))
            if own is None or not own.is_current():
                own = self._known[id(value)] = self._of_module(value)
            found.add(own)
            return own.key
        if isinstance(value, dict):
            return tuple([(name, self._of(each, found)) for name, each in value.items()])
        if isinstance(value, (tuple, list)):
            return type(value), tuple([self._of(each, found) for each in value])
        if is_dataclass(value) and not isinstance(value, type):
            each = [getattr(value, field.name) for field in fields(value)]
            return type(value), self._of(each, found)
        if isinstance(value, slice):
            return slice, value.start, value.stop, value.step
        if isinstance(value, (set, frozenset)):
            return frozenset(value)
        return type(value), value if type(value).__hash__ is not None else id(value)

    def _of_module(self, module: nn.Module) -> _Known:
        own, attributes, caches = _Known(), list[Hashable](), list[int]()
        for name, value in vars(module).items():
            if isinstance(value, Cache):
                caches.append(id(value))
            elif name not in _IGNORED:
                attributes.append((name, self._of(value, own)))
        own.caches += [(cache, *own.cuts) for cache in caches]
        own.key = type(module), tuple(attributes)
        own.modules.append((module, _attributes(module)))
        return own


@dataclass
class _Known:
    """What was found about a module and its parts."""

    key: Hashable = None
    cuts: list[Hashable] = field(default_factory=list)
    caches: list[Hashable] = field(default_factory=list)
    modules: list[tuple[nn.Module, list[int]]] = field(default_factory=list)

    def add(self, part: _Known) -> None:
        self.cuts += part.cuts
        self.caches += part.caches
        self.modules += part.modules

    def is_current(self) -> bool:
        return all(_attributes(module) == ids for module, ids in self.modules)


def _attributes(module: nn.Module) -> list[int]:
    return [id(value) for name, value in vars(module).items() if name not in _IGNORED]
