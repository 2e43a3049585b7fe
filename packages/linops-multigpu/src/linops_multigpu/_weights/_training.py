"""Gradients to the weights of parts that work on several devices."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import one_call, submodules_of
from linops_split import Tiled
from linops_split.siblings import (
    GradientSums,
    PartCopies,
    RecordedByAutograd,
    tensors_read_by,
    weights_held_by,
)

from .._devices._to_device import ToDevice
from .._execution._device_tiles import DeviceTiles
from ._device_gradient_sums import DeviceGradientSums, gradients_at_weights
from ._device_replica import DeviceReplica

MOVING = (DeviceReplica, Tiled, ToDevice)
"""Operators that read weights on several devices, or move vectors between devices."""


class DeviceCopies(PartCopies):
    """Copies of parts for training, each on its device; raises if a part moves data inside."""

    def __init__(self, where: DeviceTiles) -> None:
        linops = where.tiles.linops
        sources = [lin.linop if isinstance(lin, DeviceReplica) else lin for lin in linops]
        for linop, source, device in zip(linops, sources, where.devices, strict=True):
            moves = any(isinstance(module, MOVING) for module in submodules_of(source))
            tensors = (*source.parameters(), *source.buffers()) if source is linop else ()
            if moves or any(tensor.device != device for tensor in tensors):
                raise RecordedByAutograd
        replicas = [lin.copy.replica if isinstance(lin, DeviceReplica) else None for lin in linops]
        sent = {replica: replica.current_copies() for replica in {*replicas} if replica is not None}
        self._sent = [None if replica is None else sent[replica] for replica in replicas]
        self._weights = list(map(weights_held_by, sources))  # alive after `functional_call`
        with torch.no_grad():
            plain = [lin.up_to_date() if isinstance(lin, DeviceReplica) else lin for lin in linops]
        super().__init__(where.tiles, sources, list(map(tensors_read_by, plain)))

    def have_changed(self) -> bool:
        """Whether a weight was written to or moved, including writes that torch does not count."""
        with one_call():
            seen = all(
                sent.snapshot.tensors_are_current() for sent in {*self._sent} if sent is not None
            )
            return not seen or super().have_changed()

    def trained(self, number: int) -> tuple[NamedLinop, dict[int, Tensor]]:
        """Return the operator on leaves, with the leaves; the current stream waits for them.

        A backward pass may use another stream than the forward pass. The copies were sent on the
        streams of the forward pass.
        """
        sent = self._sent[number]
        if sent is not None:
            sent.use()
        return super().trained(number)

    def new_sums(self) -> GradientSums:
        """Return empty sums of gradients for the parts of one device, on that device."""
        return DeviceGradientSums(self.weight_views)

    def gradients_at_weights(self, sums: Collection[GradientSums]) -> dict[int, Tensor]:
        """Return the gradients of the weights, each on the device of its weight."""
        return gradients_at_weights(self.weight_views, cast(Collection[DeviceGradientSums], sums))
