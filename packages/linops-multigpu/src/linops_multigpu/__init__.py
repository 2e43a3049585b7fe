"""Linear operators whose tiles work on several devices."""

from ._batches._batch_spec import BatchSpec as BatchSpec
from ._batches._batch_spec import DeviceMatrix as DeviceMatrix
from ._batches._batched import batched as batched
from ._batches._batched_linop import BatchedLinop as BatchedLinop
from ._batches._create import create_batched_linop as create_batched_linop
from ._devices._device_spec import DeviceSpec as DeviceSpec
from ._devices._events import RepeatedEvent as RepeatedEvent
from ._devices._to_device import ToDevice as ToDevice
from ._execution._plan import Action as Action
from ._execution._plan import Kind as Kind
from ._execution._plan import Plan as Plan
from ._execution._timeline import Span as Span
from ._execution._timeline import Timeline as Timeline
from ._weights._device_replica import DeviceReplica as DeviceReplica

__version__ = "0.1.0"

__all__ = [
    "Action",
    "BatchSpec",
    "BatchedLinop",
    "DeviceMatrix",
    "DeviceReplica",
    "DeviceSpec",
    "Kind",
    "Plan",
    "RepeatedEvent",
    "Span",
    "Timeline",
    "ToDevice",
    "batched",
    "create_batched_linop",
]
