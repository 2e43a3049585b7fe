"""Gradients to the weights of parts that work on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_split import Tiled, Tiles
from linops_split.execution import (
    Backward,
    Forward,
    PartCopies,
    RecordedByAutograd,
    Recording,
    read_by,
)

from .._devices._stream_pool import streams_on
from .._devices._to_device import ToDevice
from .._execution._call import one_call
from .._execution._device_tiles import DeviceTiles
from .._execution._execute import keep_view_of
from ._device_replica import DeviceReplica
from ._gradient_sums import DeviceGradientSums, returned

MOVING = (DeviceReplica, Tiled, ToDevice)
"""What reads weights from several devices, or moves vectors between them."""


class DeviceCopies(PartCopies):
    """Copies of parts for training, each on its device.

    Parameters
    ----------
    where : DeviceTiles

    Raises
    ------
    RecordedByAutograd
        If a part moves data between devices inside.
    """

    def __init__(self, where: DeviceTiles) -> None:
        self._where = where
        linops = [part.linop for part in where.tiles.parts]
        sources = [lin.source if isinstance(lin, DeviceReplica) else lin for lin in linops]
        for linop, source, device in zip(linops, sources, where.devices, strict=True):
            moves = any(isinstance(module, MOVING) for module in source.modules())
            tensors = (*source.parameters(), *source.buffers()) if source is linop else ()
            if moves or any(tensor.device != device for tensor in tensors):
                raise RecordedByAutograd
        replicas = [lin.copy.replica if isinstance(lin, DeviceReplica) else None for lin in linops]
        sent = {replica: replica.now() for replica in {*replicas} if replica is not None}
        self._sent = [None if replica is None else sent[replica] for replica in replicas]
        super().__init__(where.tiles, sources, [read_by(linop) for linop in on_devices(linops)])

    def are_current(self) -> bool:
        """Whether no weight was written to since, also by what torch does not count."""
        with one_call():
            return super().are_current() and all(
                sent.show() for sent in {*self._sent} if sent is not None
            )

    def wait(self, number: int) -> None:
        """Let the stream that is current wait for the weights of a part."""
        sent = self._sent[number]
        if sent is not None:
            sent.use()


def on_devices(linops: Sequence[NamedLinop]) -> list[NamedLinop]:
    """Return the operators where they work, with the values that their weights have now."""
    with torch.no_grad():
        return [lin.up_to_date() if isinstance(lin, DeviceReplica) else lin for lin in linops]


class DeviceForward(Forward):
    """The output of parts that work on several devices.

    Parameters
    ----------
    tiles : Tiles
    x : Tensor
    copies : DeviceCopies, optional
        What is called in the place of the parts.
    """

    def __init__(self, tiles: Tiles, x: Tensor, copies: DeviceCopies | None = None) -> None:
        super().__init__(tiles, x, None if copies is None else copies.frozen)
        self._copies = copies

    def operands(self) -> Sequence[Sequence[Tensor]]:
        """Return the slice of x that each part reads."""
        # Once for all parts: what copies bytes knows nothing of signs.
        return [self.tiles.input.views(self.x.resolve_conj().resolve_neg())]

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor:
        """Return what a part returns, once its weights are there."""
        if self._copies is not None:
            self._copies.wait(number)
        return super().compute(number, operands)


class DeviceBackward(Backward):
    """Gradients of parts that work on several devices.

    Parameters
    ----------
    recording : Recording
    where : DeviceTiles
    x, gradient : Tensor
    of_input : bool
        As for :class:`linops_split.execution.Backward`.
    """

    def __init__(
        self,
        recording: Recording,
        where: DeviceTiles,
        x: Tensor,
        gradient: Tensor,
        of_input: bool,
    ) -> None:
        x, gradient = (tensor.resolve_conj().resolve_neg() for tensor in (x, gradient))
        super().__init__(recording, x, gradient, of_input)
        self._where, self._lanes = where, where.lanes
        # Of each stream that computes: what two of them add to one sum would not be in order.
        self._sums: dict[int | None, DeviceGradientSums] = {}

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the gradient to what a part read, once its weights are there."""
        cast(DeviceCopies, self.recording.copies).wait(number)
        return super().compute(number, operands)

    def add(self, number: int, of: int, gradient: Tensor, operands: Sequence[Tensor]) -> None:
        """Add the gradient to a part of a weight, on the device of the part."""
        keep_view_of(operands, gradient)
        lane = self._lanes[number]
        if lane not in self._sums:
            self._sums[lane] = DeviceGradientSums(self.recording.copies.parts)
        self._sums[lane].add(of, gradient)

    def shaped(self) -> dict[int, Tensor]:
        """Return the gradients to the weights, each on the device of its weight.

        The execution made the streams of the caller wait for those that computed.
        """
        pairs = self._where.pairs
        for lane, sums in self._sums.items():
            spec = self._where.base if lane is None else pairs[lane].device
            if spec.compute_stream is not None:
                streams = streams_on(spec.device)
                for tensor in sums.tensors():
                    streams.backend.record_use(tensor, streams.compute)
        return returned([*self._sums.values()])


class DeviceRecording(Recording):
    """A call of parts on several devices that autograd follows."""

    def __init__(self, where: DeviceTiles, *args: Any) -> None:
        super().__init__(*args)
        self.where = where

    def check(self) -> None:
        """Refuse weights that are not those of the forward pass any more."""
        if not self.copies.are_current():
            raise RuntimeError(
                f"{self.signature}: weights must stay as they are until the gradient was "
                "computed, got some that were written to, replaced or moved"
            )

    def backward(self, x: Tensor, gradient: Tensor, of_input: bool) -> Backward:
        """Return what is computed for the gradients."""
        return DeviceBackward(self, self.where, x, gradient, of_input)

    def returned(self, work: Backward) -> dict[int, Tensor]:
        """Return the gradients of the weights, by their numbers."""
        return cast(DeviceBackward, work).shaped()
