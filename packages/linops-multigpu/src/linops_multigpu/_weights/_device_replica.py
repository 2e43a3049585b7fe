"""An operator at work on another device than the one its weights are on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop, Window, Wrapper, tile_of
from nameddim import NamedDimension, NamedShape

from .._devices._device_spec import as_device, probed
from ._replica import Replica, ReplicaPart


class DeviceReplica(Wrapper):
    r"""An operator that computes on another device, on copies that follow its weights.

    The operator as it was given, the source, stays where it is: its parameters are those of
    this module, to be trained, saved and loaded. The copies hold on the device what the source
    reads (of a tile, its slices). When a tensor of the source has been written to or replaced,
    it is copied anew before the next use. While autograd follows a tensor of the source, it follows
    it to the copies, and gradients return: what tiles share is summed on the device and sent once.

    Writes are seen as autograd sees them, by torch's version counter. Fused optimizers do not raise
    it, so the contents of weights that require gradients are compared on each call. Writes to
    frozen weights that torch does not count (``.data``, NumPy, DLPack) are not followed: write to
    the weight itself under ``torch.no_grad()``, or make the operator anew. What was made in
    inference mode is sent on each call.

    Parameters
    ----------
    source : NamedLinop
    device : torch.device
    copy : ReplicaPart, optional
        The same operator on the device, up to date when called. Made here by default.

    Raises
    ------
    TypeError
        If ``source`` is no operator.
    ValueError
        If there is no such device.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.ones(2), ("N",))
    >>> DeviceReplica(A, torch.device("meta"))(torch.empty(2, device="meta"))
    tensor(..., device='meta', size=(2,))
    """

    def __init__(
        self,
        source: NamedLinop,
        device: torch.device | str,
        copy: ReplicaPart | None = None,
    ) -> None:
        if not isinstance(source, NamedLinop):
            raise TypeError(f"DeviceReplica: source must be a NamedLinop, got {type(source)}")
        super().__init__(source)
        self.device = as_device(device)
        if copy is None:
            copy = ReplicaPart(Replica([source], probed(self.device)), 0)
        self.copy = copy  # a function, so the copies are nobody's to train or save

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """The device of its input: that on which it computes."""
        return (self.device,)

    @property
    def name(self) -> str:
        """The name of the operator and its device."""
        return f"{self.source.name} on {self.device}"

    @property
    def source(self) -> NamedLinop:
        """The operator as it was given, where it was given."""
        return self.linop

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, computed on the device."""
        y: Tensor = linop.up_to_date()(x)
        return y

    adj_fn = fn  # source and copy of an adjoint are adjoints

    def up_to_date(self) -> NamedLinop:
        """Return the operator on the device, with the values that its weights have now."""
        return self.copy()

    def _derived(self, derive: Callable[[NamedLinop], NamedLinop]) -> DeviceReplica:
        return DeviceReplica(derive(self.source), self.device, self.copy.derived(derive))

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, on the same device and with the same copies."""
        return self._derived(methodcaller("adjoint"))

    def conj(self) -> NamedLinop:
        """Return the conjugate, on the same device and with the same copies."""
        return self._derived(methodcaller("conj"))

    def own_normal(self) -> NamedLinop:
        """Return the normal operator, on the same device and with the same copies."""
        return self._derived(methodcaller("normal"))

    without_fftshift = NamedLinop.without_fftshift

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the part of the operator for each of the windows, on the same device."""
        return [self._derived(partial(tile_of, window=window)) for window in windows]

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        if not self._is_renamed_by(names):
            return self
        return self._derived(methodcaller("renamed", dict(names)))

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which is its own with wildcards replaced."""
        return self._derived(methodcaller("resolved", ishape=shape.ishape, oshape=shape.oshape))

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        return DeviceReplica(self.source.with_weights(change), self.device)


def replicated_together(sources: Sequence[NamedLinop], device: torch.device) -> list[DeviceReplica]:
    """Return the operators at work on ``device``, where they share what they share here."""
    replica = Replica(sources, device)
    return [
        DeviceReplica(source, device, ReplicaPart(replica, position))
        for position, source in enumerate(sources)
    ]
