"""Linear operators whose tiles sit on several devices."""

from ._batch_spec import BatchSpec as BatchSpec
from ._batch_spec import DeviceMatrix as DeviceMatrix
from ._batched import create_batched_linop as create_batched_linop
from ._device_spec import DeviceSpec as DeviceSpec
from ._events import RepeatedEvent as RepeatedEvent
from ._placed import Placed as Placed
from ._to_device import ToDevice as ToDevice

__all__ = [
    "BatchSpec",
    "DeviceMatrix",
    "DeviceSpec",
    "Placed",
    "RepeatedEvent",
    "ToDevice",
    "create_batched_linop",
]
