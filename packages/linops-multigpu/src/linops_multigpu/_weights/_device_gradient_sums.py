"""Sums of the gradients of weights, made on the device of the copies and sent back once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from torch import Tensor

from linops_core.siblings import at_least_single
from linops_split.siblings import GradientSums, WeightViews
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

    def __init__(self, weight_views: WeightViews) -> None:
        super().__init__(weight_views)
        self._group_of = {number: group for group in weight_views.groups for number in group}
        self._views: dict[int, Tensor] = {}
        self.totals: list[tuple[list[int], Tensor]] = []
        """The sums to be sent, each with the numbers of the parts whose gradients it holds."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient of a part, on the current stream."""
        view = self.weight_views.views[number]
        if self.weight_views.layouts[view.weight_number].device == view.copy.device:
            super().add(number, gradient)
            return
        if number not in self._views:
            group = self._group_of[number]
            dtype = at_least_single(gradient.dtype)
            total = gradient.new_zeros(_length(self.weight_views, group), dtype=dtype)
            self.totals.append((group, total))
            views = views_of_group(self.weight_views, group, total)
            self._views.update(zip(group, views, strict=True))
        self._views[number].add_(gradient)


def _length(weight_views: WeightViews, group: list[int]) -> int:
    if len(group) == 1:
        return weight_views.views[group[0]].size.numel()
    start, stop = _span(weight_views, group)
    return stop - start


def _span(weight_views: WeightViews, group: list[int]) -> tuple[int, int]:
    """Return the range of the copies of overlapping parts, in elements of their storage."""
    spans = [tensor_memory_span(weight_views.views[number].copy) for number in group]
    ends = [span for span in spans if span is not None]
    return min(first for first, _ in ends), max(last for _, last in ends) + 1


def views_of_group(weight_views: WeightViews, group: list[int], total: Tensor) -> list[Tensor]:
    """Return the view of a sum, or of a copy of it, for each part."""
    copies = [weight_views.views[number].copy for number in group]
    if len(group) == 1:
        return [total.view(copies[0].shape)]
    start, _ = _span(weight_views, group)
    return [
        total.as_strided(copy.shape, copy.stride(), copy.storage_offset() - start)
        for copy in copies
    ]


def gradients_at_weights(
    weight_views: WeightViews, sums: Iterable[DeviceGradientSums]
) -> dict[int, Tensor]:
    """Return the gradients of weights, by number, each on the device of its weight.

    This works on the current streams, which must already wait for the streams that made the sums.
    """
    result = GradientSums(weight_views)
    totals: list[tuple[list[int], Tensor]] = []
    for each in sums:
        totals += each.totals
        for tensor in (*each.whole.values(), *(total for _, total in each.totals)):
            backend = backend_of(tensor.device)
            backend.record_use(tensor, backend.current_stream(tensor.device))
        for number, gradient in each.whole.items():
            result.add_whole(number, gradient)
    under_way = deque[tuple[list[int], Transfer]]()
    for group, total in totals:
        first = weight_views.views[group[0]]
        weight = weight_views.weights[first.weight_number]
        home, device = weight_views.layouts[first.weight_number].device, total.device
        ends = streams_on(device, peer=home), streams_on(home, peer=device)
        if len(under_way) == _N_UNDER_WAY:
            _land(result, *under_way.popleft())
        under_way.append((group, issue(total.to(weight.dtype), *ends)))
    for group, transfer in under_way:
        _land(result, group, transfer)
    return result.in_dtypes()


def _land(result: GradientSums, group: list[int], transfer: Transfer) -> None:
    """Add a sum that has been sent."""
    arrived = transfer.receive()
    transfer.release()
    members = [result.weight_views.views[number] for number in group]
    layout = result.weight_views.layouts[members[0].weight_number]
    views = views_of_group(result.weight_views, group, arrived)
    if len(group) > 1:
        whole = layout.empty_like(arrived).zero_()
        for view, values in zip(members, views, strict=True):
            view.of(whole).copy_(values)  # overlapping parts write the same values
        result.add_whole(members[0].weight_number, whole)
    elif (members[0].size, members[0].stride) == (layout.shape, layout.stride):
        result.add_whole(members[0].weight_number, views[0])
    else:
        result.add(group[0], views[0])
