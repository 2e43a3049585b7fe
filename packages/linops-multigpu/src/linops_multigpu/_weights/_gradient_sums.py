"""Sums of the gradients of weights: made where their copies are, sent to the weights once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from torch import Tensor

from linops_split.execution import Root, WeightPart, WeightParts

from .._devices._stream_pool import streams_on
from .._devices._transfer import Transfer, issue

_N_UNDER_WAY = 4
"""How many gradients are on their way to the weights at a time, at most."""


class DeviceGradientSums:
    """Sums of gradients, over the parts of weights that one stream of a device computes with.

    Of parts that overlap each element is summed once. Parts of a weight that is on the device of
    its copies are summed in the gradient of the weight itself.

    Parameters
    ----------
    parts : WeightParts
    """

    def __init__(self, parts: WeightParts) -> None:
        self.parts = parts
        self._groups = parts.groups()
        self._group_of = {n: i for i, group in enumerate(self._groups) for n in group}
        self._totals: dict[int, _Total] = {}
        self._whole: dict[int, Tensor] = {}

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient of a part, on the stream that is current."""
        part = self.parts.parts[number]
        root = self.parts.roots[part.root]
        if root.device == part.copy.device:
            if part.root not in self._whole:
                self._whole[part.root] = gradient.new_zeros(root.shape.numel())
            part.of(self._whole[part.root]).add_(gradient)
            return
        group = self._group_of[number]
        if group not in self._totals:
            members = [self.parts.parts[n] for n in self._groups[group]]
            self._totals[group] = _Total(root, members)
        self._totals[group].add(part, gradient)

    def whole(self) -> Iterable[tuple[int, Tensor]]:
        """Yield the number of each weight on this device, and its gradient as flat memory."""
        return self._whole.items()

    def totals(self) -> Iterable[_Total]:
        """Return the sums that are to be sent."""
        return self._totals.values()

    def tensors(self) -> Iterable[Tensor]:
        """Return the memory of all sums."""
        return chain(self._whole.values(), (total.values for total in self._totals.values()))


class _Total:
    """The sum of gradients of parts that overlap, over the memory that they have together."""

    values: Tensor

    def __init__(self, root: Root, parts: list[WeightPart]) -> None:
        self.root, self.parts = root, parts
        self._n_added = 0
        starts = [part.copy.storage_offset() for part in parts]
        stops = [
            1
            + part.copy.storage_offset()
            + sum((n - 1) * step for n, step in zip(part.size, part.copy.stride(), strict=True))
            for part in parts
        ]
        self._start, self._length = min(starts), max(stops) - min(starts)

    def add(self, part: WeightPart, gradient: Tensor) -> None:
        """Add the gradient of a part."""
        self._n_added += 1
        if len(self.parts) > 1:
            if self._n_added == 1:
                self.values = gradient.new_zeros(self._length)
            self.of(part, self.values).add_(gradient)
        elif self._n_added == 1:
            self.values = gradient  # which may be somebody else's, and must not be written to
        elif self._n_added == 2:
            self.values = self.values + gradient
        else:
            self.values.add_(gradient)

    def of(self, part: WeightPart, values: Tensor) -> Tensor:
        """Return what ``values``, which are like those of the sum, are for a part."""
        if len(self.parts) == 1:
            return values
        offset = part.copy.storage_offset() - self._start
        return values.as_strided(part.size, part.copy.stride(), offset)

    def is_whole(self) -> bool:
        """Whether it is the gradient of a weight, in the same order."""
        part = self.parts[0]
        own = part.size, part.stride, part.offset
        return len(self.parts) == 1 and own == (self.root.shape, self.root.stride, 0)


def returned(sums: Sequence[DeviceGradientSums]) -> dict[int, Tensor]:
    """Return the gradients of weights, each on the device of its weight, in its layout.

    It works on the streams that are current.

    Parameters
    ----------
    sums : sequence of DeviceGradientSums
        Over parts of the same weights; they are added up.
    """
    found = _Returned()
    for own in sums:
        for number, values in own.whole():
            found.add(number, own.parts.roots[number], values)
    under_way = deque[tuple[_Total, Transfer]]()
    for total in chain.from_iterable(own.totals() for own in sums):
        here, there = total.root.device, total.values.device
        ends = streams_on(there, peer=here), streams_on(here, peer=there)
        if len(under_way) == _N_UNDER_WAY:
            found.land(*under_way.popleft())
        under_way.append((total, issue(total.values, *ends)))
    for arriving in under_way:
        found.land(*arriving)
    return found.shaped()


class _Returned:
    """The gradients of weights, by number, as flat memory."""

    def __init__(self) -> None:
        self._roots: dict[int, Root] = {}
        self._flat: dict[int, Tensor] = {}

    def add(self, number: int, root: Root, flat: Tensor) -> None:
        """Add a gradient, which nobody else has."""
        self._roots[number] = root
        if number in self._flat:
            self._flat[number].add_(flat)
        else:
            self._flat[number] = flat

    def land(self, total: _Total, transfer: Transfer) -> None:
        """Add a sum that has been sent."""
        arrived, root, number = transfer.receive(), total.root, total.parts[0].root
        transfer.release()
        if len(total.parts) == 1 and number in self._flat:
            total.parts[0].of(self._flat[number]).add_(arrived)
        elif total.is_whole():
            self.add(number, root, root.flat(arrived))
        else:
            flat = arrived.new_zeros(root.shape.numel())
            for part in total.parts:
                part.of(flat).copy_(total.of(part, arrived))  # of what overlaps, the same twice
            self.add(number, root, flat)

    def shaped(self) -> dict[int, Tensor]:
        """Return the gradients, like their weights."""
        return {number: self._roots[number].shaped(flat) for number, flat in self._flat.items()}
