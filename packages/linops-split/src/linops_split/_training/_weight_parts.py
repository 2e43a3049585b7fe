"""Parts of weights: which there are, and which of them have elements in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from memmap import has_internal_overlap, overlapping_pairs

_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True)
class Root:
    """Where the elements of a weight are that autograd follows, which has no gaps."""

    device: torch.device
    shape: torch.Size
    stride: tuple[int, ...]

    def empty_like(self, tensor: Tensor) -> Tensor:
        """Return memory for a tensor like the weight, of the dtype and device of another."""
        return torch.empty_strided(
            self.shape, self.stride, dtype=tensor.dtype, device=tensor.device
        )

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the shape of the weight with its strides too."""
        return tensor if tensor.stride() == self.stride else self.empty_like(tensor).copy_(tensor)


@dataclass(frozen=True, eq=False)
class WeightPart:
    """A part of a weight, as a strided view of its memory, and a copy of that part."""

    root: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    copy: Tensor

    def of(self, whole: Tensor) -> Tensor:
        """Return the part of a tensor that has the shape and the strides of the weight."""
        return whole.as_strided(self.size, self.stride, self.offset + int(whole.storage_offset()))


class WeightParts:
    """Parts of weights, each once: of each weight where its elements are, and its parts."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.roots: list[Root] = []
        self.parts: list[WeightPart] = []
        self._root_of: dict[int, int] = {}
        self._part_at: dict[tuple[object, ...], int] = {}

    def add(self, tensor: Tensor, copy: Tensor) -> int | None:
        """Return the number of the part that a tensor is, None if autograd does not follow it.

        What is neither dense nor a view of what is dense is a weight by itself. The copy is like
        the tensor; copies of parts that overlap overlap.
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
        self.weights.append(weight)  # so that no other one has its identity
        self.roots.append(Root(weight.device, weight.shape, stride))

    @cached_property
    def groups(self) -> list[list[int]]:
        """The numbers of all parts, once all are there, of which some overlap, in groups."""
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
    """Return the dense tensor that autograd knows ``tensor`` as a view of, or it, or None."""
    if type(tensor) not in _PLAIN or has_internal_overlap(tensor):
        return None
    base = None if tensor.is_leaf else tensor._base
    if base is not None and base.requires_grad and _look_alike(base, tensor) and _is_dense(base):
        return base
    return tensor if _is_dense(tensor) else None


def memory_order(tensor: Tensor) -> list[int]:
    """Return the axes as they are in memory: in that order a dense tensor is contiguous."""
    axes = list(range(tensor.ndim))
    return axes if tensor.is_contiguous() else sorted(axes, key=tensor.stride, reverse=True)


def _look_alike(one: Tensor, other: Tensor) -> bool:
    """Whether the same bytes are the same numbers in both."""
    looks = [(tensor.dtype, tensor.is_conj(), tensor.is_neg()) for tensor in (one, other)]
    return looks[0] == looks[1]


def _is_dense(tensor: Tensor) -> bool:
    return tensor.permute(memory_order(tensor)).is_contiguous()
