"""Moving vectors between devices, as a linear operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from linops_core import Identity, NamedLinop, SliceableLinop
from nameddim import NamedDimension, NamedShape

from ._devices import as_device


class ToDevice(SliceableLinop):
    r"""The identity from vectors on one device to vectors on another.

    Its adjoint goes the opposite way, and its normal operator is the identity. Where both
    devices are the same nothing is copied. The values have arrived when the result is used on
    the current stream of its device; a copy to the CPU has arrived when the call returns.

    Parameters
    ----------
    idevice, odevice : torch.device or str
        Where inputs are, and where outputs are to be.
    ioshape : sequence of dimensions, optional
        Any by default.

    Raises
    ------
    ValueError
        If a device has no such name; when called, if the input is not on ``idevice``.

    Examples
    --------
    >>> ToDevice("cpu", "meta", ("N",)).H
    ToDevice(meta -> cpu) (N) -> (N)
    """

    def __init__(
        self,
        idevice: torch.device | str,
        odevice: torch.device | str,
        ioshape: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        super().__init__(NamedShape(("...",) if ioshape is None else ioshape))
        self.idevice, self.odevice = as_device(idevice), as_device(odevice)

    @property
    def name(self) -> str:
        """The name with both devices."""
        return f"{super().name}({self.idevice} -> {self.odevice})"

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x on the output device."""
        if x.device != linop.idevice:
            raise ValueError(f"{linop.name}: the input must be on {linop.idevice}, got {x.device}")
        return x.to(linop.odevice)

    adj_fn = fn  # the devices of an adjoint are exchanged

    def adjoint(self) -> NamedLinop:
        """Return the operator from the output device to the input device."""
        other = super().adjoint()
        vars(other).update(idevice=self.odevice, odevice=self.idevice)
        return other

    def own_normal(self) -> NamedLinop:
        """Return the identity: there and back."""
        return Identity(self.ishape)
