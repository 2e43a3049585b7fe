"""DeviceReplica: an operator that works on another device than its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop, Window, Wrapper
from linops_core.siblings import is_renamed_by, tile_of, without_fftshift
from nameddim import NamedDimension, NamedShape

from .._devices._device_spec import as_device, existing_device
from ._replica import Replica, ReplicaMember


class DeviceReplica(Wrapper):
    r"""An operator that computes on another device, on copies that follow its weights.

    The original operator, the source, stays where it is. Its parameters are those of this module:
    train, save and load them. The device holds copies of what the source reads (for a tile, its
    slices). If a tensor of the source was written to or replaced, it is copied again before the
    next use. Gradients return to the source: gradients of shared weights are summed on the device
    and sent back once.

    Writes are detected by torch's version counter, as in autograd. Fused optimizers do not increase
    it, so each call also compares the contents of weights that require gradients. Writes to frozen
    weights that torch does not count (``.data``, NumPy, DLPack) are not detected: write to the
    weight itself under ``torch.no_grad()``, or make the operator again. Tensors made in inference
    mode are sent on each call.

    Parameters
    ----------
    source : NamedLinop
    device : torch.device
    copy : ReplicaMember, optional
        Returns the same operator on the device, up to date. By default it is made here.

    Raises
    ------
    TypeError
        If ``source`` is not an operator.
    ValueError
        If the device does not exist.

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
        copy: ReplicaMember | None = None,
    ) -> None:
        if not isinstance(source, NamedLinop):
            raise TypeError(f"DeviceReplica: source must be a NamedLinop, got {type(source)}")
        super().__init__(source)
        self.device = as_device(device)
        if copy is None:
            copy = ReplicaMember(Replica([source], existing_device(self.device)), 0)
        self.copy = copy  # not a module, so that the copies are neither trained nor saved

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """The device of its input, on which it computes."""
        return (self.device,)

    @property
    def name(self) -> str:
        """The name of the operator and its device."""
        return f"{self.source.name} on {self.device}"

    @property
    def source(self) -> NamedLinop:
        """The original operator on its own device."""
        return self.linop

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, computed on the device."""
        y: Tensor = linop.up_to_date()(x)
        return y

    def up_to_date(self) -> NamedLinop:
        """Return the operator on the device, with the current values of its weights."""
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

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the restriction of the operator to each of the windows, on the same device."""
        return [self._derived(partial(tile_of, window=window)) for window in windows]

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with renamed dimensions."""
        if not is_renamed_by(self, names):
            return self
        return self._derived(methodcaller("renamed", dict(names)))

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which replaces the wildcards of its own shape."""
        return self._derived(methodcaller("resolved", ishape=shape.ishape, oshape=shape.oshape))

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operator for inputs with these dimensions, on the same device."""
        fitted = self.source.fitted_to(dims)
        return None if fitted is None else self._derived(methodcaller("fitted_to", dims))

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        return DeviceReplica(self.source.with_weights(change), self.device)


def replicated_together(sources: Sequence[NamedLinop], device: torch.device) -> list[DeviceReplica]:
    """Return replicas of the operators on ``device``; they share the copies of shared weights."""
    replica = Replica(sources, device)
    return [
        DeviceReplica(source, device, ReplicaMember(replica, position))
        for position, source in enumerate(sources)
    ]


@without_fftshift.register(DeviceReplica)
def _keeps_shifts(linop: DeviceReplica, dims: object) -> None:
    return None
