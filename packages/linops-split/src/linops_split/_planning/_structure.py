"""What decides how much memory an operator takes, to find tiles that take the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from linops_core import Cache
from linops_core.siblings import WeightPart

from .._private_torch import FakeTensor

# Of modules: what calls do not read, or what they find again.
_IGNORED = {"_adjoint", "_found", "_has_relatives", "_name", "_normal", "_steps", "_whole"}


class Structure:
    """What is equal for operators, tensors and numbers that take the same memory.

    Weights count by size, strides and dtype; the place of a tile in its weight does not count.
    Objects of unknown classes are equal if they say so.
    """

    def __init__(self, value: object) -> None:
        self._cuts: list[Hashable] = []
        self.caches: list[Hashable] = []
        """Identities of caches, with the places in weights of which they keep values."""
        self.key = self._of(value)

    def _of(self, value: Any) -> Hashable:
        if isinstance(value, Tensor):
            device = value.fake_device if isinstance(value, FakeTensor) else value.device
            bits = value.is_conj(), value.is_neg(), value.requires_grad
            return value.shape, value.stride(), value.dtype, device, bits
        if isinstance(value, WeightPart):
            cut = [self._of(piece) for piece in value.cut]
            self._cuts.append(tuple(cut))
            lengths = tuple([None if p.start is None else p.stop - p.start for p in value.cut])
            return self._of(tuple(value._replace(cut=()))), lengths
        if isinstance(value, nn.Module):
            return type(value), self._of_module(value)
        if isinstance(value, dict):
            return tuple([(name, self._of(each)) for name, each in value.items()])
        if isinstance(value, (tuple, list)):
            return type(value), tuple([self._of(each) for each in value])
        if is_dataclass(value) and not isinstance(value, type):
            return type(value), self._of([getattr(value, each.name) for each in fields(value)])
        if isinstance(value, slice):
            return slice, value.start, value.stop, value.step
        if isinstance(value, (set, frozenset)):
            return frozenset(value)
        return type(value), value if type(value).__hash__ is not None else id(value)

    def _of_module(self, module: nn.Module) -> Hashable:
        first, found, caches = len(self._cuts), list[Hashable](), list[int]()
        for name, value in vars(module).items():
            if isinstance(value, Cache):
                caches.append(id(value))
            elif name not in _IGNORED:
                found.append((name, self._of(value)))
        self.caches += [(cache, *self._cuts[first:]) for cache in caches]
        return tuple(found)
