"""Linear operators whose tiles sit on several devices."""

from ._batch_spec import BatchSpec as BatchSpec
from ._batch_spec import DeviceMatrix as DeviceMatrix
from ._batched import BatchedLinop as BatchedLinop
from ._create import create_batched_linop as create_batched_linop
from ._device_spec import DeviceSpec as DeviceSpec
from ._events import RepeatedEvent as RepeatedEvent
from ._placed import Placed as Placed
from ._plan import Action as Action
from ._plan import Kind as Kind
from ._plan import Plan as Plan
from ._remote import Remote as Remote
from ._timeline import Span as Span
from ._timeline import Timeline as Timeline
from ._to_device import ToDevice as ToDevice

__all__ = [
    "Action",
    "BatchSpec",
    "BatchedLinop",
    "DeviceMatrix",
    "DeviceSpec",
    "Kind",
    "Placed",
    "Plan",
    "Remote",
    "RepeatedEvent",
    "Span",
    "Timeline",
    "ToDevice",
    "create_batched_linop",
]
