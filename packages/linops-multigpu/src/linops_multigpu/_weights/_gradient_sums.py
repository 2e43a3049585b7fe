"""Sums of the gradients of weights, made on the device of the copies and sent back once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from torch import Tensor

from linops_split.siblings import GradientSums, WeightParts
from memmap import tensor_memory_span

from .._devices._stream_pool import streams_on
from .._devices._streams import backend_of
from .._devices._transfer import Transfer, issue

_N_UNDER_WAY = 4
"""The largest number of gradients that are on their way to the weights at a time."""


class DeviceGradientSums(GradientSums):
    """Sums of gradients, over the parts of weights that one stream of a device computes with.

    If a weight is on another device, the gradients of its parts are summed in memory laid out like
    their copies; overlapping parts share each common element.
    """

    def __init__(self, parts: WeightParts) -> None:
        super().__init__(parts)
        self._group_of = {number: group for group in parts.groups for number in group}
        self._views: dict[int, Tensor] = {}
        self.totals: list[tuple[list[int], Tensor]] = []
        """The sums to be sent, each with the numbers of the parts whose gradients it holds."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient of a part, on the current stream."""
        part = self.parts.parts[number]
        if self.parts.layouts[part.weight_number].device == part.copy.device:
            super().add(number, gradient)
            return
        if number not in self._views:
            group = self._group_of[number]
            total = gradient.new_zeros(_length(self.parts, group))
            self.totals.append((group, total))
            self._views.update(zip(group, views_of_group(self.parts, group, total), strict=True))
        self._views[number].add_(gradient)


def _length(parts: WeightParts, group: list[int]) -> int:
    if len(group) == 1:
        return parts.parts[group[0]].size.numel()
    start, stop = _span(parts, group)
    return stop - start


def _span(parts: WeightParts, group: list[int]) -> tuple[int, int]:
    """Return the range of the copies of overlapping parts, in elements of their storage."""
    spans = [tensor_memory_span(parts.parts[number].copy) for number in group]
    found = [span for span in spans if span is not None]
    return min(first for first, _ in found), max(last for _, last in found) + 1


def views_of_group(parts: WeightParts, group: list[int], total: Tensor) -> list[Tensor]:
    """Return the view of a sum, or of a copy of it, for each part."""
    copies = [parts.parts[number].copy for number in group]
    if len(group) == 1:
        return [total.view(copies[0].shape)]
    start, _ = _span(parts, group)
    return [
        total.as_strided(copy.shape, copy.stride(), copy.storage_offset() - start)
        for copy in copies
    ]


def gradients_at_weights(
    parts: WeightParts, sums: Iterable[DeviceGradientSums]
) -> dict[int, Tensor]:
    """Return the gradients of weights, by number, each on the device of its weight.

    This works on the current streams, which must already wait for the streams that made the sums.
    """
    found = GradientSums(parts)
    totals: list[tuple[list[int], Tensor]] = []
    for own in sums:
        totals += own.totals
        for tensor in (*own.whole.values(), *(total for _, total in own.totals)):
            backend = backend_of(tensor.device)
            backend.record_use(tensor, backend.current_stream(tensor.device))
        for number, gradient in own.whole.items():
            found.add_whole(number, gradient)
    under_way = deque[tuple[list[int], Transfer]]()
    for group, total in totals:
        here, there = parts.layouts[parts.parts[group[0]].weight_number].device, total.device
        ends = streams_on(there, peer=here), streams_on(here, peer=there)
        if len(under_way) == _N_UNDER_WAY:
            _land(found, *under_way.popleft())
        under_way.append((group, issue(total, *ends)))
    for group, transfer in under_way:
        _land(found, group, transfer)
    return found.whole


def _land(found: GradientSums, group: list[int], transfer: Transfer) -> None:
    """Add a sum that has been sent."""
    arrived = transfer.receive()
    transfer.release()
    members = [found.parts.parts[number] for number in group]
    layout = found.parts.layouts[members[0].weight_number]
    own = views_of_group(found.parts, group, arrived)
    if len(group) > 1:
        whole = layout.empty_like(arrived).zero_()
        for part, values in zip(members, own, strict=True):
            part.of(whole).copy_(values)  # overlapping parts write the same values
        found.add_whole(members[0].weight_number, whole)
    elif (members[0].size, members[0].stride) == (layout.shape, layout.stride):
        found.add_whole(members[0].weight_number, own[0])
    else:
        found.add(group[0], own[0])
