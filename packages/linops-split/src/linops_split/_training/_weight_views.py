"""The views of weights that operators read, and which of them overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from linops_core import NamedLinop
from memmap import has_internal_overlap, overlapping_pairs

from ._weights import tensors_read_by, weights_held_by

_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True)
class WeightLayout:
    """The memory layout, without gaps, of a weight that autograd follows."""

    device: torch.device
    shape: torch.Size
    stride: tuple[int, ...]

    def empty_like(self, tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return memory with the layout of the weight and the device and dtype of a tensor."""
        dtype = tensor.dtype if dtype is None else dtype
        return torch.empty_strided(self.shape, self.stride, dtype=dtype, device=tensor.device)

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Return a tensor that has the shape of the weight, with the strides of the weight too."""
        return tensor if tensor.stride() == self.stride else self.empty_like(tensor).copy_(tensor)


@dataclass(frozen=True, eq=False)
class WeightView:
    """A strided view of the memory of a weight, and a copy of what it shows."""

    weight_number: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    copy: Tensor

    def of(self, whole: Tensor) -> Tensor:
        """Return this view of a tensor that has the layout of the weight."""
        return whole.as_strided(self.size, self.stride, self.offset + int(whole.storage_offset()))


class WeightViews:
    """The weights that are read, their layouts, and the views that are read, each once."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.layouts: list[WeightLayout] = []
        self.views: list[WeightView] = []
        self._number_of: dict[int, int] = {}
        self._view_at: dict[tuple[object, ...], int] = {}

    def add(self, weight: Tensor, tensor: Tensor, copy: Tensor) -> int | None:
        """Return the number of the view for a tensor; None if the tensor requires no gradient.

        The tensor is the weight that an operator holds, or the view of it that a tile reads. If the
        weight is not dense, the tensor is a weight by itself. The copy has the layout of the
        tensor; copies of overlapping views overlap.
        """
        if not tensor.requires_grad:
            return None
        if not is_dense(weight) or not _is_view(tensor, weight):
            stride = torch.empty(tensor.shape, device="meta").stride()
            self._add_layout(tensor, stride)
            self.views.append(WeightView(len(self.layouts) - 1, tensor.shape, stride, 0, copy))
            return len(self.views) - 1
        number = self._number_of.setdefault(id(weight), len(self.layouts))
        if number == len(self.layouts):
            self._add_layout(weight, weight.stride())
        offset = int(tensor.storage_offset() - weight.storage_offset())
        view = number, tensor.shape, tensor.stride(), offset
        number = self._view_at.setdefault((*view, copy.device), len(self.views))
        if number == len(self.views):
            self.views.append(WeightView(*view, copy))
        return number

    def add_read_by(
        self, linop: NamedLinop, copies: Sequence[Tensor] | None = None
    ) -> list[tuple[int | None, Tensor, Tensor]]:
        """Add what an operator reads: return the number of each view, the tensor and its copy."""
        tensors = tensors_read_by(linop)
        reads = zip(weights_held_by(linop), tensors, copies or tensors, strict=True)
        return [(self.add(*each), *each[1:]) for each in reads]

    def _add_layout(self, weight: Tensor, stride: tuple[int, ...]) -> None:
        self.weights.append(weight)  # keeps the object alive, so that its identity stays valid
        self.layouts.append(WeightLayout(weight.device, weight.shape, stride))

    def read(self, number: int, weights: Sequence[Tensor]) -> Tensor:
        """Return a view of its weight, given tensors in place of all weights."""
        view = self.views[number]
        layout, weight = self.layouts[view.weight_number], weights[view.weight_number]
        is_whole = (view.size, view.stride, view.offset) == (layout.shape, layout.stride, 0)
        return weight if is_whole else view.of(weight)

    @cached_property
    def groups(self) -> list[list[int]]:
        """Groups of numbers of views that overlap; use it after all views were added."""
        group_of = {number: [number] for number in range(len(self.views))}
        of_weight: dict[int, list[int]] = {}
        for number, view in enumerate(self.views):
            of_weight.setdefault(view.weight_number, []).append(number)
        for numbers in of_weight.values():
            for i, j in overlapping_pairs([self.views[number].copy for number in numbers]):
                less, more = sorted((group_of[numbers[i]], group_of[numbers[j]]), key=len)
                if less is not more:
                    more += less
                    group_of.update(dict.fromkeys(less, more))
        return list({id(group): group for group in group_of.values()}.values())


def is_dense(weight: Tensor) -> bool:
    """Whether a weight has no gaps and no repeated elements."""
    if type(weight) not in _PLAIN or has_internal_overlap(weight):
        return False
    return weight.permute(memory_order(weight)).is_contiguous()


def memory_order(tensor: Tensor) -> list[int]:
    """Return the axes in memory order: a dense tensor is contiguous in this order."""
    axes = list(range(tensor.ndim))
    return axes if tensor.is_contiguous() else sorted(axes, key=tensor.stride, reverse=True)


def _is_view(tensor: Tensor, weight: Tensor) -> bool:
    """Whether a tensor is a weight, or a slice of it."""
    bases = [weight if weight._base is None else weight._base, weight]
    looks = [(each.dtype, each.is_conj(), each.is_neg()) for each in (tensor, weight)]
    return tensor is weight or (
        any(tensor._base is base for base in bases) and looks[0] == looks[1]
    )
