"""Parts of weights: which there are, and which of them have elements in common."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memmap import has_internal_overlap, overlapping_pairs

_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True, eq=False)
class Root:
    """A weight that autograd follows, as flat memory: of a dense tensor, in the order it has."""

    device: torch.device
    shape: torch.Size
    stride: tuple[int, ...]
    order: list[int]

    def flat(self, tensor: Tensor) -> Tensor:
        """Return a tensor like the weight as its flat memory."""
        return tensor.permute(self.order).reshape(-1).contiguous()

    def shaped(self, flat: Tensor) -> Tensor:
        """Return flat memory as a tensor like the weight."""
        lengths = [self.shape[axis] for axis in self.order]
        return flat.view(lengths).permute(sorted(self.order, key=self.order.__getitem__))


@dataclass(frozen=True, eq=False)
class WeightPart:
    """A part of a weight, as a strided view of its flat memory, and a copy of that part."""

    root: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    copy: Tensor

    def of(self, flat: Tensor) -> Tensor:
        """Return the part of the flat memory of its weight."""
        return flat.as_strided(self.size, self.stride, self.offset + int(flat.storage_offset()))


class WeightParts:
    """Parts of weights, each once.

    Attributes
    ----------
    roots : list of Root
        The weights whose parts they are.
    parts : list of WeightPart
    """

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self.parts: list[WeightPart] = []
        self._root_of: dict[int, int] = {}
        self._part_at: dict[tuple[object, ...], int] = {}
        self._groups: list[list[int]] | None = None

    def add(self, weight: Tensor, tensor: Tensor, copy: Tensor) -> int:
        """Return the number of a part.

        Parameters
        ----------
        weight : Tensor
            Dense, and alive as long as parts are added.
        tensor : Tensor
            A view of it.
        copy : Tensor
            Like the view; copies of parts that overlap overlap.
        """
        root = self._root_of.setdefault(id(weight), len(self.roots))
        if root == len(self.roots):
            order = memory_order(weight)
            self.roots.append(Root(weight.device, weight.shape, weight.stride(), order))
        offset = int(tensor.storage_offset() - weight.storage_offset())
        place = root, tensor.shape, tensor.stride(), offset
        number = self._part_at.setdefault((*place, copy.device), len(self.parts))
        if number == len(self.parts):
            self._append(WeightPart(*place, copy))
        return number

    def add_alone(self, tensor: Tensor, copy: Tensor) -> int:
        """Return the number of a part that is all of a weight, whatever its memory looks like."""
        stride = torch.empty(tensor.shape, device="meta").stride()
        self.roots.append(Root(tensor.device, tensor.shape, stride, list(range(tensor.ndim))))
        self._append(WeightPart(len(self.roots) - 1, tensor.shape, stride, 0, copy))
        return len(self.parts) - 1

    def _append(self, part: WeightPart) -> None:
        self.parts.append(part)
        self._groups = None

    def groups(self) -> list[list[int]]:
        """Return the numbers of all parts, of one weight and overlapping each other in groups."""
        if self._groups is None:
            self._groups = self._found_groups()
        return self._groups

    def _found_groups(self) -> list[list[int]]:
        leaders = list(range(len(self.parts)))
        of_root: dict[int, list[int]] = {}
        for number, part in enumerate(self.parts):
            of_root.setdefault(part.root, []).append(number)
        for numbers in of_root.values():
            for i, j in overlapping_pairs([self.parts[number].copy for number in numbers]):
                one, other = leaders[numbers[i]], leaders[numbers[j]]
                leaders = [one if leader == other else leader for leader in leaders]
        groups: dict[int, list[int]] = {}
        for number, leader in enumerate(leaders):
            groups.setdefault(leader, []).append(number)
        return list(groups.values())


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
    return all(
        getter(one) == getter(other)
        for getter in (lambda t: t.dtype, Tensor.is_conj, Tensor.is_neg)
    )


def _is_dense(tensor: Tensor) -> bool:
    return tensor.permute(memory_order(tensor)).is_contiguous()
