"""An operator on one device, for vectors on another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from linops_core import Composite, NamedLinop
from nameddim import NamedDimension

from .._devices._device_spec import DeviceSpec
from .._devices._stream_pool import follow_caller, let_caller_follow, streams_on
from .._devices._to_device import ToDevice


class Remote(Composite):
    r"""An operator that works on another device than the one where its input and output are.

    Its input is sent there and its output sent back, as by two :class:`ToDevice`. Its normal
    operator stays there in between.

    Parameters
    ----------
    linop : NamedLinop
        On vectors on ``device``.
    device, base : DeviceSpec
        Where it works, and where input and output are.

    Raises
    ------
    TypeError
        If they are something else.
    """

    _is_side_by_side = True

    def __init__(self, linop: NamedLinop, device: DeviceSpec, base: DeviceSpec) -> None:
        if not isinstance(linop, NamedLinop):
            raise TypeError(f"Remote: linop must be a NamedLinop, got {type(linop)}")
        for what, spec in (("device", device), ("base", base)):
            if not isinstance(spec, DeviceSpec):
                raise TypeError(f"Remote: {what} must be a DeviceSpec, got {spec!r}")
        super().__init__(linop.shape, [linop])
        self._is_endomorphism = linop.is_endomorphism
        self.device, self.base = device, base
        sending, receiving = base.transfer_stream, device.transfer_stream
        there = ToDevice(base.device, device.device, istream=sending, ostream=receiving)
        vars(self)["_ways"] = there, there.H  # no operands, so not to be found as modules

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """The device of its input: the base."""
        return (self.base.device,)

    @property
    def name(self) -> str:
        """The name with the device."""
        return f"{super().name} on {self.device.device}"

    @property
    def there(self) -> NamedLinop:
        """The operator, on vectors on its device."""
        return self.linops[0]

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, computed on the device."""
        there, back = linop._ways
        streams = streams_on(linop.device.device, linop.device)
        follow_caller(streams)
        with streams.backend.using(streams.compute):
            y: Tensor = back(linop.there(there(x)))
        let_caller_follow(streams)
        return y

    adj_fn = fn  # what is there for an adjoint is an adjoint

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, on the same device."""
        return self.with_operands([self.there.H], self.shape.H)

    def conj(self) -> NamedLinop:
        """Return the conjugate, on the same device."""
        return self.with_operands([self.there.conj()], self.shape)

    def own_normal(self) -> NamedLinop:
        """Return the normal operator, all of it on the device."""
        normal = self.there.N
        return self.with_operands([normal], normal.shape)

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator for data whose centre is first."""
        there = self.there.without_fftshift(dims)
        return None if there is None else self.with_operands([there], self.shape)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: as on the device."""
        return self.there.why_opaque(dim)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return the part of ``dim`` that is used."""
        return self.there.support(dim)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the operator, on the same device; see :meth:`NamedLinop.split`."""
        there = linop.there
        return linop.with_operands([there.split(there, linop.own_window(tile))])  # type: ignore[no-any-return]
