"""The parts of weights that operators read, and which of them overlap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from memmap import has_internal_overlap, overlapping_pairs

_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True)
class Root:
    """The memory layout, without gaps, of a weight that autograd follows."""

    device: torch.device
    shape: torch.Size
    stride: tuple[int, ...]

    def empty_like(self, tensor: Tensor) -> Tensor:
        """Return memory with the layout of the weight and the dtype and device of a tensor."""
        return torch.empty_strided(
            self.shape, self.stride, dtype=tensor.dtype, device=tensor.device
        )

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Return a tensor that has the shape of the weight, with the strides of the weight too."""
        return tensor if tensor.stride() == self.stride else self.empty_like(tensor).copy_(tensor)


@dataclass(frozen=True, eq=False)
class WeightPart:
    """A part of a weight, as a strided view of its memory, and a copy of this part."""

    root: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    copy: Tensor

    def of(self, whole: Tensor) -> Tensor:
        """Return this part of a tensor that has the layout of the weight."""
        return whole.as_strided(self.size, self.stride, self.offset + int(whole.storage_offset()))


class WeightParts:
    """The weights that are read, their layouts, and their parts, each once."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.roots: list[Root] = []
        self.parts: list[WeightPart] = []
        self._root_of: dict[int, int] = {}
        self._part_at: dict[tuple[object, ...], int] = {}

    def add(self, tensor: Tensor, copy: Tensor) -> int | None:
        """Return the number of the part for a tensor; None if the tensor requires no gradient.

        A tensor that is neither dense nor a view of a dense one is a weight by itself. The copy has
        the layout of the tensor; copies of overlapping parts overlap.
        """
        if not tensor.requires_grad:
            return None
        weight = weight_of(tensor)
        if weight is None:
            stride = torch.empty(tensor.shape, device="meta").stride()
            self._add_root(tensor, stride)
            self.parts.append(WeightPart(len(self.roots) - 1, tensor.shape, stride, 0, copy))
            return len(self.parts) - 1
        root = self._root_of.setdefault(id(weight), len(self.roots))
        if root == len(self.roots):
            self._add_root(weight, weight.stride())
        offset = int(tensor.storage_offset() - weight.storage_offset())
        place = root, tensor.shape, tensor.stride(), offset
        number = self._part_at.setdefault((*place, copy.device), len(self.parts))
        if number == len(self.parts):
            self.parts.append(WeightPart(*place, copy))
        return number

    def _add_root(self, weight: Tensor, stride: tuple[int, ...]) -> None:
        self.weights.append(weight)  # keeps the object alive, so that its identity stays valid
        self.roots.append(Root(weight.device, weight.shape, stride))

    @cached_property
    def groups(self) -> list[list[int]]:
        """Groups of part numbers whose parts overlap; use it after all parts were added."""
        group_of = {number: [number] for number in range(len(self.parts))}
        of_root: dict[int, list[int]] = {}
        for number, part in enumerate(self.parts):
            of_root.setdefault(part.root, []).append(number)
        for numbers in of_root.values():
            for i, j in overlapping_pairs([self.parts[number].copy for number in numbers]):
                less, more = sorted((group_of[numbers[i]], group_of[numbers[j]]), key=len)
                if less is not more:
                    more += less
                    group_of.update(dict.fromkeys(less, more))
        return list({id(group): group for group in group_of.values()}.values())


def weight_of(tensor: Tensor) -> Tensor | None:
    """Return the dense weight that ``tensor`` is, or is a view of; None if there is none."""
    if type(tensor) not in _PLAIN or has_internal_overlap(tensor):
        return None
    base = None if tensor.is_leaf else tensor._base
    if base is not None and base.requires_grad and _look_alike(base, tensor) and _is_dense(base):
        return base
    return tensor if _is_dense(tensor) else None


def memory_order(tensor: Tensor) -> list[int]:
    """Return the axes in memory order: a dense tensor is contiguous in this order."""
    axes = list(range(tensor.ndim))
    return axes if tensor.is_contiguous() else sorted(axes, key=tensor.stride, reverse=True)


def _look_alike(one: Tensor, other: Tensor) -> bool:
    """Whether the same bytes mean the same numbers in both tensors."""
    looks = [(tensor.dtype, tensor.is_conj(), tensor.is_neg()) for tensor in (one, other)]
    return looks[0] == looks[1]


def _is_dense(tensor: Tensor) -> bool:
    return tensor.permute(memory_order(tensor)).is_contiguous()
