"""ToDevice: moving vectors between devices, as a linear operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.autograd.function import Function

from linops_core import Identity, NamedLinop, SliceableLinop, of_adjoint
from linops_split.siblings import is_batch
from nameddim import NamedDimension, NamedShape

from ._device_spec import DeviceSpec, as_device, stream_of
from ._stream_pool import streams_on
from ._streams import Stream
from ._transfer import send


class ToDevice(SliceableLinop):
    """The identity from vectors on one device to vectors on another.

    Its adjoint moves vectors back, and its normal operator is the identity. If both devices are the
    same, nothing is copied.

    Copies run on copy streams, so both devices go on computing. You need no synchronisation: on the
    current streams and on the host, the result can be used at once. The same holds for gradients.

    Parameters
    ----------
    idevice, odevice : torch.device or str
        The device of inputs, and the device of outputs.
    ioshape : sequence of dimensions, optional
        Default: any shape.
    istream, ostream : stream, optional
        The streams that send and receive, like the transfer stream of a :class:`DeviceSpec`.

    Raises
    ------
    ValueError
        If a device name is invalid, or a stream belongs to another device. When called: if the
        input is not on ``idevice``.
    TypeError
        If ``istream`` or ``ostream`` is not a stream.

    Examples
    --------
    >>> ToDevice("cpu", "meta", ("N",)).H
    ToDevice(meta -> cpu) (N) -> (N)
    """

    saved_with: ClassVar[tuple[type, ...]] = (DeviceSpec,)

    def __init__(
        self,
        idevice: torch.device | str,
        odevice: torch.device | str,
        ioshape: Sequence[NamedDimension | str] | None = None,
        istream: Stream | torch.Stream | None = None,
        ostream: Stream | torch.Stream | None = None,
    ) -> None:
        super().__init__(NamedShape(("...",) if ioshape is None else ioshape))
        source, target = as_device(idevice), as_device(odevice)
        self._ends = (
            DeviceSpec(source, transfer_stream=stream_of("ToDevice: istream", istream, source)),
            DeviceSpec(target, transfer_stream=stream_of("ToDevice: ostream", ostream, target)),
        )

    @property
    def idevice(self) -> torch.device:
        """The device of inputs."""
        return self._ends[0].device

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        return (self.idevice,)

    @property
    def odevice(self) -> torch.device:
        """The device of outputs."""
        return self._ends[1].device

    @property
    def istream(self) -> Stream | None:
        """The given stream that sends."""
        return self._ends[0].transfer_stream

    @property
    def ostream(self) -> Stream | None:
        """The given stream that receives."""
        return self._ends[1].transfer_stream

    @property
    def name(self) -> str:
        return f"{super().name}({self.idevice} -> {self.odevice})"

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        source, target = linop._ends
        if x.device != source.device:
            raise ValueError(f"{linop.name}: the input must be on {source.device}, got {x.device}")
        if source.device == target.device:
            return x
        return copy_on_device(x, source, target)

    adj_fn = staticmethod(of_adjoint)

    def adjoint(self) -> NamedLinop:
        other = cast(Self, super().adjoint())
        other._ends = self._ends[1], self._ends[0]
        return other

    def own_normal(self) -> NamedLinop:
        return Identity(self.ishape)


class _CopyOnDevice(Function):
    """A copy to another device that autograd, forward mode and vmap can follow."""

    @staticmethod
    def forward(x: Tensor, source: DeviceSpec, target: DeviceSpec) -> Tensor:
        if is_batch(x):  # of gradients, which has no storage to send; torch orders its copies
            return x.to(target.device)
        sending = streams_on(source.device, source, target.device)
        return send(x, sending, streams_on(target.device, target, source.device))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, source, target = inputs
        ctx.way_back = target, source

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        # This runs in a thread of autograd, which waits for the streams that are current there.
        return copy_on_device(gradient, *ctx.way_back), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        target, source = ctx.way_back
        return copy_on_device(tangent, source, target)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, source: DeviceSpec, to: DeviceSpec
    ) -> tuple[Tensor, int | None]:
        return copy_on_device(x, source, to), in_dims[0]


def copy_on_device(x: Tensor, source: DeviceSpec, target: DeviceSpec) -> Tensor:
    """Return a copy of ``x`` on another device; torch.compile breaks the graph here."""
    # Streams cannot be part of a graph. The compiler is used only while it is compiling, because
    # importing it takes a second and adds a warning filter.
    apply = (
        torch.compiler.disable(_CopyOnDevice.apply)
        if torch.compiler.is_compiling()
        else _CopyOnDevice.apply
    )
    return cast(Tensor, apply(x, source, target))
